// Maxima of windows. `pool_window` describes the work of a thread.

//#include pool_window
//#include pool_maximum

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index < params.count {
        out[index] = maximum_of(output_at(index)).value;
    }
}
