// A tensor read with strides of its own and written contiguously: slices, selects, plain copies.
// An item is a word or four of them; a workgroup copies 256 items, a thread one.

//#include grid

struct Params {
    // Dims of the output in items, innermost first, and for each the stride in the source.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    rank: u32,
    count: u32,
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<T>;
// One word: the item of the source that comes first. It may move from step to step.
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    var rest = i;
    var at = step[params.step_base];
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        at += (rest % dim) * params.strides[axis / 4u][axis % 4u];
        rest /= dim;
    }
    out[i] = source[at];
}
