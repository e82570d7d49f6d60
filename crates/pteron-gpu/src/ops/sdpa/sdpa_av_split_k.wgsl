// Weights times cached values, AV, with the context split over threads, for few rows as in decode. A workgroup of 128 threads
// computes 4 rows by 4 elements of one KV head: 4 threads along the head, 32 along the context, each with every 32nd vector of
// four keys. A tree reduction in workgroup memory adds the 32 partial sums.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v_cache: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

var<workgroup> partials: array<array<f32, 128>, 4>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let tiles = (s.rows + 3u) / 4u;
    let blocks = (params.head_dim + 3u) / 4u;
    let block = group_index(group, groups);
    let lane = block % blocks * 4u + thread % 4u;
    let row = block / blocks % tiles * 4u;
    let head = block / blocks / tiles;
    let split = thread / 4u;
    let inside = head < s.heads && lane < params.head_dim;
    var a0 = 0.0;
    var a1 = 0.0;
    var a2 = 0.0;
    var a3 = 0.0;
    if inside {
        let last = min(row + 3u, s.rows - 1u);
        let w0 = scores_at(s, head, row) / 4u;
        let w1 = scores_at(s, head, min(row + 1u, last)) / 4u;
        let w2 = scores_at(s, head, min(row + 2u, last)) / 4u;
        let w3 = scores_at(s, head, last) / 4u;
        let pitch = params.heads * params.head_dim;
        let first = cache_at(s, head, 0u) + lane;
        let end = visible_keys(s, last);
        let vectors = end / 4u;
        for (var i = split; i < vectors; i += 32u) {
            let v = first + i * 4u * pitch;
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
        }
        // The remainder of the context, less than a vector, takes one key per thread.
        if split < end % 4u {
            let y = v_cache[first + (vectors * 4u + split) * pitch];
            a0 += scores[w0 + vectors][split] * y;
            a1 += scores[w1 + vectors][split] * y;
            a2 += scores[w2 + vectors][split] * y;
            a3 += scores[w3 + vectors][split] * y;
        }
    }
    partials[0][thread] = a0;
    partials[1][thread] = a1;
    partials[2][thread] = a2;
    partials[3][thread] = a3;
    workgroupBarrier();
    for (var width = 64u; width >= 4u; width /= 2u) {
        if thread < width {
            for (var r = 0u; r < 4u; r++) {
                partials[r][thread] += partials[r][thread + width];
            }
        }
        workgroupBarrier();
    }
    // The first 16 threads store one element each.
    let r = thread / 4u;
    if inside && r < 4u && row + r < s.rows {
        out[query_at(s, head, row + r) + lane] = partials[r][thread % 4u];
    }
}
