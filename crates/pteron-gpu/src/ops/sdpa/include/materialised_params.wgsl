// Parameters and indices of attention with materialised scores. The queries of a KV head are rows of one matrix: row r is
// query head r % group of token r / group. A plan may cut the scores into slices by KV heads or rows; a dispatch works on one
// slice, whose scores [heads, rows, stride] have the scratch to themselves. A kernel that includes this declares `params` and
// `step`.
struct Params {
    // KV heads, query heads per KV head, and query rows per KV head.
    heads: u32,
    group: u32,
    rows: u32,
    // Head dim, in elements.
    head_dim: u32,
    scale: f32,
    // 1: causal mask; 0: every token sees the whole context.
    causal: u32,
    // Index of the slice.
    slice_index: u32,
    // Offset of this operator's words in the per-step block.
    step_base: u32,
}

// The score of a masked key, which softmax maps to 0. Finite: shader compilers may assume that there are no infinities.
const MASKED_SCORE: f32 = -1e30;

struct Slice {
    // Cached tokens before the call and after it.
    position: u32,
    context: u32,
    // Floats from one row of scores to the next: the context, in whole vectors.
    stride: u32,
    // First KV head and row, and how many of each.
    head: u32,
    row: u32,
    heads: u32,
    rows: u32,
}

fn slice() -> Slice {
    let position = step[params.step_base];
    let context = step[params.step_base + 1u];
    let stride = step[params.step_base + 2u];
    let heads = step[params.step_base + 3u];
    let rows = step[params.step_base + 4u];
    let row_slices = (params.rows + rows - 1u) / rows;
    let head = params.slice_index / row_slices * heads;
    let row = params.slice_index % row_slices * rows;
    return Slice(position, context, stride, head, row, min(heads, params.heads - head), min(rows, params.rows - row));
}

// The number of keys that a row of the slice sees.
fn visible_keys(s: Slice, row: u32) -> u32 {
    if params.causal == 0u {
        return s.context;
    }
    return s.position + (s.row + row) / params.group + 1u;
}

// Offset of a row of the slice in the queries and in the output.
fn query_at(s: Slice, head: u32, row: u32) -> u32 {
    let r = s.row + row;
    let token = r / params.group;
    return ((token * params.heads + s.head + head) * params.group + r % params.group) * params.head_dim;
}

// Offset of a key or value in its cache.
fn cache_at(s: Slice, head: u32, position: u32) -> u32 {
    return (position * params.heads + s.head + head) * params.head_dim;
}

// Offset of a row of the slice in the scores, in floats.
fn scores_at(s: Slice, head: u32, row: u32) -> u32 {
    return (head * s.rows + row) * s.stride;
}
