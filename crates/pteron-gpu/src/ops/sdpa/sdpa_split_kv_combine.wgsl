// Combines the partial results of the splits of a row. A workgroup of 256 threads computes one row: a thread merges every n-th
// split of one vector, rescaled to the running maximum, then one thread per vector merges those in workgroup memory after one
// barrier.

//#include grid
//#include flash_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

const THREADS: u32 = 256u;

var<workgroup> sums: array<vec4<f32>, THREADS>;
// Maximum and sum of each thread.
var<workgroup> shared_max_sum: array<vec2<f32>, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.heads * params.rows {
        let vector = thread % HEAD_VECTORS;
        let threads_per_vector = THREADS / HEAD_VECTORS;
        // Threads beyond the last vector merge nothing.
        let splits = select(0u, step[params.step_base + 2u], thread < threads_per_vector * HEAD_VECTORS);
        var row_max = MASKED_SCORE;
        var row_sum = 0.0;
        var sum = vec4<f32>();
        for (var split = thread / HEAD_VECTORS; split < splits; split += threads_per_vector) {
            let at = (row * splits + split) * (HEAD_VECTORS + 1u);
            let max_sum = partials[at + HEAD_VECTORS];
            let new_max = max(row_max, max_sum.x);
            let rescale = exp(row_max - new_max);
            let weight = exp(max_sum.x - new_max);
            sum = sum * rescale + weight * partials[at + vector];
            row_sum = row_sum * rescale + weight * max_sum.y;
            row_max = new_max;
        }
        sums[thread] = sum;
        shared_max_sum[thread] = vec2<f32>(row_max, row_sum);
        workgroupBarrier();
        if thread < HEAD_VECTORS {
            for (var i = thread; i < threads_per_vector * HEAD_VECTORS; i += HEAD_VECTORS) {
                row_max = max(row_max, shared_max_sum[i].x);
            }
            sum = vec4<f32>();
            row_sum = 0.0;
            for (var i = thread; i < threads_per_vector * HEAD_VECTORS; i += HEAD_VECTORS) {
                let weight = exp(shared_max_sum[i].x - row_max);
                sum += weight * sums[i];
                row_sum += weight * shared_max_sum[i].y;
            }
            out[query_at(row / params.rows, row % params.rows) + vector] = sum / row_sum;
        }
    }
}
