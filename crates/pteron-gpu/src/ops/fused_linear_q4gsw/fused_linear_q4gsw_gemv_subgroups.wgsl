// Fused 4-bit linears, few rows, with subgroups of LANES threads. A workgroup computes four or eight columns of all rows. Each
// subgroup reduces the sums of its threads; after one barrier a thread per row adds those of the subgroups.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

override LANES: u32 = 32u;

// The sums of the subgroups, row after row; those of the other four columns follow all rows.
var<workgroup> partials: array<vec4<f32>, THREADS / LANES * ROWS * (1u + TWO_BLOCKS)>;
var<workgroup> square_partials: array<f32, THREADS / LANES * ROWS>;

// Stores the sums of each subgroup's threads.
fn leave(subgroup: u32, lane: u32) {
    for (var m = 0u; m < ROWS; m++) {
        let sum = subgroupAdd(sums[m]);
        let at = subgroup * ROWS + m;
        if lane == 0u {
            partials[at] = sum;
        }
        if TWO_BLOCKS == 1u {
            let up = subgroupAdd(up_sums[m]);
            if lane == 0u {
                partials[THREADS / LANES * ROWS + at] = up;
            }
        }
        if NORM == 1u {
            let square = subgroupAdd(squares[m]);
            if lane == 0u {
                square_partials[at] = square;
            }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
    let n = group_index(group, groups) * (4u + 4u * WIDE);
    if n < params.n {
        accumulate(subgroup * LANES + lane, n);
        leave(subgroup, lane);
        if thread < min(ROWS, params.m) {
            var sum = vec4<f32>();
            var up = vec4<f32>();
            var square = 0.0;
            for (var at = thread; at < THREADS / LANES * ROWS; at += ROWS) {
                sum += partials[at];
                if TWO_BLOCKS == 1u {
                    up += partials[THREADS / LANES * ROWS + at];
                }
                if NORM == 1u {
                    square += square_partials[at];
                }
            }
            store_outputs(thread, n, sum, up, square);
        }
    }
}
