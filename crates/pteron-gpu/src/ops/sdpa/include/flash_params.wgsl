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

// Vectors of four per head.
override HEAD_VECTORS: u32 = 16u;
// Rotary position embedding of queries and new keys. 1: adjacent elements form pairs, and the table has a row per position. 2: elements of
// two halves form pairs, and the table has a row per new token, with an entry per element.
override ROTATED: u32 = 0u;

// The score of a masked key. Finite: shader compilers may assume that there are no infinities.
const MASKED_SCORE: f32 = -1e30;
// Kernels that use exp2 keep scores in units of ln 2.
const LOG2_E: f32 = 1.4426950408889634;
const LN_2: f32 = 0.6931471805599453;

// The number of keys that a row sees. Rows past the last see as many as the last.
fn visible_keys(row: u32, position: u32, context: u32) -> u32 {
    return select(context, position + min(row, params.rows - 1u) / params.group + 1u, params.causal == 1u);
}

// Offset of a row in the queries and in the output.
fn query_at(head: u32, row: u32) -> u32 {
    let token = row / params.group;
    return ((token * params.heads + head) * params.group + row % params.group) * HEAD_VECTORS;
}

// Rotates two interleaved pairs by angles with these cosines and sines.
fn rotate_pairs(v: vec4<f32>, c: vec2<f32>, s: vec2<f32>) -> vec4<f32> {
    return v * c.xxyy + vec4<f32>(-v.y, v.x, -v.w, v.z) * s.xxyy;
}
