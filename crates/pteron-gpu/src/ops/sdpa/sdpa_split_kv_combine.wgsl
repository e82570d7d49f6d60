// What the parts of the context gave, together. A workgroup has a row: a thread has a vector of it and some of the parts, each
// scaled to the highest score it has seen, and threads with the same vector add up at the end.

//#include grid
//#include flash_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

const THREADS: u32 = 256u;

var<workgroup> sums: array<vec4<f32>, THREADS>;
// The highest score and the total of the weights, of each thread.
var<workgroup> known: array<vec2<f32>, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.heads * params.rows {
        let lane = thread % LANES;
        let sharing = THREADS / LANES;
        // Threads that no vector is left for have no parts.
        let count = select(0u, step[params.step_base + 2u], thread < sharing * LANES);
        var high = MASKED;
        var total = 0.0;
        var sum = vec4<f32>();
        for (var part = thread / LANES; part < count; part += sharing) {
            let at = (row * count + part) * (LANES + 1u);
            let of_part = parts[at + LANES];
            let higher = max(high, of_part.x);
            let shrink = exp(high - higher);
            let weight = exp(of_part.x - higher);
            sum = sum * shrink + weight * parts[at + lane];
            total = total * shrink + weight * of_part.y;
            high = higher;
        }
        sums[thread] = sum;
        known[thread] = vec2<f32>(high, total);
        workgroupBarrier();
        if thread < LANES {
            for (var i = thread; i < sharing * LANES; i += LANES) {
                high = max(high, known[i].x);
            }
            sum = vec4<f32>();
            total = 0.0;
            for (var i = thread; i < sharing * LANES; i += LANES) {
                let weight = exp(known[i].x - high);
                sum += weight * sums[i];
                total += weight * known[i].y;
            }
            out[query_at(row / params.rows, row % params.rows) + lane] = sum / total;
        }
    }
}
