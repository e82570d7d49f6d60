// Marks each element of the output with the last source element that names it, counted from 1: the largest number wins, in whatever
// order threads run. A workgroup of 256 threads has 256 source elements, one per thread.

//#include grid
//#include scatter_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> marks: array<atomic<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let at = strided_offsets(vec4<u32>(i), 0u);
    atomicMax(&marks[named_element(at.x.x, words[at.y.x])], i + 1u);
}
