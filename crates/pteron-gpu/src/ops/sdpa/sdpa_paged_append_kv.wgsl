// Appends new keys and values to the pools, keys with rotary embedding. A workgroup of 64 threads copies 64 vectors of each, one per
// thread. The work list names the slot and the position of every token.

//#include grid
//#include paged_params
//#include flash_rotation

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> work: array<u32>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<KV>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let at = group_index(group, groups) * 64u + thread;
    let width = params.heads * HEAD_VECTORS;
    let token = at / width;
    if token < params.tokens {
        let slot = work[work[SLOTS] + token * SLOT_WORDS];
        let position = work[work[SLOTS] + token * SLOT_WORDS + 1u];
        let lane = at % HEAD_VECTORS;
        var partner = k[at];
        if ROTATED == 2u {
            partner = k[at - lane + partner_lane(lane)];
        }
        k_cache[slot * width + at % width] = to_cache(rotate_lane(k[at], partner, lane, token, position));
        v_cache[slot * width + at % width] = to_cache(v[at]);
    }
}
