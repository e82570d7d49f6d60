// Tiles: up to {ROWS} rows of one adapter. A tile has the slot of the adapter, or -1 for rows without one, the vectors of four that the
// adapter's rank takes, and its rows, -1 after the last.
const TILE_WORDS: u32 = 2u + {ROWS}u;

fn slot_of(tile: u32) -> i32 {
    return tiles[tile * TILE_WORDS];
}

fn rank_vectors(tile: u32) -> u32 {
    return u32(max(tiles[tile * TILE_WORDS + 1u], 0));
}

fn row_of(tile: u32, index: u32) -> i32 {
    return tiles[tile * TILE_WORDS + 2u + index];
}

fn halves(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
