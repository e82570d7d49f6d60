// Softmax or log-softmax of the rows of a tensor.
// `reduction` describes the segments of a workgroup and the work of its threads. The threads reduce the row to its maximum and sum of
// exponentials, then each loads its share again and stores it normalised. `source` is the tensor, or, where rows are split, the
// partial results of their segments.

//#include reduction

@group(0) @binding(2) var<storage, read> x: array<T>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

// `extra` is NaN, the result of a row that has none.
fn normalised(v: T, all: A) -> T {
    return select(normalise(v, all.x, all.y), T(params.extra), all.y <= 0.0);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let segment = segment_of(group_index(group, groups), thread);
    let all = reduce_workgroup(thread, segment.lane, reduce_row(segment));
    var k = segment.begin;
    let stride = params.threads_per_segment * params.inner;
    for (; k + 3u * params.threads_per_segment < segment.end; k += 4u * params.threads_per_segment) {
        // All loads before the stores: the compiler cannot know that they do not alias, and would serialise them.
        let at = segment.first + k * params.inner;
        let a = x[at];
        let b = x[at + stride];
        let c = x[at + 2u * stride];
        let d = x[at + 3u * stride];
        out[at] = normalised(a, all);
        out[at + stride] = normalised(b, all);
        out[at + 2u * stride] = normalised(c, all);
        out[at + 3u * stride] = normalised(d, all);
    }
    for (; k < segment.end; k += params.threads_per_segment) {
        let at = segment.first + k * params.inner;
        out[at] = normalised(x[at], all);
    }
}
