// Heads of flash attention: their size, the layout of query rows, and rotary embedding. `params` has `heads` and `group`.

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

// Offset of a row in the queries and in the output.
fn query_at(head: u32, row: u32) -> u32 {
    let token = row / params.group;
    return ((token * params.heads + head) * params.group + row % params.group) * HEAD_VECTORS;
}

// Rotates two interleaved pairs by angles with these cosines and sines.
fn rotate_pairs(v: vec4<f32>, c: vec2<f32>, s: vec2<f32>) -> vec4<f32> {
    return v * c.xxyy + vec4<f32>(-v.y, v.x, -v.w, v.z) * s.xxyy;
}
