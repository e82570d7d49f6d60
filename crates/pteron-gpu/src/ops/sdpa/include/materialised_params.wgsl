// What the attention kernels share. The queries of all heads that use a KV head are rows of one matrix: row r of a KV head is
// query head r % group of token r / group, so a step of one token still fills a tile. A plan may cut the scores of a call into
// rounds by KV heads or by rows; each slice_index has the scratch to itself: [heads of the slice, rows of the slice, stride].
// A kernel that includes this declares `params` and `step`.
struct Params {
    // KV heads, query heads of each, and the rows that makes with all tokens.
    heads: u32,
    group: u32,
    rows: u32,
    // A head's length, counted in the elements the kernel binds.
    head_dim: u32,
    scale: f32,
    // 1: a token sees itself and what came before it; 0: all of the context.
    causal: u32,
    // Which slice of the scores this is.
    slice_index: u32,
    // Where this operator's words start in the per-step block.
    step_base: u32,
}

// A score that softmax turns into 0. Finite: no target has to know infinities.
const MASKED_SCORE: f32 = -1e30;

struct Slice {
    // Cached tokens before the call's first and with its last.
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

// How many positions of the context a row of the slice sees.
fn visible_keys(s: Slice, row: u32) -> u32 {
    if params.causal == 0u {
        return s.context;
    }
    return s.position + (s.row + row) / params.group + 1u;
}

// Where a row of the slice starts among the queries, or in the output.
fn query_at(s: Slice, head: u32, row: u32) -> u32 {
    let r = s.row + row;
    let token = r / params.group;
    return ((token * params.heads + s.head + head) * params.group + r % params.group) * params.head_dim;
}

// Where a position's head starts in a cache.
fn cache_at(s: Slice, head: u32, position: u32) -> u32 {
    return (position * params.heads + s.head + head) * params.head_dim;
}

// Where a row of the slice starts among the scores, in floats.
fn scores_at(s: Slice, head: u32, row: u32) -> u32 {
    return (head * s.rows + row) * s.stride;
}
