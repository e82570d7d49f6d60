// The walk over the output: what a thread writes, its file says for four elements in one row and for four one by one.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    if together() {
        out[i] = in_one_row(i * 4u);
    } else {
        out[i] = one_by_one(i * 4u);
    }
}
