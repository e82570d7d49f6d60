// Scores QKᵀ against the cached keys, for any head dim. A workgroup of 8 × 8 threads computes 32 rows by 32 keys of one KV
// head, a thread a 4 × 4 tile with scalar, bounds-checked loads. No workgroup memory.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k_cache: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<vec4<f32>>;

fn query(s: Slice, head: u32, row: u32, lane: u32) -> f32 {
    if row >= s.rows {
        return 0.0;
    }
    return q[query_at(s, head, row) + lane];
}

fn key(s: Slice, head: u32, at: u32, lane: u32) -> f32 {
    if at >= s.context {
        return 0.0;
    }
    return k_cache[cache_at(s, head, at) + lane];
}

fn store(s: Slice, head: u32, row: u32, at: u32, score: vec4<f32>) {
    if row < s.rows {
        let positions = vec4<u32>(at, at + 1u, at + 2u, at + 3u);
        let kept = select(vec4<f32>(MASKED_SCORE), score * params.scale, positions < vec4<u32>(visible_keys(s, row)));
        scores[(scores_at(s, head, row) + at) / 4u] = kept;
    }
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
    var a0 = vec4<f32>();
    var a1 = vec4<f32>();
    var a2 = vec4<f32>();
    var a3 = vec4<f32>();
    if at < visible_keys(s, min(row + 3u, s.rows - 1u)) {
        for (var lane = 0u; lane < params.head_dim; lane++) {
            let y = vec4<f32>(key(s, head, at, lane), key(s, head, at + 1u, lane), key(s, head, at + 2u, lane),
                              key(s, head, at + 3u, lane));
            a0 += query(s, head, row, lane) * y;
            a1 += query(s, head, row + 1u, lane) * y;
            a2 += query(s, head, row + 2u, lane) * y;
            a3 += query(s, head, row + 3u, lane) * y;
        }
    }
    store(s, head, row, at, a0);
    store(s, head, row + 1u, at, a1);
    store(s, head, row + 2u, at, a2);
    store(s, head, row + 3u, at, a3);
}
