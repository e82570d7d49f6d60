// A tensor [outer, dim, inner] with some indices of its middle dimension replaced by those of another tensor.
// A workgroup writes 256 words of the output, a thread one: an element, or four that are bytes.

//#include grid

struct Params {
    // Elements of the output.
    count: u32,
    inner: u32,
    dim: u32,
    // The first index that is replaced, how many are, and the distance between them.
    start: u32,
    length: u32,
    step: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> source: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// Elements in a word.
override LANES: u32 = 1u;

fn element_for(i: u32) -> u32 {
    let row = i / params.inner;
    // Below zero it is a huge number, and past the last replaced index as well.
    let past = row % params.dim - params.start;
    let number = past / params.step;
    let replaced = past % params.step == 0u && number < params.length;
    let at = (row / params.dim * params.length + number) * params.inner + i % params.inner;
    if replaced {
        return extractBits(source[at / LANES], 8u * (at % LANES), 32u / LANES);
    }
    return extractBits(x[i / LANES], 8u * (i % LANES), 32u / LANES);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    if word > (params.count - 1u) / LANES {
        return;
    }
    var bits = 0u;
    for (var lane = 0u; lane < LANES; lane++) {
        let i = word * LANES + lane;
        if i < params.count {
            bits |= element_for(i) << (8u * lane);
        }
    }
    out[word] = bits;
}
