// Maxima of windows, and their indices in the plane. `pool_window` describes the work of a thread.

//#include pool_window
//#include pool_maximum

@group(0) @binding(3) var<storage, read_write> indices: array<I>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index < params.count {
        let largest = maximum_of(output_at(index));
        out[index] = largest.value;
        indices[index] = largest.index;
    }
}
