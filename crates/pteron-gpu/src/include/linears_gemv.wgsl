// A few rows of activations times four rows of 4-bit weights, or the same of two matrices that are gated. THREADS threads share
// k: each takes chunks of 16 values, THREADS apart, so that neighbours read what lies together both of the weights and of the
// activations, which all four rows share. Where there is a norm, its weights are multiplied in and the squares of the
// activations added up on the way; its factor comes at the end.

//#include q4_values
//#include silu

// Rows of activations that are held; rows past the last repeat it and are not written.
override ROWS: u32 = 1u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
override THREADS: u32 = 64u;
// Chunks in a row of weights, and chunks that share a scale.
override CHUNKS: u32 = 4u;
override CHUNKS_A_SCALE: u32 = 2u;
const MAX_ROWS: u32 = 8u;

// For each row of activations: what this thread has of the outputs, of their gated twins, and of the norm.
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
        if GATED == 1u {
            up_unscaled[m] = add_products(add_products(up_unscaled[m], a, up_low), b, up_high);
        }
    }
}

// A thread's share of the outputs from column n on.
fn gather(thread: u32, n: u32) {
    let part = part_of(n);
    let stride = params.weight_stride / 8u;
    let scale = scales_of(part, n - params.first[part]);
    let up_scale = scales_of(1u, n);
    for (var chunk = thread; chunk < CHUNKS; chunk += THREADS) {
        let w = weights_at(n * stride + chunk);
        let by = scales[scale.x + chunk / CHUNKS_A_SCALE * scale.y];
        var up = Block();
        var up_by = vec4<f32>();
        if GATED == 1u {
            up = weights_at((params.first.y + n) * stride + chunk);
            up_by = scales[up_scale.x + chunk / CHUNKS_A_SCALE * up_scale.y];
        }
        for (var m = 0u; m < ROWS; m++) {
            unscaled[m] = vec4<f32>();
            up_unscaled[m] = vec4<f32>();
        }
        add_words(chunk * 4u, w.first, up.first);
        add_words(chunk * 4u + 2u, w.second, up.second);
        for (var m = 0u; m < ROWS; m++) {
            sums[m] += unscaled[m] * by;
            if GATED == 1u {
                up_sums[m] += up_unscaled[m] * up_by;
            }
        }
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
    let part = part_of(n);
    let column = n - params.first[part];
    var value = with_bias(part, column, sum * factor);
    if GATED == 1u {
        value = silu(value) * with_bias(1u, n, up_sum * factor);
    }
    let at = (row * params.width[part] + column) / 4u;
    if params.has_addend == 1u {
        value += addend[at + params.addend_row * (params.width[part] / 4u)];
    }
    write_part(part, at, value);
}
