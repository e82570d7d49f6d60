// Layer normalisation: (x − mean) · rstd · weight + bias for each row.
// `reduction` describes the segments of a workgroup and the work of its threads. The threads reduce the row to its moments, then each
// loads its share again and stores it normalised. `source` is the tensor, or, where rows are split, the partial moments of their
// segments. A missing weight or bias has another buffer bound, which is not read.

//#include reduction

@group(0) @binding(2) var<storage, read> x: array<T>;
@group(0) @binding(3) var<storage, read> weight: array<T>;
@group(0) @binding(4) var<storage, read> bias: array<T>;
@group(0) @binding(5) var<storage, read_write> out: array<T>;
@group(0) @binding(6) var<storage, read_write> mean: array<f32>;
@group(0) @binding(7) var<storage, read_write> rstd: array<f32>;

override HAS_WEIGHT: u32 = 1u;
override HAS_BIAS: u32 = 1u;

fn normalised(v: T, k: u32, row_mean: f32, row_rstd: f32) -> T {
    var value = (v - row_mean) * row_rstd;
    if HAS_WEIGHT == 1u {
        value *= weight[k];
    }
    if HAS_BIAS == 1u {
        value += bias[k];
    }
    return value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let segment = segment_of(group_index(group, groups), thread);
    let all = reduce_workgroup(thread, segment.lane, reduce_row(segment));
    // `extra` is epsilon.
    let row_rstd = inverseSqrt(all.z / max(all.x, 1.0) + params.extra);
    let stride = params.threads_per_segment;
    var k = segment.begin;
    for (; k + 3u * stride < segment.end; k += 4u * stride) {
        // All loads before the stores: the compiler cannot know that they do not alias, and would serialise them.
        let at = segment.first + k;
        let a = normalised(x[at], k, all.y, row_rstd);
        let b = normalised(x[at + stride], k + stride, all.y, row_rstd);
        let c = normalised(x[at + 2u * stride], k + 2u * stride, all.y, row_rstd);
        let d = normalised(x[at + 3u * stride], k + 3u * stride, all.y, row_rstd);
        out[at] = a;
        out[at + stride] = b;
        out[at + 2u * stride] = c;
        out[at + 3u * stride] = d;
    }
    for (; k < segment.end; k += stride) {
        out[segment.first + k] = normalised(x[segment.first + k], k, all.y, row_rstd);
    }
    if segment.lane == 0u && segment.number == 0u && segment.index < params.segments {
        mean[segment.outer] = all.y;
        rstd[segment.outer] = row_rstd;
    }
}
