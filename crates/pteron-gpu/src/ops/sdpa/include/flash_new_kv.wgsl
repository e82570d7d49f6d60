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
    let key = k[(token * params.heads + head) * HEAD_VECTORS + lane];
    if ROTATED == 0u {
        return key;
    }
    let angle = (position + token) * HEAD_VECTORS + lane;
    return rotate_pairs(key, rope_table[angle], rope_table[params.sin_offset + angle]);
}

fn new_value(token: u32, head: u32, lane: u32) -> vec4<f32> {
    return v[(token * params.heads + head) * HEAD_VECTORS + lane];
}
