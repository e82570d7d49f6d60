// Adds the offsets that one index tensor contributes to those of a list of index tensors, which are broadcast to common dims.
// A workgroup of 256 threads computes 256 offsets, one per thread.

//#include grid

struct Params {
    // The common dims, innermost first, and the index tensor's strides.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    rank: u32,
    count: u32,
    // The length of the indexed dimension, and the offset from one of its indices to the next.
    limit: u32,
    factor: u32,
    // 1: there are no offsets yet.
    is_first: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> indices: array<i32>;
@group(0) @binding(2) var<storage, read_write> offsets: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    var rest = i;
    var at = 0u;
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        at += rest % dim * params.strides[axis / 4u][axis % 4u];
        rest /= dim;
    }
    let given = indices[at];
    let from_start = select(given, given + i32(params.limit), given < 0);
    let index = min(u32(max(from_start, 0)), params.limit - 1u);
    var offset = index * params.factor;
    if params.is_first == 0u {
        offset += offsets[i];
    }
    offsets[i] = offset;
}
