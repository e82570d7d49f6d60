// Clears the marks of all elements. A workgroup of 256 threads clears 256 marks, one per thread.

//#include grid

struct Params {
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 4>,
    rank: u32,
    count: u32,
    limit: u32,
    index_stride: u32,
    value: u32,
    sources: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> marks: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.count {
        marks[i] = 0u;
    }
}
