// Parameters of scatters, and the element of the output that a source element names.

//#include strided_index

struct Params {
    // Dims of the source elements, innermost first. Strides in the output and in the indices, or in the tensor that holds them.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 4>,
    rank: u32,
    // Source elements, or elements of the output.
    count: u32,
    // The length of the indexed dimension, and its stride.
    limit: u32,
    index_stride: u32,
    // The number that replaces elements.
    value: u32,
    // Source elements.
    sources: u32,
}

// The offset in the output of a source element with this offset by its other indices.
fn named_element(own: u32, index: u32) -> u32 {
    return own + min(u32(max(bitcast<i32>(index), 0)), params.limit - 1u) * params.index_stride;
}

// The offset of the source element `i` in the tensor that holds it.
fn held_element(i: u32) -> u32 {
    return strided_offsets(vec4<u32>(i), 0u).x.x;
}
