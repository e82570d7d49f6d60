// Tiles of columns of cooperative matrices, and the outputs of finished sums. Rows come divided by their factors, weights by
// WEIGHT_FACTOR.

//#include coop_matrix
//#include fused_linear_bias
//#include silu

//#unroll varying {VARYING}
var<workgroup> subgroup_count: u32;
//#end

override GATED: u32 = 0u;

// The tile of columns at a position; for SwiGLU the tiles of the two weights alternate. Positions past the last repeat it.
fn tile_at(position: u32) -> u32 {
    if GATED == 1u {
        return min(position / 2u, params.first_tile.y - 1u) + position % 2u * params.first_tile.y;
    }
    return min(position, params.tiles - 1u);
}

// Stores four outputs of a row, given the position of their tile, their column in it, and their sums; `up` is the second factor of SwiGLU.
fn store_outputs(row: u32, position: u32, local: u32, sum: vec4<f32>, up: vec4<f32>) {
    let tile = tile_at(position);
    let matrix = matrix_of_tile(tile);
    let column = (tile - params.first_tile[matrix]) * COLUMNS_PER_TILE + local;
    if row < params.m && position < params.tiles && column < params.width[matrix] {
        let factor = factors[row] * WEIGHT_FACTOR;
        let at = (row * params.width[matrix] + column) / 4u;
        var value = with_bias(matrix, column, sum * factor);
        if GATED == 1u {
            value = silu(value) * with_bias(1u, column, up * factor);
        }
        if params.has_addend == 1u {
            value += addend[at];
        }
        store_output(matrix, at, value);
    }
}
