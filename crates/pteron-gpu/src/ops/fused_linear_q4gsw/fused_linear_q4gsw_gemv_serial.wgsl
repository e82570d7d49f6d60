// Up to three products of a few rows with 4-bit weights, where a processor plays the GPU: a thread computes four columns of all rows
// by itself. There are few threads to keep busy, and each barrier would cost more than what lies between two of them.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

override GROUP: u32 = 16u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let n = (group_index(group, groups) * GROUP + thread) * 4u;
    if n < params.n {
        gather(0u, n);
        for (var m = 0u; m < min(ROWS, params.m); m++) {
            finish(m, n, sums[m], up_sums[m], squares[m]);
        }
    }
}
