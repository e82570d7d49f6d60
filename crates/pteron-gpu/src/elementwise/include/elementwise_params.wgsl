struct Params {
    // Dims of the output, innermost first; dims that are contiguous in every tensor are collapsed into one.
    dims: array<vec4<u32>, 2>,
    // The stride of each dim in each input, 0 where the input is broadcast.
    x: array<vec4<u32>, 2>,
    y: array<vec4<u32>, 2>,
    z: array<vec4<u32>, 2>,
    count: u32,
    rank: u32,
    // Bit 0: the four elements of a thread are in one row. Bits 1 to 3: x, y, z has them contiguous; else it broadcasts one element.
    flags: u32,
    // The operator's scalar arguments: the first four as floats and as integers, the others as floats.
    p: vec4<f32>,
    q: vec4<i32>,
    r: vec4<f32>,
}
