// Fused 4-bit linears for software adapters, any number of rows. A thread computes four columns of ROWS rows by itself: there are few
// threads, and a barrier would cost more than the work between two of them.

//#include grid
//#include fused_linear_params
//#include fused_linear_gemv
//#include fused_linear_store

override GROUP: u32 = 16u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let columns = GROUP * 4u;
    let across = (params.n + columns - 1u) / columns;
    let index = group_index(group, groups);
    first_row = index / across * ROWS;
    let n = index % across * columns + thread * 4u;
    if n < params.n && first_row < params.m {
        accumulate(0u, n);
        for (var m = 0u; m < min(ROWS, params.m - first_row); m++) {
            store_outputs(first_row + m, n, sums[m], up_sums[m], squares[m]);
        }
    }
}
