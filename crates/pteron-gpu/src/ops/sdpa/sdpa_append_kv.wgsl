// Appends new keys and values to their caches, keys with rotary embedding. A workgroup of 64 threads copies 64 vectors of
// each, one per thread.

//#include grid
//#include flash_params
//#include flash_rotation

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> step: array<u32>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<KV>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let at = group_index(group, groups) * 64u + thread;
    let width = params.heads * HEAD_VECTORS;
    if at < params.tokens * width {
        let position = step[params.step_base];
        let lane = at % HEAD_VECTORS;
        let token = at / width;
        var partner = k[at];
        if ROTATED == 2u {
            partner = k[at - lane + partner_lane(lane)];
        }
        k_cache[position * width + at] = to_cache(rotate_lane(k[at], partner, lane, token, position + token));
        v_cache[position * width + at] = to_cache(v[at]);
    }
}
