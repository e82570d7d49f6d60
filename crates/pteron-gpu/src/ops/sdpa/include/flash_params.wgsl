// Attention over a cache, queries of a KV head as rows of one matrix: row r is query head r % group of token r / group, so that
// a step of one token has rows enough for all heads that share keys.
struct Params {
    // KV heads, query heads of each, and the rows that makes with all tokens.
    heads: u32,
    group: u32,
    rows: u32,
    // New tokens.
    tokens: u32,
    scale: f32,
    // 1: a token sees itself and what came before it; 0: all of the context.
    causal: u32,
    // Where this operator's words start in the per-step block: position, context, parts of the context, and positions in each.
    step_base: u32,
    // Where sines begin behind the cosines, counted in pairs.
    sin_offset: u32,
}

// Vectors in a head.
override HEAD_VECTORS: u32 = 16u;
// 1: queries and keys are turned by their position before they meet.
override ROTATED: u32 = 0u;

// A score that counts for nothing. Finite: no target has to know infinities.
const MASKED_SCORE: f32 = -1e30;
// Kernels that raise two to a power have scores in units of ln 2.
const LOG2_E: f32 = 1.4426950408889634;
const LN_2: f32 = 0.6931471805599453;

// How many positions a row sees. Rows past the last see what the last sees.
fn visible_keys(row: u32, position: u32, context: u32) -> u32 {
    return select(context, position + min(row, params.rows - 1u) / params.group + 1u, params.causal == 1u);
}

// Where a row starts among the queries, and in the output.
fn query_at(head: u32, row: u32) -> u32 {
    let token = row / params.group;
    return ((token * params.heads + head) * params.group + row % params.group) * HEAD_VECTORS;
}

// Turns two pairs of neighbours by the rope_table whose cosines and sines these are.
fn rotate_pairs(v: vec4<f32>, c: vec2<f32>, s: vec2<f32>) -> vec4<f32> {
    return v * c.xxyy + vec4<f32>(-v.y, v.x, -v.w, v.z) * s.xxyy;
}
