// Bindings of flash kernels that read new keys and values from the inputs, for one sequence whose caches are contiguous.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> step: array<u32>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<KV>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

// The end of the query rows.
fn end_row() -> u32 {
    return params.rows;
}

// The row of the sequence's first token in the inputs.
fn first_token() -> u32 {
    return 0u;
}

fn new_tokens() -> u32 {
    return params.tokens;
}

// The position of a query row's token.
fn row_position(row: u32, position: u32) -> u32 {
    return position + row / params.group;
}

// The row of a position and a KV head in the caches.
fn cache_row(at: u32, head: u32) -> u32 {
    return at * params.heads + head;
}

// The index of a row's partial results.
fn partial_row(head: u32, row: u32) -> u32 {
    return head * params.rows + row;
}

fn split_count() -> u32 {
    return step[params.step_base + 2u];
}

//#include flash_new_rows
