// Weights times cached values, AV. A workgroup of 64 threads computes 64 elements along the head for 4 rows: a thread computes
// 4 rows by one element, with 4 loads of values and 4 vector loads of weights per 4 keys. No workgroup memory.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v_cache: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let tiles = (s.rows + 3u) / 4u;
    let item = group_index(group, groups) * 64u + thread;
    let lane = item % params.head_dim;
    let row = item / params.head_dim % tiles * 4u;
    let head = item / params.head_dim / tiles;
    if head >= s.heads {
        return;
    }
    let last = min(row + 3u, s.rows - 1u);
    let w0 = scores_at(s, head, row) / 4u;
    let w1 = scores_at(s, head, min(row + 1u, last)) / 4u;
    let w2 = scores_at(s, head, min(row + 2u, last)) / 4u;
    let w3 = scores_at(s, head, last) / 4u;
    let pitch = params.heads * params.head_dim;
    var v = cache_at(s, head, 0u) + lane;
    var a0 = 0.0;
    var a1 = 0.0;
    var a2 = 0.0;
    var a3 = 0.0;
    // Past the keys that the last row sees all weights are 0.
    let end = visible_keys(s, last);
    let vectors = end / 4u;
    for (var i = 0u; i < vectors; i++) {
        let y0 = v_cache[v];
        let y1 = v_cache[v + pitch];
        let y2 = v_cache[v + 2u * pitch];
        let y3 = v_cache[v + 3u * pitch];
        let x0 = scores[w0 + i];
        let x1 = scores[w1 + i];
        let x2 = scores[w2 + i];
        let x3 = scores[w3 + i];
        a0 += x0.x * y0 + x0.y * y1 + x0.z * y2 + x0.w * y3;
        a1 += x1.x * y0 + x1.y * y1 + x1.z * y2 + x1.w * y3;
        a2 += x2.x * y0 + x2.y * y1 + x2.z * y2 + x2.w * y3;
        a3 += x3.x * y0 + x3.y * y1 + x3.z * y2 + x3.w * y3;
        v += 4u * pitch;
    }
    for (var j = 0u; j < end % 4u; j++) {
        let y = v_cache[v];
        a0 += scores[w0 + vectors][j] * y;
        a1 += scores[w1 + vectors][j] * y;
        a2 += scores[w2 + vectors][j] * y;
        a3 += scores[w3 + vectors][j] * y;
        v += pitch;
    }
    out[query_at(s, head, row) + lane] = a0;
    if row + 1u < s.rows {
        out[query_at(s, head, row + 1u) + lane] = a1;
    }
    if row + 2u < s.rows {
        out[query_at(s, head, row + 2u) + lane] = a2;
    }
    if row + 3u < s.rows {
        out[query_at(s, head, row + 3u) + lane] = a3;
    }
}
