// A few rows of activations times COLUMNS rows of 4-bit weights, or the same of two matrices that are gated. LANES threads
// share k: each takes vectors of 32 values LANES apart, with a load and a scale for each row of weights. Where there is a norm,
// its weights are multiplied in and the squares of the activations added up on the way; its factor comes at the end.
// O is COLUMNS numbers that lie together; `widened` fills it up to four, `narrowed` leaves what counts.

//#include q4_values
//#include silu

// Rows of activations that are held; rows past the last repeat it and are not written.
override ROWS: u32 = 1u;
override COLUMNS: u32 = 4u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
// Vectors of 32 values that share a scale.
override VECTORS: u32 = 1u;
// Which of the eight chunks of a vector a thread begins with is its lane's lowest bits, as far as they are set here. With all
// of them, neighbours never read the same banks of a cache at once.
override TURN: u32 = 7u;
const MAX_ROWS: u32 = 8u;

// For each row of activations: what this thread has of the outputs, of their gated twins, and of the norm.
var<private> sums: array<vec4<f32>, MAX_ROWS>;
var<private> up_sums: array<vec4<f32>, MAX_ROWS>;
var<private> squares: array<f32, MAX_ROWS>;
// The same within a vector, before it is scaled.
var<private> unscaled: array<vec4<f32>, MAX_ROWS>;
var<private> up_unscaled: array<vec4<f32>, MAX_ROWS>;

// A vector of each row of weights.
struct Block {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

// The eight chunks of a vector, 16 bits each, so that number i comes where i ^ turn was.
fn turned(vector: vec4<u32>, turn: u32) -> vec4<u32> {
    let words = select(vector, vector.yxwz, (turn & 2u) != 0u);
    let pairs = select(words, words.zwxy, (turn & 4u) != 0u);
    return select(pairs, (pairs >> vec4<u32>(16u)) | (pairs << vec4<u32>(16u)), (turn & 1u) != 0u);
}

fn weights_at(at: u32, turn: u32) -> Block {
    let stride = params.weight_stride / 16u;
    var block = Block();
    block.a = turned(weight[at], turn);
    if COLUMNS > 1u {
        block.b = turned(weight[at + stride], turn);
    }
    if COLUMNS > 2u {
        block.c = turned(weight[at + 2u * stride], turn);
        block.d = turned(weight[at + 3u * stride], turn);
    }
    return block;
}

// Where the first scale of a part's column is, and how far it is to the next group's, counted in O.
fn scales_of(part: u32, column: u32) -> vec2<u32> {
    return vec2<u32>(params.scales[part] + column, params.scale_stride[part]) / COLUMNS;
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

// Eight values along k, from a word of each row of weights; `first` and `second` are where the activations to its halves lie.
fn add_words(first: u32, second: u32, words: vec4<u32>, up_words: vec4<u32>) {
    let low = q4_block(words);
    let high = q4_block(words >> vec4<u32>(16u));
    let up_low = q4_block(up_words);
    let up_high = q4_block(up_words >> vec4<u32>(16u));
    var first_norm = vec4<f32>();
    var second_norm = vec4<f32>();
    if NORM == 1u {
        first_norm = norm[first];
        second_norm = norm[second];
    }
    for (var m = 0u; m < ROWS; m++) {
        let row = min(m, params.m - 1u) * (params.k / 4u);
        var a = x[row + first];
        var b = x[row + second];
        if NORM == 1u {
            squares[m] += dot(a, a) + dot(b, b);
            a *= first_norm;
            b *= second_norm;
        }
        unscaled[m] = add_products(add_products(unscaled[m], a, low), b, high);
        if GATED == 1u {
            up_unscaled[m] = add_products(add_products(up_unscaled[m], a, up_low), b, up_high);
        }
    }
}

// A thread's share of the outputs from column n on.
fn gather(lane: u32, n: u32) {
    let turn = lane & TURN;
    let part = part_of(n);
    let stride = params.weight_stride / 16u;
    let scale = scales_of(part, n - params.first[part]);
    let up_scale = scales_of(1u, n);
    for (var vector = lane; vector < params.k / 32u; vector += LANES) {
        let w = weights_at(n * stride + vector, turn);
        var up = Block();
        if GATED == 1u {
            up = weights_at((params.first.y + n) * stride + vector, turn);
        }
        for (var m = 0u; m < ROWS; m++) {
            unscaled[m] = vec4<f32>();
            up_unscaled[m] = vec4<f32>();
        }
        let at = vector * 8u;
        add_words(at + turn, at + (1u ^ turn), vec4<u32>(w.a.x, w.b.x, w.c.x, w.d.x), vec4<u32>(up.a.x, up.b.x, up.c.x, up.d.x));
        add_words(at + (2u ^ turn), at + (3u ^ turn), vec4<u32>(w.a.y, w.b.y, w.c.y, w.d.y),
                  vec4<u32>(up.a.y, up.b.y, up.c.y, up.d.y));
        add_words(at + (4u ^ turn), at + (5u ^ turn), vec4<u32>(w.a.z, w.b.z, w.c.z, w.d.z),
                  vec4<u32>(up.a.z, up.b.z, up.c.z, up.d.z));
        add_words(at + (6u ^ turn), at + (7u ^ turn), vec4<u32>(w.a.w, w.b.w, w.c.w, w.d.w),
                  vec4<u32>(up.a.w, up.b.w, up.c.w, up.d.w));
        let group = vector / VECTORS;
        let by = widened(scales[scale.x + group * scale.y]);
        for (var m = 0u; m < ROWS; m++) {
            sums[m] += unscaled[m] * by;
        }
        if GATED == 1u {
            let up_by = widened(scales[up_scale.x + group * up_scale.y]);
            for (var m = 0u; m < ROWS; m++) {
                up_sums[m] += up_unscaled[m] * up_by;
            }
        }
    }
}

fn with_bias(part: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
    if params.bias[part] == NO_BIAS {
        return value;
    }
    return value + widened(scales[(params.bias[part] + column) / COLUMNS]);
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
    let at = (row * params.width[part] + column) / COLUMNS;
    if params.has_addend == 1u {
        value += widened(addend[at]);
    }
    write_part(part, at, narrowed(value));
}
