// Baseline for benchmarks: weights times cached values, one thread per element, 64 threads per workgroup.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> scores: array<f32>;
@group(0) @binding(2) var<storage, read> v_cache: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let i = group_index(group, groups) * 64u + thread;
    let lane = i % params.head_dim;
    let row = i / params.head_dim % s.rows;
    let head = i / params.head_dim / s.rows;
    if head >= s.heads {
        return;
    }
    let weights = scores_at(s, head, row);
    let end = visible_keys(s, row);
    var sum = 0.0;
    for (var at = 0u; at < end; at++) {
        sum += scores[weights + at] * v_cache[cache_at(s, head, at) + lane];
    }
    out[query_at(s, head, row) + lane] = sum;
}
