// Fused 4-bit linears, few rows, portable. A workgroup of 64 threads computes four columns (eight for SwiGLU) of all rows.
// Threads share k; a tree reduction in workgroup memory adds their sums, and one thread per row stores four outputs.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

const HALF: u32 = 32u;

// Partial sums of half the threads, by row; the second four columns follow all rows.
var<workgroup> partials: array<vec4<f32>, HALF * ROWS * (1u + TWO_BLOCKS)>;
var<workgroup> square_partials: array<f32, HALF * ROWS>;

// The upper half of the threads stores its sums, then the lower half adds its own.
fn store_partials(thread: u32) {
    for (var m = 0u; m < ROWS; m++) {
        let at = m * HALF + thread % HALF;
        if thread >= HALF {
            partials[at] = sums[m];
            square_partials[at] = squares[m];
            if TWO_BLOCKS == 1u {
                partials[HALF * ROWS + at] = up_sums[m];
            }
        }
    }
    workgroupBarrier();
    for (var m = 0u; m < ROWS; m++) {
        let at = m * HALF + thread % HALF;
        if thread < HALF {
            partials[at] += sums[m];
            square_partials[at] += squares[m];
            if TWO_BLOCKS == 1u {
                partials[HALF * ROWS + at] += up_sums[m];
            }
        }
    }
}

fn reduce(thread: u32) {
    for (var half = HALF / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            for (var m = 0u; m < ROWS; m++) {
                let at = m * HALF + thread;
                partials[at] += partials[at + half];
                square_partials[at] += square_partials[at + half];
                if TWO_BLOCKS == 1u {
                    partials[HALF * ROWS + at] += partials[HALF * ROWS + at + half];
                }
            }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let n = group_index(group, groups) * 4u;
    if n < params.n {
        accumulate(thread, n);
        store_partials(thread);
        reduce(thread);
        if thread < min(ROWS, params.m) {
            let at = thread * HALF;
            var up = vec4<f32>();
            if TWO_BLOCKS == 1u {
                up = partials[HALF * ROWS + at];
            }
            store_outputs(thread, n, partials[at], up, square_partials[at]);
        }
    }
}
