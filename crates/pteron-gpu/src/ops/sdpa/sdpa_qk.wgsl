// Scores of queries against the cached keys, for head dims of whole vectors. A workgroup computes 32 rows by 32 positions of
// one KV head: 8 by 8 threads, each with a tile of 4 by 4 in registers. Rows and positions past the end are read at the last
// one, so that the loop along the head has no branch; rows past the end are not stored, positions past it are masked.

//#include grid
//#include attention

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_cache: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<vec4<f32>>;

fn masked(s: Slice, row: u32, at: u32, score: vec4<f32>) -> vec4<f32> {
    let positions = vec4<u32>(at, at + 1u, at + 2u, at + 3u);
    return select(vec4<f32>(MASKED), score * params.scale, positions < vec4<u32>(visible(s, row)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let blocks = (s.context + 31u) / 32u;
    let row_blocks = (s.rows + 31u) / 32u;
    let block = group_index(group, groups);
    let head = block / blocks / row_blocks;
    let row = block / blocks % row_blocks * 32u + thread / 8u * 4u;
    let at = block % blocks * 32u + thread % 8u * 4u;
    if head >= s.heads || row >= s.rows || at >= s.context {
        return;
    }
    let last = min(row + 3u, s.rows - 1u);
    var a0 = vec4<f32>();
    var a1 = vec4<f32>();
    var a2 = vec4<f32>();
    var a3 = vec4<f32>();
    // A tile that no row sees has nothing to compute, only its mask to store.
    if at < visible(s, last) {
        let end = s.context - 1u;
        let q0 = query_at(s, head, row);
        let q1 = query_at(s, head, min(row + 1u, last));
        let q2 = query_at(s, head, min(row + 2u, last));
        let q3 = query_at(s, head, last);
        let k0 = cache_at(s, head, at);
        let k1 = cache_at(s, head, min(at + 1u, end));
        let k2 = cache_at(s, head, min(at + 2u, end));
        let k3 = cache_at(s, head, min(at + 3u, end));
        for (var lane = 0u; lane < params.lanes; lane++) {
            let x0 = q[q0 + lane];
            let x1 = q[q1 + lane];
            let x2 = q[q2 + lane];
            let x3 = q[q3 + lane];
            let y0 = k_cache[k0 + lane];
            let y1 = k_cache[k1 + lane];
            let y2 = k_cache[k2 + lane];
            let y3 = k_cache[k3 + lane];
            a0 += vec4<f32>(dot(x0, y0), dot(x0, y1), dot(x0, y2), dot(x0, y3));
            a1 += vec4<f32>(dot(x1, y0), dot(x1, y1), dot(x1, y2), dot(x1, y3));
            a2 += vec4<f32>(dot(x2, y0), dot(x2, y1), dot(x2, y2), dot(x2, y3));
            a3 += vec4<f32>(dot(x3, y0), dot(x3, y1), dot(x3, y2), dot(x3, y3));
        }
    }
    let out = (scores_at(s, head, row) + at) / 4u;
    let stride = s.stride / 4u;
    scores[out] = masked(s, row, at, a0);
    if row + 1u < s.rows {
        scores[out + stride] = masked(s, row + 1u, at, a1);
    }
    if row + 2u < s.rows {
        scores[out + 2u * stride] = masked(s, row + 2u, at, a2);
    }
    if row + 3u < s.rows {
        scores[out + 3u * stride] = masked(s, row + 3u, at, a3);
    }
}
