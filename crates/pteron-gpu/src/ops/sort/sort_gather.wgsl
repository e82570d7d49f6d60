// The first elements of sorted rows, and their indices. A workgroup of 256 threads writes 256 elements, one per thread.

//#include grid

struct Params {
    // Elements of the outputs.
    count: u32,
    // The rows of the input [outer, length, inner], and of the outputs [outer, taken, inner].
    length: u32,
    inner: u32,
    taken: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> x: array<u32>;
@group(0) @binding(3) var<storage, read_write> values: array<u32>;
@group(0) @binding(4) var<storage, read_write> indices: array<i32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let column = i % params.inner;
    let k = i / params.inner % params.taken;
    let outer = i / params.inner / params.taken;
    let index = min(pairs[(outer * params.inner + column) * params.length + k].y, params.length - 1u);
    values[i] = x[(outer * params.length + index) * params.inner + column];
    indices[i] = i32(index);
}
