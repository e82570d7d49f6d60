// Up to three products of a few rows with 4-bit weights, where all subgroups have one size: each subgroup computes COLUMNS
// columns of all rows, its lanes sharing k, and adds up what they have without waiting for another. A lane writes the outputs
// of a row. Subgroups past the last column compute it again and write nothing.

//#include grid
//#include linears_params
//#include linears_gemv
//#include linears_put

override THREADS: u32 = 128u;
override LANES: u32 = 32u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<O>;
@group(0) @binding(5) var<storage, read> addend: array<O>;
@group(0) @binding(6) var<storage, read_write> out0: array<O>;
@group(0) @binding(7) var<storage, read_write> out1: array<O>;
@group(0) @binding(8) var<storage, read_write> out2: array<O>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32) {
    let block = group_index(group, groups) * (THREADS / LANES) + subgroup;
    let last = params.n / COLUMNS - 1u;
    let n = min(block, last) * COLUMNS;
    gather(lane, n);
    for (var m = 0u; m < ROWS; m++) {
        sums[m] = widened(subgroupAdd(narrowed(sums[m])));
        if GATED == 1u {
            up_sums[m] = widened(subgroupAdd(narrowed(up_sums[m])));
        }
        if NORM == 1u {
            squares[m] = subgroupAdd(squares[m]);
        }
    }
    if block <= last {
        for (var m = 0u; m < min(ROWS, params.m); m++) {
            if lane == m % LANES {
                finish(m, n, sums[m], up_sums[m], squares[m]);
            }
        }
    }
}
