// Softmax of scores in place, as in PyTorch: a row without a finite score, or with one that is +infinity or NaN, becomes
// NaN. A power-of-two number of threads, at most the workgroup's 256, shares a row and loads its vectors of four strided.
// The first pass computes the maximum and the sum of exponentials online, and a tree reduction in workgroup memory combines
// them; the second pass writes the weights. Padding of the last vector counts as -infinity.

//#include grid

struct Params {
    rows: u32,
    // Scores in a row, and the vectors it takes.
    context: u32,
    vectors: u32,
    // Threads per row.
    threads: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> scores: array<vec4<f32>>;

// The lowest float. Masks often contain it, so it is a score like others.
const LOWEST: f32 = -3.4028234663852886e38;
// The bits of -infinity. Compilers may assume that there are no infinities; testing bits is safe.
const NOTHING: u32 = 0xff800000u;

// The kinds of scores in a row, as bit flags.
const FINITE: u32 = 1u;
const BROKEN: u32 = 2u;

var<workgroup> largests: array<f32, 256>;
var<workgroup> sums: array<f32, 256>;
var<workgroup> states: array<u32, 256>;

// The i-th vector of a row.
fn vector_at(row: u32, i: u32) -> vec4<u32> {
    let inside = vec4<u32>(i * 4u) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.context);
    return select(vec4<u32>(NOTHING), bitcast<vec4<u32>>(scores[row * params.vectors + i]), inside);
}

fn floats(bits: vec4<u32>) -> vec4<f32> {
    return select(vec4<f32>(LOWEST), bitcast<vec4<f32>>(bits), bits != vec4<u32>(NOTHING));
}

fn state_of(bits: u32) -> u32 {
    let size = bits & 0x7fffffffu;
    return select(0u, FINITE, size < 0x7f800000u) | select(0u, BROKEN, size > 0x7f800000u || bits == 0x7f800000u);
}

// The exponential of a difference to a maximum. It underflows to 0 far below; the bound avoids infinities.
fn faded(difference: f32) -> f32 {
    return exp(max(difference, -200.0));
}

fn exponentials(bits: vec4<u32>, largest: f32) -> vec4<f32> {
    let x = floats(bits) - largest;
    return select(vec4<f32>(), vec4<f32>(faded(x.x), faded(x.y), faded(x.z), faded(x.w)), bits != vec4<u32>(NOTHING));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let own = thread % params.threads;
    let row = group_index(group, groups) * (256u / params.threads) + thread / params.threads;
    // Threads past the last row only take part in barriers.
    let end = select(0u, params.vectors, row < params.rows);
    var largest = LOWEST;
    var sum = 0.0;
    var state = 0u;
    for (var i = own; i < end; i += params.threads) {
        let bits = vector_at(row, i);
        state |= state_of(bits.x) | state_of(bits.y) | state_of(bits.z) | state_of(bits.w);
        let x = floats(bits);
        let most = max(largest, max(max(x.x, x.y), max(x.z, x.w)));
        sum = sum * faded(largest - most) + dot(exponentials(bits, most), vec4<f32>(1.0));
        largest = most;
    }
    largests[thread] = largest;
    sums[thread] = sum;
    states[thread] = state;
    workgroupBarrier();
    for (var half = params.threads / 2u; half > 0u; half /= 2u) {
        if own < half {
            let other = thread + half;
            let most = max(largests[thread], largests[other]);
            sums[thread] = sums[thread] * faded(largests[thread] - most) + sums[other] * faded(largests[other] - most);
            largests[thread] = most;
            states[thread] |= states[other];
        }
        workgroupBarrier();
    }
    let first = thread - own;
    largest = largests[first];
    state = states[first];
    let scale = 1.0 / sums[first];
    for (var i = own; i < end; i += params.threads) {
        var weights = exponentials(vector_at(row, i), largest) * scale;
        if state != FINITE {
            weights = vec4<f32>(bitcast<f32>(0x7fc00000u | state));
        }
        scores[row * params.vectors + i] = weights;
    }
}
