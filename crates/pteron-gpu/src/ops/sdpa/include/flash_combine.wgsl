// Combines the partial results of a row's splits; `sdpa_split_kv_combine.wgsl` says how threads share it. The including kernel binds
// `partials` and `out`.

const THREADS: u32 = 256u;

var<workgroup> sums: array<vec4<f32>, THREADS>;
// Maximum and sum of each thread.
var<workgroup> shared_max_sum: array<vec2<f32>, THREADS>;

// Combines the splits of a row of partial results into the output from `out_at` on.
fn combine_row(thread: u32, row: u32, all_splits: u32, out_at: u32) {
    let vector = thread % HEAD_VECTORS;
    let threads_per_vector = THREADS / HEAD_VECTORS;
    // Threads beyond the last vector merge nothing.
    let splits = select(0u, all_splits, thread < threads_per_vector * HEAD_VECTORS);
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
        out[out_at + vector] = sum / row_sum;
    }
}
