// A few rows of activations times four rows of 4-bit weights, or twice four: of two matrices that are gated, or eight that follow
// one another. THREADS threads share k: each takes chunks of 16 values, THREADS apart, so that neighbours read what lies together
// both of the weights and of the activations, which all those rows of weights share. Where there is a norm, its weights are multiplied in and the squares of the
// activations added up on the way; its factor comes at the end.

//#include q4_dequantise
//#include silu

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

// Rows of activations that are held; rows past the last repeat it and are not written.
override ROWS: u32 = 1u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
// 1: eight columns that follow one another.
override WIDE: u32 = 0u;
override THREADS: u32 = 64u;
// Chunks in a row of weights, and chunks that share a scale.
override CHUNKS: u32 = 4u;
override CHUNKS_A_SCALE: u32 = 2u;
const MAX_ROWS: u32 = 8u;

override TWICE: u32 = GATED + WIDE;

// For each row of activations: what this thread has of the outputs, of the other four, and of the norm.
var<private> sums: array<vec4<f32>, MAX_ROWS>;
var<private> up_sums: array<vec4<f32>, MAX_ROWS>;
var<private> squares: array<f32, MAX_ROWS>;
// The same within a chunk, before it is scaled.
var<private> unscaled: array<vec4<f32>, MAX_ROWS>;
var<private> up_unscaled: array<vec4<f32>, MAX_ROWS>;

// A chunk of four rows of weights: the first word of each, and the second.
struct Block {
    first: vec4<u32>,
    second: vec4<u32>,
}

fn weights_at(at: u32) -> Block {
    let stride = params.weight_stride / 8u;
    let a = weight[at];
    let b = weight[at + stride];
    let c = weight[at + 2u * stride];
    let d = weight[at + 3u * stride];
    return Block(vec4<u32>(a.x, b.x, c.x, d.x), vec4<u32>(a.y, b.y, c.y, d.y));
}

// Where the first scale of a part's column is, and how far it is to the next group's, counted in vectors.
fn scales_of(part: u32, column: u32) -> vec2<u32> {
    return vec2<u32>(params.scales[part] + column, params.scale_stride[part]) / 4u;
}

// Adds the products of four activations with the values of four rows of weights.
fn add_products(sum: vec4<f32>, x: vec4<f32>, values: mat4x4<f32>) -> vec4<f32> {
    var total = sum;
    total += x.x * values[0];
    total += x.y * values[1];
    total += x.z * values[2];
    total += x.w * values[3];
    return total;
}

// Eight values along k, from a word of each row of weights; the activations to them are two vectors from `at` on.
fn add_words(at: u32, words: vec4<u32>, up_words: vec4<u32>) {
    let low = q4_block(words);
    let high = q4_block(words >> vec4<u32>(16u));
    let up_low = q4_block(up_words);
    let up_high = q4_block(up_words >> vec4<u32>(16u));
    var low_norm = vec4<f32>();
    var high_norm = vec4<f32>();
    if NORM == 1u {
        low_norm = norm[at];
        high_norm = norm[at + 1u];
    }
    for (var m = 0u; m < ROWS; m++) {
        let row = (params.x_row + min(m, params.m - 1u)) * (CHUNKS * 4u);
        var a = x[row + at];
        var b = x[row + at + 1u];
        if NORM == 1u {
            squares[m] += dot(a, a) + dot(b, b);
            a *= low_norm;
            b *= high_norm;
        }
        unscaled[m] = add_products(add_products(unscaled[m], a, low), b, high);
        if TWICE == 1u {
            up_unscaled[m] = add_products(add_products(up_unscaled[m], a, up_low), b, up_high);
        }
    }
}

// A chunk of the weights with its scales, and of the other four rows.
struct Chunk {
    weights: Block,
    scale: vec4<f32>,
    up: Block,
    up_scale: vec4<f32>,
}

// Where the rows of a workgroup begin in the weights, in vectors of two words, and their scales.
struct Places {
    weights: u32,
    scales: vec2<u32>,
    up: u32,
    up_scales: vec2<u32>,
}

fn places_of(n: u32) -> Places {
    let part = part_of(n);
    let column = n - params.first[part];
    let stride = params.weight_stride / 8u;
    if GATED == 1u {
        return Places(n * stride, scales_of(part, column), (params.first.y + n) * stride, scales_of(1u, n));
    }
    return Places(n * stride, scales_of(part, column), (n + 4u) * stride, scales_of(part, column + 4u));
}

fn chunk_at(places: Places, chunk: u32) -> Chunk {
    var found = Chunk();
    let group = chunk / CHUNKS_A_SCALE;
    found.weights = weights_at(places.weights + chunk);
    found.scale = scales[places.scales.x + group * places.scales.y];
    if TWICE == 1u {
        found.up = weights_at(places.up + chunk);
        found.up_scale = scales[places.up_scales.x + group * places.up_scales.y];
    }
    return found;
}

fn add_chunk(chunk: u32, found: Chunk) {
    for (var m = 0u; m < ROWS; m++) {
        unscaled[m] = vec4<f32>();
        up_unscaled[m] = vec4<f32>();
    }
    add_words(chunk * 4u, found.weights.first, found.up.first);
    add_words(chunk * 4u + 2u, found.weights.second, found.up.second);
    for (var m = 0u; m < ROWS; m++) {
        sums[m] += unscaled[m] * found.scale;
        if TWICE == 1u {
            up_sums[m] += up_unscaled[m] * found.up_scale;
        }
    }
}

// A thread's share of the outputs from column n on.
fn gather(thread: u32, n: u32) {
    let places = places_of(n);
    for (var chunk = thread; chunk < CHUNKS; chunk += THREADS) {
        add_chunk(chunk, chunk_at(places, chunk));
    }
}

fn with_bias(part: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
    if params.bias[part] == NO_BIAS {
        return value;
    }
    return value + scales[(params.bias[part] + column) / 4u];
}

// Writes the outputs of a row from column n on, whose sums are those of all threads.
fn finish(row: u32, n: u32, sum: vec4<f32>, up_sum: vec4<f32>, square: f32) {
    var factor = 1.0;
    if NORM == 1u {
        factor = inverseSqrt(square / f32(params.k) + params.eps);
    }
    if GATED == 1u {
        write_four(row, n, silu(with_bias(0u, n, sum * factor)) * with_bias(1u, n, up_sum * factor));
        return;
    }
    let part = part_of(n);
    let column = n - params.first[part];
    write_four(row, n, with_bias(part, column, sum * factor));
    if WIDE == 1u {
        write_four(row, n + 4u, with_bias(part, column + 4u, up_sum * factor));
    }
}

fn write_four(row: u32, n: u32, value: vec4<f32>) {
    let part = part_of(n);
    let width = params.width[part];
    let at = (row * width + n - params.first[part]) / 4u;
    var all = value;
    if params.has_addend == 1u {
        all += addend[at + params.addend_row * (width / 4u)];
    }
    write_part(part, at, all);
}
