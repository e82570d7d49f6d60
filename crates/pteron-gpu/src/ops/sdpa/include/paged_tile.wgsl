// A tile of the work list: rows of one sequence, whose keys and values are in blocks of the pools.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> work: array<u32>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<KV>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

struct Tile {
    first_row: u32,
    end_row: u32,
    first_token: u32,
    position: u32,
    table: u32,
}

// The tile of this workgroup, and its index. Control flow around barriers takes their values as arguments instead.
var<private> own_tile: Tile;
var<private> own_index: u32;

fn load_tile(index: u32) -> Tile {
    let at = TILES + (params.first_tile + index) * TILE_WORDS;
    return Tile(work[at], work[at + 1u], work[at + 2u], work[at + 3u], work[at + 4u]);
}

fn end_row() -> u32 {
    return own_tile.end_row;
}

fn first_token() -> u32 {
    return own_tile.first_token;
}

fn tokens_of(tile: Tile) -> u32 {
    return tile.end_row / params.group - tile.first_token;
}

fn new_tokens() -> u32 {
    return tokens_of(own_tile);
}

fn row_position(row: u32, position: u32) -> u32 {
    return position + row / params.group - own_tile.first_token;
}

// The number of keys that a row of the sequence sees. Rows past the last see as many as the last.
fn visible_keys(row: u32, position: u32, context: u32) -> u32 {
    return row_position(min(row, own_tile.end_row - 1u), position) + 1u;
}

// The row of a position and a KV head in the pools.
fn cache_row(at: u32, head: u32) -> u32 {
    let block = work[own_tile.table + at / BLOCK_POSITIONS];
    return (block * BLOCK_POSITIONS + at % BLOCK_POSITIONS) * params.heads + head;
}

fn partial_row(head: u32, row: u32) -> u32 {
    return (own_index * params.heads + head) * ROWS + row - own_tile.first_row;
}

fn split_count() -> u32 {
    return select(1u, work[SPLITS], params.is_split == 1u);
}

//#include flash_new_rows
