// Bindings and functions of flash kernels that read new keys and values from the inputs.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> step: array<u32>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<KV>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

// A vector of a new token's key, with rotary embedding as in the cache.
fn new_key(token: u32, head: u32, lane: u32, position: u32) -> vec4<f32> {
    let start = (token * params.heads + head) * HEAD_VECTORS;
    let key = k[start + lane];
    var partner = key;
    if ROTATED == 2u {
        partner = k[start + partner_lane(lane)];
    }
    return rotate_lane(key, partner, lane, token, position);
}

// A vector of a query, with rotary embedding.
fn rotated_query(head: u32, row: u32, lane: u32, position: u32) -> vec4<f32> {
    let start = query_at(head, row);
    let query = q[start + lane];
    var partner = query;
    if ROTATED == 2u {
        partner = q[start + partner_lane(lane)];
    }
    return rotate_lane(query, partner, lane, row / params.group, position);
}

fn new_value(token: u32, head: u32, lane: u32) -> vec4<f32> {
    return v[(token * params.heads + head) * HEAD_VECTORS + lane];
}
