//#include walk

struct Params {
    // The other axes, innermost first, and for each how far a step goes in the source and in the output.
    dims: array<vec4<u32>, 2>,
    steps: array<vec4<u32>, 4>,
    rank: u32,
    // Indices of those axes, and tiles in all and along each axis.
    outer: u32,
    groups: u32,
    a_tiles: u32,
    b_tiles: u32,
    // The word of the step block that says which element of the source comes first.
    base: u32,
    // Elements along each axis, and the size of a tile.
    a: u32,
    b: u32,
    a_bits: u32,
    b_bits: u32,
    outer_bits: u32,
    // How far a step along `a` and `b` goes in the source, and along `a` in the output.
    a_step: u32,
    b_step: u32,
    a_pitch: u32,
}

@group(0) @binding(0) var<uniform> params: Params;

// Where the tile of a workgroup begins: along `a`, along `b`, and among the indices of the other axes.
fn tile_start(index: u32) -> vec3<u32> {
    let across = index / params.b_tiles;
    let outer = across / params.a_tiles;
    let a = across - outer * params.a_tiles;
    let b = index - across * params.b_tiles;
    return vec3<u32>(a << params.a_bits, b << params.b_bits, outer << params.outer_bits);
}
