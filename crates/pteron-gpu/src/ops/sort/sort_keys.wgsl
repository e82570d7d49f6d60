// Writes a pair of a sort key and an index for each element of the rows of a tensor [outer, length, inner], row by row.
// A workgroup of 256 threads writes 256 pairs, one per thread.

//#include grid
//#include reducers

struct Params {
    // Elements.
    count: u32,
    length: u32,
    inner: u32,
    taken: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> pairs: array<vec2<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let row = i / params.length;
    let k = i % params.length;
    let at = (row / params.inner * params.length + k) * params.inner + row % params.inner;
    pairs[i] = vec2<u32>(key(x[at]), k);
}
