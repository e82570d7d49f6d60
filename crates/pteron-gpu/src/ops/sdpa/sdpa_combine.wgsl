// What the parts of the context gave, together. A thread computes a vector of a row: the parts' sums, each scaled to the highest
// score of all, over the total of their weights.

//#include grid
//#include stream_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let item = group_index(group, groups) * 64u + thread;
    if item < params.heads * params.rows * LANES {
        let lane = item % LANES;
        let row = item / LANES % params.rows;
        let head = item / LANES / params.rows;
        let count = step[params.step_base + 2u];
        let at = (head * params.rows + row) * count * (LANES + 1u);
        var high = MASKED;
        for (var part = 0u; part < count; part++) {
            high = max(high, parts[at + part * (LANES + 1u) + LANES].x);
        }
        var sum = vec4<f32>();
        var total = 0.0;
        for (var part = 0u; part < count; part++) {
            let from_part = at + part * (LANES + 1u);
            let known = parts[from_part + LANES];
            let weight = exp(known.x - high);
            sum += weight * parts[from_part + lane];
            total += weight * known.y;
        }
        out[query_at(head, row) + lane] = sum / total;
    }
}
