// Fused 4-bit linears, few rows, for software adapters. A thread computes four columns of all rows by itself: there are few
// threads, and a barrier would cost more than the work between two of them.

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
        accumulate(0u, n);
        for (var m = 0u; m < min(ROWS, params.m); m++) {
            store_outputs(m, n, sums[m], up_sums[m], squares[m]);
        }
    }
}
