// What kernels bind that find new keys and values outside the caches, and put them in.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> step: array<u32>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<KV>;
@group(0) @binding(8) var<storage, read_write> out: array<vec4<f32>>;

// A vector of the key of a new token, turned as the cache has it.
fn new_key(token: u32, head: u32, lane: u32, position: u32) -> vec4<f32> {
    let key = k[(token * params.heads + head) * LANES + lane];
    if ROTATED == 0u {
        return key;
    }
    let angle = (position + token) * LANES + lane;
    return turned(key, angles[angle], angles[params.sines + angle]);
}

fn new_value(token: u32, head: u32, lane: u32) -> vec4<f32> {
    return v[(token * params.heads + head) * LANES + lane];
}

// New keys and values of a head into their caches.
fn write_new(thread: u32, head: u32, position: u32) {
    for (var i = thread; i < params.tokens * LANES; i += THREADS) {
        let token = i / LANES;
        let lane = i % LANES;
        let at = ((position + token) * params.heads + head) * LANES + lane;
        k_cache[at] = cached(new_key(token, head, lane, position));
        v_cache[at] = cached(new_value(token, head, lane));
    }
}
