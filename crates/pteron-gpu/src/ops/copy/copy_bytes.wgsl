// A tensor of bytes, four a word, read with strides of its own and written contiguously.
// A workgroup writes 256 words, a thread one: the four bytes of a word come from anywhere.

//#include grid

struct Params {
    // Dims of the output in bytes, innermost first, and for each the stride in the source.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    rank: u32,
    count: u32,
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<u32>;
// One word: the byte of the source that comes first. It may move from step to step.
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

fn byte_for(i: u32) -> u32 {
    var rest = i;
    var at = step[params.step_base];
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        at += (rest % dim) * params.strides[axis / 4u][axis % 4u];
        rest /= dim;
    }
    return (source[at / 4u] >> (8u * (at % 4u))) & 0xffu;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    if word > (params.count - 1u) / 4u {
        return;
    }
    var bytes = 0u;
    for (var lane = 0u; lane < 4u; lane++) {
        let i = word * 4u + lane;
        if i < params.count {
            bytes |= byte_for(i) << (8u * lane);
        }
    }
    out[word] = bytes;
}
