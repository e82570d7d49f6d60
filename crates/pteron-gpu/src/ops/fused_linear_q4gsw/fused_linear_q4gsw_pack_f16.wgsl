// Packs rows as f16 for cooperative matrices: blocks of 16 rows, and in them matrices of 16 × 16, row by row, in the
// order along k of `fused_linear_coop_matrix.wgsl`. A workgroup of 256 threads packs one row: it finds the largest magnitude,
// divides the row by the power of two above it, so that nothing overflows, and stores that factor. With a norm, its weights
// are multiplied in and the inverse RMS goes into the factor. Subgroup reductions, then one barrier.

//#include grid

struct Params {
    rows: u32,
    // Vectors in a row.
    vectors: u32,
    eps: f32,
    // Vectors in a packed row: zeros follow the row's own.
    packed_vectors: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> packed: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> factors: array<f32>;

override NORM: u32 = 0u;

const THREADS: u32 = 256u;
const SUBGROUPS: u32 = 8u;

// Largest magnitude and sum of squares of each subgroup.
var<workgroup> subgroup_statistics: array<vec2<f32>, SUBGROUPS>;

fn weighted(row: u32, i: u32) -> vec4<f32> {
    var v = x[row * params.vectors + i];
    if NORM == 1u {
        v *= norm[i];
    }
    return v;
}

// The largest magnitude of a row, with the norm's weights, and the sum of squares without them.
fn row_statistics(row: u32, thread: u32, subgroup: u32, lane: u32) -> vec2<f32> {
    var high = 0.0;
    var squares = 0.0;
    for (var i = thread; i < params.vectors; i += THREADS) {
        let v = abs(weighted(row, i));
        high = max(high, max(max(v.x, v.y), max(v.z, v.w)));
        if NORM == 1u {
            let plain = x[row * params.vectors + i];
            squares += dot(plain, plain);
        }
    }
    let both = vec2<f32>(subgroupMax(high), subgroupAdd(squares));
    if lane == 0u {
        subgroup_statistics[subgroup] = both;
    }
    workgroupBarrier();
    var all = subgroup_statistics[0];
    for (var i = 1u; i < SUBGROUPS; i++) {
        all = vec2<f32>(max(all.x, subgroup_statistics[i].x), all.y + subgroup_statistics[i].y);
    }
    return all;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
    // Workgroups past the last row repeat it.
    let row = min(group_index(group, groups), params.rows - 1u);
    let all = row_statistics(row, thread, subgroup, lane);
    // Within the range of f32 factors.
    let exponent = clamp(frexp(all.x).exp, -100, 100);
    let shrink = ldexp(1.0, -exponent);
    for (var i = thread; i < params.packed_vectors / 2u; i += THREADS) {
        var a = vec4<f32>();
        var b = vec4<f32>();
        if 2u * i < params.vectors {
            a = weighted(row, 2u * i) * shrink;
            b = weighted(row, 2u * i + 1u) * shrink;
        }
        let at = row / 16u * 16u * params.packed_vectors + (i / 2u * 16u + row % 16u) * 4u + i % 2u * 2u;
        packed[at] = vec4<f16>(vec4<f32>(a.x, b.x, a.y, b.y));
        packed[at + 1u] = vec4<f16>(vec4<f32>(a.z, b.z, a.w, b.w));
    }
    if thread == 0u {
        var factor = ldexp(1.0, exponent);
        if NORM == 1u {
            factor *= inverseSqrt(all.y / f32(params.vectors * 4u) + params.eps);
        }
        factors[row] = factor;
    }
}
