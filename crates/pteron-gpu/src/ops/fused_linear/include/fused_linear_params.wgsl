// Parameters of the kernels of `fused_linear_q4gsw`: a product with one to three weight matrices, whose tiles follow one
// another in `weight`. Arrays below are indexed by matrix. In `scales`, tiles of scales come first, then the biases.
//
// A tile has 16 columns of the output, in units of 32 values of k (16 bytes, two values per byte, 8 for zero): the first unit of each
// column, then the second, and so on, an even number of them. Its scales are fours of a column: for every eight units, those of the
// even units of each column, then those of the odd units, unless they are the same.
struct Params {
    m: u32,
    // Columns of all outputs.
    n: u32,
    k: u32,
    // Epsilon of the norm.
    eps: f32,
    // Units per column of a tile, and fours of scales per eight units: 16, or 32 with different scales for odd units.
    units: u32,
    scale_lanes: u32,
    has_addend: u32,
    // First row of x; 0 with many rows, as for the addend.
    x_row: u32,
    // Per matrix: first column among all, columns, offset of its bias, and first tile. An absent matrix starts past every column.
    first: vec4<u32>,
    width: vec4<u32>,
    bias: vec4<u32>,
    first_tile: vec4<u32>,
    addend_row: u32,
    // Tiles of columns that are computed.
    tiles: u32,
    // The smallest scale of rows that are quantised to 8 bits; 0 for XNNPACK's rule.
    int8_eps: f32,
}

const NO_BIAS: u32 = 0xffffffffu;
const COLUMNS_PER_TILE: u32 = 16u;

fn matrix_of(n: u32) -> u32 {
    return select(0u, 1u, n >= params.first.y) + select(0u, 1u, n >= params.first.z);
}

// The matrix of a tile.
fn matrix_of_tile(tile: u32) -> u32 {
    return select(0u, 1u, tile >= params.first_tile.y) + select(0u, 1u, tile >= params.first_tile.z);
}

// The first unit of a matrix's column.
fn first_unit(matrix: u32, column: u32) -> u32 {
    return (params.first_tile[matrix] + column / COLUMNS_PER_TILE) * params.units * COLUMNS_PER_TILE + column % COLUMNS_PER_TILE;
}

// The offset of a matrix's column in the scales, and that of a unit's scale from there. The next column's is 4 further.
fn first_scale(matrix: u32, column: u32) -> u32 {
    let tile = params.first_tile[matrix] + column / COLUMNS_PER_TILE;
    return (tile * ((params.k / 32u + 7u) / 8u) * params.scale_lanes + column % COLUMNS_PER_TILE) * 4u;
}

fn scale_of_unit(unit: u32) -> u32 {
    return (unit / 8u * params.scale_lanes + unit % 2u * (params.scale_lanes - COLUMNS_PER_TILE)) * 4u + unit % 8u / 2u;
}
