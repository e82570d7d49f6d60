struct Params {
    // Dims of the output, innermost first; those that every tensor runs through alike are joined.
    dims: array<vec4<u32>, 2>,
    // For each of them the stride in each input, 0 where it repeats.
    x: array<vec4<u32>, 2>,
    y: array<vec4<u32>, 2>,
    z: array<vec4<u32>, 2>,
    count: u32,
    rank: u32,
    // Bit 0: the four elements of a thread lie in one row. Bits 1 to 3: and so they do in x, y, z; else there is one for all.
    modes: u32,
    // The operator's numbers, as floats and as integers.
    p: vec4<f32>,
    q: vec4<i32>,
}
