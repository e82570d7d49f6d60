//#include strided_index

struct Params {
    // The other axes, innermost first, and the stride of each in the source and in the output.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 4>,
    rank: u32,
    // The number of indices of those axes, of tiles in all and along each axis.
    outer: u32,
    groups: u32,
    a_tiles: u32,
    b_tiles: u32,
    // The word of the step block that holds the offset of the first element.
    base: u32,
    // Elements along each axis, and the tile's size in bits.
    a: u32,
    b: u32,
    a_bits: u32,
    b_bits: u32,
    outer_bits: u32,
    // The strides of `a` and `b` in the source, and of `a` in the output.
    a_stride: u32,
    b_stride: u32,
    out_a_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;

// The start of a workgroup's tile: along `a`, along `b`, and along the other axes.
fn tile_start(index: u32) -> vec3<u32> {
    let across = index / params.b_tiles;
    let outer = across / params.a_tiles;
    let a = across - outer * params.a_tiles;
    let b = index - across * params.b_tiles;
    return vec3<u32>(a << params.a_bits, b << params.b_bits, outer << params.outer_bits);
}
