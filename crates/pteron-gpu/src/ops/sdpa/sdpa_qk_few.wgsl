// Scores of a few rows, as in decoding: threads run along the context. A workgroup computes 4 rows by 64 positions of one KV
// head, a thread 4 rows at its position, each key read once for all of them. Head dims of whole vectors.

//#include grid
//#include attention

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_cache: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

fn masked(s: Slice, row: u32, at: u32, score: f32) -> f32 {
    return select(MASKED, score * params.scale, at < visible(s, row));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let blocks = (s.stride + 63u) / 64u;
    let tiles = (s.rows + 3u) / 4u;
    let block = group_index(group, groups);
    let head = block / blocks / tiles;
    let row = block / blocks % tiles * 4u;
    let at = block % blocks * 64u + thread;
    // Up to the stride, not the context: what fills the last vector of a row is masked.
    if head >= s.heads || at >= s.stride {
        return;
    }
    let last = min(row + 3u, s.rows - 1u);
    var a = vec4<f32>();
    if at < visible(s, last) {
        let q0 = query_at(s, head, row);
        let q1 = query_at(s, head, min(row + 1u, last));
        let q2 = query_at(s, head, min(row + 2u, last));
        let q3 = query_at(s, head, last);
        let k0 = cache_at(s, head, at);
        for (var lane = 0u; lane < params.lanes; lane++) {
            let y = k_cache[k0 + lane];
            a += vec4<f32>(dot(q[q0 + lane], y), dot(q[q1 + lane], y), dot(q[q2 + lane], y), dot(q[q3 + lane], y));
        }
    }
    let out = scores_at(s, head, row) + at;
    scores[out] = masked(s, row, at, a.x);
    if row + 1u < s.rows {
        scores[out + s.stride] = masked(s, row + 1u, at, a.y);
    }
    if row + 2u < s.rows {
        scores[out + 2u * s.stride] = masked(s, row + 2u, at, a.z);
    }
    if row + 3u < s.rows {
        scores[out + 3u * s.stride] = masked(s, row + 3u, at, a.w);
    }
}
