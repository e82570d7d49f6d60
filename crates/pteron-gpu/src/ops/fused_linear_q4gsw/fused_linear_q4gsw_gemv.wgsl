// Up to three products of a few rows with 4-bit weights, on any device: a workgroup computes four columns of all rows, its 64
// threads sharing k. What they have is then added up in a tree of workgroup memory, and a thread writes four outputs of a row.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

const HALF: u32 = 32u;

// The sums of half the threads, a row behind the other; those of gated twins lie behind all rows.
var<workgroup> parts: array<vec4<f32>, HALF * ROWS * (1u + TWICE)>;
var<workgroup> square_parts: array<f32, HALF * ROWS>;

// The upper half of the threads leaves what it has, then the lower half adds its own.
fn leave(thread: u32) {
    for (var m = 0u; m < ROWS; m++) {
        let at = m * HALF + thread % HALF;
        if thread >= HALF {
            parts[at] = sums[m];
            square_parts[at] = squares[m];
            if TWICE == 1u {
                parts[HALF * ROWS + at] = up_sums[m];
            }
        }
    }
    workgroupBarrier();
    for (var m = 0u; m < ROWS; m++) {
        let at = m * HALF + thread % HALF;
        if thread < HALF {
            parts[at] += sums[m];
            square_parts[at] += squares[m];
            if TWICE == 1u {
                parts[HALF * ROWS + at] += up_sums[m];
            }
        }
    }
}

fn add_up(thread: u32) {
    for (var half = HALF / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            for (var m = 0u; m < ROWS; m++) {
                let at = m * HALF + thread;
                parts[at] += parts[at + half];
                square_parts[at] += square_parts[at + half];
                if TWICE == 1u {
                    parts[HALF * ROWS + at] += parts[HALF * ROWS + at + half];
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
        gather(thread, n);
        leave(thread);
        add_up(thread);
        if thread < min(ROWS, params.m) {
            let at = thread * HALF;
            var up = vec4<f32>();
            if TWICE == 1u {
                up = parts[HALF * ROWS + at];
            }
            finish(thread, n, parts[at], up, square_parts[at]);
        }
    }
}
