// Fused 4-bit linears, few rows, with subgroup reductions over clusters of LANES threads. A workgroup computes four or eight columns
// of all rows. Each cluster reduces the sums of its threads; after one barrier a thread per row adds those of the clusters.

//#include grid
//#include lanes
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

// The sums of the clusters, row after row; those of the other four columns follow all rows.
var<workgroup> partials: array<vec4<f32>, THREADS / LANES * ROWS * (1u + TWO_BLOCKS)>;
var<workgroup> square_partials: array<f32, THREADS / LANES * ROWS>;

// Stores the sums of each cluster's threads.
fn leave(cluster: u32, lane: u32) {
    for (var m = 0u; m < ROWS; m++) {
        let sum = sum_vector_lanes(sums[m]);
        let at = cluster * ROWS + m;
        if lane == 0u {
            partials[at] = sum;
        }
        if TWO_BLOCKS == 1u {
            let up = sum_vector_lanes(up_sums[m]);
            if lane == 0u {
                partials[THREADS / LANES * ROWS + at] = up;
            }
        }
        if NORM == 1u {
            let square = sum_lanes(squares[m]);
            if lane == 0u {
                square_partials[at] = square;
            }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
    let thread = thread_of(subgroup, lane, subgroup_size);
    let n = group_index(group, groups) * (4u + 4u * WIDE);
    if n < params.n {
        accumulate(thread, n);
        leave(thread / LANES, thread % LANES);
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
