// Appends new keys and values to their caches, keys with rotary embedding. A workgroup of 64 threads copies 64 vectors of
// each, one per thread.

//#include grid
//#include flash_params

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
        var key = k[at];
        if ROTATED == 1u {
            let angle = (position + at / width) * HEAD_VECTORS + at % HEAD_VECTORS;
            key = rotate_pairs(key, rope_table[angle], rope_table[params.sin_offset + angle]);
        }
        k_cache[position * width + at] = to_cache(key);
        v_cache[position * width + at] = to_cache(v[at]);
    }
}
