// Parameters of flash attention. The queries of a KV head are rows of one matrix: row r is query head r % group of token r /
// group, so a decode step fills a tile with the heads that share keys (grouped-query attention).
struct Params {
    // KV heads, query heads per KV head, and query rows per KV head.
    heads: u32,
    group: u32,
    rows: u32,
    // New tokens.
    tokens: u32,
    scale: f32,
    // 1: causal mask; 0: every token sees the whole context.
    causal: u32,
    // Offset of this operator's words in the per-step block: position, context, splits, keys per split.
    step_base: u32,
    // Offset of the sines after the cosines, in pairs.
    sin_offset: u32,
    // A position after the new tokens, or the last: what is loaded in place of cached keys where there are none.
    free_position: u32,
    // Vectors per head that are rotated, where elements of two halves form pairs.
    rotary_vectors: u32,
}

//#include flash_heads

// The number of keys that a row sees. Rows past the last see as many as the last.
fn visible_keys(row: u32, position: u32, context: u32) -> u32 {
    return select(context, position + min(row, params.rows - 1u) / params.group + 1u, params.causal == 1u);
}
