// GEMV of a few rows of activations with 4-bit weights: four columns, or eight (the two factors of SwiGLU, or eight adjacent
// columns). THREADS threads share k in chunks of 16 values, THREADS chunks apart; four columns of two chunks are adjacent in
// a tile of weights, and neighbouring threads load adjacent activations (4 vectors), which all columns share. With a norm, its weights are
// multiplied in and squares summed in the same loop; the inverse RMS is applied at the end.

//#include q4_dequantise
//#include fused_linear_bias
//#include silu

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

// Rows of activations per workgroup; rows past the last repeat it and are not stored.
override ROWS: u32 = 1u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
// 1: eight adjacent columns.
override WIDE: u32 = 0u;
override THREADS: u32 = 64u;
// Chunks per row of weights.
override CHUNKS: u32 = 4u;
const MAX_ROWS: u32 = 8u;

override TWO_BLOCKS: u32 = GATED + WIDE;

// The first of the rows, where workgroups have different ones.
var<private> first_row: u32 = 0u;

// A thread's sums per row of activations: the first four columns, the other four, and the squares for the norm.
var<private> sums: array<vec4<f32>, MAX_ROWS>;
var<private> up_sums: array<vec4<f32>, MAX_ROWS>;
var<private> squares: array<f32, MAX_ROWS>;
// The same within a chunk, before scaling.
var<private> unscaled: array<vec4<f32>, MAX_ROWS>;
var<private> up_unscaled: array<vec4<f32>, MAX_ROWS>;

// A chunk of four columns: the first word of each, and the second.
struct Block {
    first: vec4<u32>,
    second: vec4<u32>,
}

fn weights_at(at: u32) -> Block {
    let a = weight[at];
    let b = weight[at + 2u];
    let c = weight[at + 4u];
    let d = weight[at + 6u];
    return Block(vec4<u32>(a.x, b.x, c.x, d.x), vec4<u32>(a.y, b.y, c.y, d.y));
}

// The scales of four adjacent columns.
fn scales_at(at: u32) -> vec4<f32> {
    return vec4<f32>(scales[at], scales[at + 4u], scales[at + 8u], scales[at + 12u]);
}

// Adds the products of four activations with the weights of four columns.
fn add_products(sum: vec4<f32>, x: vec4<f32>, values: mat4x4<f32>) -> vec4<f32> {
    var total = sum;
    total += x.x * values[0];
    total += x.y * values[1];
    total += x.z * values[2];
    total += x.w * values[3];
    return total;
}

// Accumulates eight values along k from one word per column; their activations are two vectors from `at` on.
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
        let row = (params.x_row + min(first_row + m, params.m - 1u)) * (CHUNKS * 4u);
        var a = x[row + at];
        var b = x[row + at + 1u];
        if NORM == 1u {
            squares[m] += dot(a, a) + dot(b, b);
            a *= low_norm;
            b *= high_norm;
        }
        unscaled[m] = add_products(add_products(unscaled[m], a, low), b, high);
        if TWO_BLOCKS == 1u {
            up_unscaled[m] = add_products(add_products(up_unscaled[m], a, up_low), b, up_high);
        }
    }
}

// A chunk of weights with its scales, and that of the other four columns.
struct Chunk {
    weights: Block,
    scale: vec4<f32>,
    up: Block,
    up_scale: vec4<f32>,
}

// Offsets of a workgroup's columns in the weights, in vectors of two words, and in the scales.
struct Offsets {
    weights: u32,
    scales: u32,
    up: u32,
    up_scales: u32,
}

fn offsets_of(n: u32) -> Offsets {
    let matrix = matrix_of(n);
    let column = n - params.first[matrix];
    let up = select(vec2<u32>(matrix, column + 4u), vec2<u32>(1u, n), GATED == 1u);
    return Offsets(first_unit(matrix, column) * 2u, first_scale(matrix, column),
                   first_unit(up.x, up.y) * 2u, first_scale(up.x, up.y));
}

fn chunk_at(offsets: Offsets, chunk: u32) -> Chunk {
    var found = Chunk();
    let scale = scale_of_unit(chunk / 2u);
    let at = chunk / 2u * (COLUMNS_PER_TILE * 2u) + chunk % 2u;
    found.weights = weights_at(offsets.weights + at);
    found.scale = scales_at(offsets.scales + scale);
    if TWO_BLOCKS == 1u {
        found.up = weights_at(offsets.up + at);
        found.up_scale = scales_at(offsets.up_scales + scale);
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
        if TWO_BLOCKS == 1u {
            up_sums[m] += up_unscaled[m] * found.up_scale;
        }
    }
}

// Accumulates a thread's chunks for the columns from n on.
fn accumulate(thread: u32, n: u32) {
    let offsets = offsets_of(n);
    for (var chunk = thread; chunk < CHUNKS; chunk += THREADS) {
        add_chunk(chunk, chunk_at(offsets, chunk));
    }
}

// Stores the outputs of a row from column n on, given the sums over all threads.
fn store_outputs(row: u32, n: u32, sum: vec4<f32>, up_sum: vec4<f32>, square: f32) {
    var factor = 1.0;
    if NORM == 1u {
        factor = inverseSqrt(square / f32(params.k) + params.eps);
    }
    if GATED == 1u {
        store_vector(row, n, silu(with_bias(0u, n, sum * factor)) * with_bias(1u, n, up_sum * factor));
        return;
    }
    let matrix = matrix_of(n);
    let column = n - params.first[matrix];
    store_vector(row, n, with_bias(matrix, column, sum * factor));
    if WIDE == 1u {
        store_vector(row, n + 4u, with_bias(matrix, column + 4u, up_sum * factor));
    }
}

fn store_vector(row: u32, n: u32, value: vec4<f32>) {
    let matrix = matrix_of(n);
    let width = params.width[matrix];
    let at = (row * width + n - params.first[matrix]) / 4u;
    var all = value;
    if params.has_addend == 1u {
        all += addend[at + params.addend_row * (width / 4u)];
    }
    store_output(matrix, at, all);
}
