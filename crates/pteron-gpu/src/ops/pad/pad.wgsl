// A tensor with a border around it, or with its edges cut off: a border of one number, or of elements of the tensor that are mirrored,
// repeated or wrapped around.
// A workgroup writes 256 words of the output, a thread one: an element, or four that are bytes.

//#include grid

struct Params {
    // Dims of the output, innermost first; how many elements of the border come before in each; dims and strides of the source.
    dims: array<vec4<u32>, 2>,
    before: array<vec4<i32>, 2>,
    inner: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    rank: u32,
    count: u32,
    // The border's number as an element.
    fill: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

// Elements in a word.
override LANES: u32 = 1u;
// The border: 0 one number, 1 mirrored without the edge, 2 the edge repeated, 3 wrapped around.
override MODE: u32 = 0u;

// The index in the source for one that may be outside of its `size` elements.
fn inner_index(index: i32, size: i32) -> u32 {
    var at = index;
    if MODE == 1u {
        at = abs(index);
        at = select(at, 2 * (size - 1) - at, at >= size);
    } else if MODE == 3u {
        at = index % size;
        at = select(at, at + size, at < 0);
    }
    return u32(clamp(at, 0, size - 1));
}

fn element_at(place: u32) -> u32 {
    if LANES == 1u {
        return source[place];
    }
    return (source[place / 4u] >> (8u * (place % 4u))) & 0xffu;
}

fn element_for(i: u32) -> u32 {
    var rest = i;
    var at = 0u;
    var inside = true;
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        // Below zero it is a huge number, and outside as well.
        var index = rest % dim - bitcast<u32>(params.before[axis / 4u][axis % 4u]);
        rest /= dim;
        let size = params.inner[axis / 4u][axis % 4u];
        if MODE == 0u {
            inside = inside && index < size;
        } else {
            index = inner_index(bitcast<i32>(index), i32(size));
        }
        at += index * params.strides[axis / 4u][axis % 4u];
    }
    if inside {
        return element_at(at);
    }
    return params.fill;
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
