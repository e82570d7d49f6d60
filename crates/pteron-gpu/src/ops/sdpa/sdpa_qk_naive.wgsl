// Baseline for benchmarks: scores, one thread per score, 64 threads per workgroup.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k_cache: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let i = group_index(group, groups) * 64u + thread;
    let at = i % s.stride;
    let row = i / s.stride % s.rows;
    let head = i / s.stride / s.rows;
    if head >= s.heads {
        return;
    }
    var score = MASKED_SCORE;
    if at < visible_keys(s, row) {
        let query = query_at(s, head, row);
        let key = cache_at(s, head, at);
        var sum = 0.0;
        for (var lane = 0u; lane < params.head_dim; lane++) {
            sum += q[query + lane] * k_cache[key + lane];
        }
        score = sum * params.scale;
    }
    scores[i] = score;
}
