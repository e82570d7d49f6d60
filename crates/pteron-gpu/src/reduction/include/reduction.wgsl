// Reduces the rows of a tensor [outer, length, inner]: a row is the `length` elements at one outer and one inner index.
// A row is split into `splits` segments of `chunk` loads. A workgroup of 256 threads reduces 256 / threads_per_segment segments:
// the threads of a segment load its elements strided by threads_per_segment, four to eight independent loads in flight per thread,
// keep one accumulator each in registers, and combine the accumulators in workgroup memory in log2(threads_per_segment) barriers.
// Contiguous rows (inner = 1) are shared by neighbouring threads; otherwise neighbouring threads have neighbouring rows. Both make
// loads coalesced.
//
// B is the type of a word of the source, S that of a load, A the accumulator. The reducer provides `load`, `identity`, `lift_load`,
// `lift_strided`, `combine` and `combine_ordered`.

//#include grid
//#include reducers

struct Params {
    // Segments in all: outer * splits * inner.
    segments: u32,
    // Loads in a row.
    length: u32,
    inner: u32,
    // Segments of a row, and the loads in each; the last may have fewer.
    splits: u32,
    chunk: u32,
    // Threads that share a segment, a power of two, and the distance between their indices in the workgroup.
    threads_per_segment: u32,
    thread_stride: u32,
    // A scalar of the kernel: the factor of a mean, epsilon, or NaN.
    extra: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<B>;

const THREADS: u32 = 256u;
var<workgroup> partials: array<A, THREADS>;

// A segment and a thread's share of it: the loads from `begin` to `end`, strided by threads_per_segment. Past the last segment there
// are none.
struct Segment {
    index: u32,
    // The row, and the number of this segment in it.
    outer: u32,
    column: u32,
    number: u32,
    // The index of the thread among those of the segment.
    lane: u32,
    // The offset of the row's first load.
    first: u32,
    begin: u32,
    end: u32,
}

fn segment_of(group: u32, thread: u32) -> Segment {
    let segments_per_group = THREADS / params.threads_per_segment;
    let contiguous = params.thread_stride == 1u;
    var segment: Segment;
    segment.index = group * segments_per_group
        + select(thread % segments_per_group, thread / params.threads_per_segment, contiguous);
    segment.lane = (thread / params.thread_stride) % params.threads_per_segment;
    segment.column = segment.index % params.inner;
    segment.number = segment.index / params.inner % params.splits;
    segment.outer = segment.index / params.inner / params.splits;
    segment.first = segment.outer * params.length * params.inner + segment.column;
    segment.begin = segment.number * params.chunk + segment.lane;
    let end = min((segment.number + 1u) * params.chunk, params.length);
    segment.end = select(0u, end, segment.index < params.segments);
    return segment;
}

// One load, which counts only if it is before `end`.
fn reduce_one(first: u32, k: u32, end: u32) -> A {
    let v = load(first + min(k, end - 1u) * params.inner);
    return select(identity(), lift_load(v, k), k < end);
}

// Four loads from `k` on, all before `end`, independent of each other and without branches between them.
fn reduce_four(first: u32, k: u32) -> A {
    let at = first + k * params.inner;
    let stride = params.threads_per_segment * params.inner;
    return lift_strided(load(at), load(at + stride), load(at + 2u * stride), load(at + 3u * stride), k);
}

// Reduces the loads from `begin` to `end`, strided by threads_per_segment.
fn reduce_range(first: u32, begin: u32, end: u32) -> A {
    let stride = params.threads_per_segment;
    var all = identity();
    var k = begin;
    for (; k + 7u * stride < end; k += 8u * stride) {
        all = combine(all, combine_ordered(reduce_four(first, k), reduce_four(first, k + 4u * stride)));
    }
    if k + 3u * stride < end {
        all = combine(all, reduce_four(first, k));
        k += 4u * stride;
    }
    if k < end {
        let ab = combine(reduce_one(first, k, end), reduce_one(first, k + stride, end));
        all = combine(all, combine(ab, reduce_one(first, k + 2u * stride, end)));
    }
    return all;
}

// A thread's share of a whole row. Where rows are split, `source` holds the partial results of their segments.
fn reduce_row(segment: Segment) -> A {
    let length = select(params.length, params.splits, params.splits > 1u);
    let first = segment.outer * length * params.inner + segment.column;
    return reduce_range(first, segment.lane, select(0u, length, segment.index < params.segments));
}

// Combines the accumulators of a segment's threads. All threads of the workgroup call it.
fn reduce_workgroup(thread: u32, lane: u32, own: A) -> A {
    partials[thread] = own;
    for (var half = params.threads_per_segment / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            partials[thread] = combine(partials[thread], partials[thread + half * params.thread_stride]);
        }
    }
    workgroupBarrier();
    return partials[thread - lane * params.thread_stride];
}
