// Group normalisation: (x − mean) · rstd · weight + bias, the moments being those of a group of channels of one image. The elements of
// a group lie in runs of `run` elements, `stride` apart: one run with channels first, one per pixel with channels last. Groups are
// split into `splits` segments of `chunk` elements; a workgroup of 256 threads has one segment.
//
// STAGE 0: a segment is a whole group: threads compute their moments four loads at a time, combine them in a tree in workgroup memory,
// and normalise. STAGE 1 stores the moments of each segment; STAGE 2 combines those of a group, and normalises a segment.

//#include grid

struct Params {
    // Groups in all images, and per image.
    rows: u32,
    groups: u32,
    // Elements per group.
    length: u32,
    run: u32,
    stride: u32,
    // The distance from one group to the next, and from one image to the next.
    group_stride: u32,
    image_stride: u32,
    // Elements of a channel that lie together, and channels per group.
    inner: u32,
    channels: u32,
    splits: u32,
    chunk: u32,
    has_weight: u32,
    has_bias: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> partials: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(6) var<storage, read_write> mean: array<f32>;
@group(0) @binding(7) var<storage, read_write> rstd: array<f32>;

override STAGE: u32 = 0u;

const THREADS: u32 = 256u;

// Counts, means and sums of squared distances from the mean.
var<workgroup> moments: array<vec3<f32>, THREADS>;

fn combine(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    let count = a.x + b.x;
    let share = select(0.0, b.x / max(count, 1.0), b.x > 0.0);
    let distance = b.y - a.y;
    return vec3<f32>(count, a.y + distance * share, a.z + b.z + distance * distance * a.x * share);
}

fn offset(first: u32, i: u32) -> u32 {
    return first + i / params.run * params.stride + i % params.run;
}

// The moments of a thread's elements of a segment.
fn own_moments(first: u32, begin: u32, end: u32) -> vec3<f32> {
    var own = vec3<f32>();
    var i = begin;
    for (; i + 3u * THREADS < end; i += 4u * THREADS) {
        let v = vec4<f32>(x[offset(first, i)], x[offset(first, i + THREADS)], x[offset(first, i + 2u * THREADS)],
            x[offset(first, i + 3u * THREADS)]);
        let center = dot(v, vec4<f32>(0.25));
        let distance = v - center;
        own = combine(own, vec3<f32>(4.0, center, dot(distance, distance)));
    }
    for (; i < end; i += THREADS) {
        own = combine(own, vec3<f32>(1.0, x[offset(first, i)], 0.0));
    }
    return own;
}

// The combined moments of all threads.
fn combined(thread: u32, own: vec3<f32>) -> vec3<f32> {
    moments[thread] = own;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            moments[thread] = combine(moments[thread], moments[thread + half]);
        }
    }
    workgroupBarrier();
    return moments[0];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last row repeat it without storing: barriers need all threads.
    let index = group_index(group, groups);
    let row = min(index / params.splits, params.rows - 1u);
    let is_last = index / params.splits != row;
    let segment = index % params.splits;
    let first = row / params.groups * params.image_stride + row % params.groups * params.group_stride;
    let begin = segment * params.chunk + thread;
    let end = select(min((segment + 1u) * params.chunk, params.length), 0u, is_last);
    var own = vec3<f32>();
    if STAGE == 2u {
        for (var i = thread; i < params.splits; i += THREADS) {
            own = combine(own, partials[row * params.splits + i].xyz);
        }
    } else {
        own = own_moments(first, begin, end);
    }
    let all = combined(thread, own);
    if STAGE == 1u {
        if thread == 0u && !is_last {
            partials[index] = vec4<f32>(all, 0.0);
        }
        return;
    }
    let scale = inverseSqrt(all.z / max(all.x, 1.0) + params.eps);
    let first_channel = row % params.groups * params.channels;
    for (var i = begin; i < end; i += THREADS) {
        let channel = first_channel + i / params.inner % params.channels;
        let at = offset(first, i);
        var value = (x[at] - all.y) * scale;
        if params.has_weight == 1u {
            value *= weight[channel];
        }
        if params.has_bias == 1u {
            value += bias[channel];
        }
        out[at] = value;
    }
    if thread == 0u && segment == 0u && !is_last {
        mean[row] = all.y;
        rstd[row] = scale;
    }
}
