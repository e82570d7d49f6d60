// The entry point of elementwise kernels with several inputs. The kernel defines `vectorised` and `element_by_element`, which compute
// the four output elements from `index` on.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    if is_vectorised() {
        out[i] = vectorised(i * 4u);
    } else {
        out[i] = element_by_element(i * 4u);
    }
}
