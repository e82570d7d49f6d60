// Up to three products of a few rows with 4-bit weights, where all subgroups have LANES threads: a workgroup computes four
// or eight columns of all rows. A subgroup adds up what its threads have, then a thread for each row what the subgroups have.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

override LANES: u32 = 32u;

// The sums of the subgroups, a row behind the other; those of the other four columns lie behind all rows.
var<workgroup> parts: array<vec4<f32>, THREADS / LANES * ROWS * (1u + TWICE)>;
var<workgroup> square_parts: array<f32, THREADS / LANES * ROWS>;

// Each subgroup leaves what its threads have together.
fn leave(subgroup: u32, lane: u32) {
    for (var m = 0u; m < ROWS; m++) {
        let sum = subgroupAdd(sums[m]);
        let at = subgroup * ROWS + m;
        if lane == 0u {
            parts[at] = sum;
        }
        if TWICE == 1u {
            let up = subgroupAdd(up_sums[m]);
            if lane == 0u {
                parts[THREADS / LANES * ROWS + at] = up;
            }
        }
        if NORM == 1u {
            let square = subgroupAdd(squares[m]);
            if lane == 0u {
                square_parts[at] = square;
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
        gather(subgroup * LANES + lane, n);
        leave(subgroup, lane);
        if thread < min(ROWS, params.m) {
            var sum = vec4<f32>();
            var up = vec4<f32>();
            var square = 0.0;
            for (var at = thread; at < THREADS / LANES * ROWS; at += ROWS) {
                sum += parts[at];
                if TWICE == 1u {
                    up += parts[THREADS / LANES * ROWS + at];
                }
                if NORM == 1u {
                    square += square_parts[at];
                }
            }
            finish(thread, n, sum, up, square);
        }
    }
}
