// Fused 4-bit linears, few rows, with 8-bit dot products and clusters of LANES threads. A workgroup computes a tile of 16
// columns of ROWS rows, or of both factors of SwiGLU; 32 threads take a slice of k of a tile: a thread has one column and every
// second unit of 32 values.
//
// Activations are split into PLANES digits of base 256, relative to the largest of their unit: 2 digits hold 16 bits of it, 3
// hold 24. The sums of a unit are exact in 32-bit integers. Per chunk of 8 unit pairs per slice, a thread issues the loads of
// activations and weights first, then splits eight activations of each row into workgroup memory; one barrier later, it multiplies.
// At the end, a thread per output adds the sums of the slices. An activation that is infinite or NaN makes the digits of its unit
// meaningless and their value infinite or NaN: every output is then one of both, of any sign.
//
// Activations that the program quantises to 8 bits are one plane (INT8). Clusters find the bounds of the rows first, with one more
// barrier. The sums of a unit's weights, times the zero point, are subtracted from its products.

//#include grid
//#include lanes
//#include fused_linear_params
//#include fused_linear_quantise
//#include fused_linear_store
//#include silu

alias O = f32;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> addend: array<f32>;
@group(0) @binding(6) var<storage, read_write> out0: array<f32>;
@group(0) @binding(7) var<storage, read_write> out1: array<f32>;
@group(0) @binding(8) var<storage, read_write> out2: array<f32>;

// Rows of activations per workgroup: 1, 2 or 4. Rows past the last repeat it and are not stored.
override ROWS: u32 = 1u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
override PLANES: u32 = 2u;
// 1: rows are quantised to 8 bits, and there is one plane.
override INT8: u32 = 0u;
// Parts of k that are multiplied at the same time.
override SLICES: u32 = 4u;
// Units of 32 values along k, and fours of scales per eight units.
override UNITS: u32 = 2u;
override SCALE_LANES: u32 = 32u;
// Tiles per factor of SwiGLU.
override FACTOR_TILES: u32 = 0u;
// 1: the row is the last of x.
override LAST_ROW: u32 = 0u;

override PAIRS: u32 = (UNITS + 1u) / 2u;
// Fours of scales per tile.
override SCALES_PER_TILE: u32 = (UNITS + 7u) / 8u * SCALE_LANES;
override TILES: u32 = 1u + GATED;
override THREADS: u32 = SLICES * TILES * 32u;
// Units of a chunk, and chunks of k.
override CHUNK: u32 = SLICES * 16u;
override CHUNKS: u32 = (UNITS + CHUNK - 1u) / CHUNK;
// Whether the last chunk is not whole.
override RAGGED: u32 = UNITS % CHUNK;

override CLUSTERS: u32 = THREADS / LANES;
override BOUNDS: u32 = ROWS * CLUSTERS * INT8 + 1u;

// Digits by row, plane and half of a unit, then unit. A half is four words: digits of even values of k, odd ones, even, odd.
var<workgroup> digits: array<vec4<u32>, ROWS * PLANES * 2u * CHUNK>;
// The value of the lowest digit, by row and unit; for quantised rows, the first of a row is its scale.
var<workgroup> digit_values: array<f32, ROWS * CHUNK>;
// Sums by row and tile: those of 32 threads of each slice.
var<workgroup> partials: array<f32, ROWS * TILES * SLICES * 32u>;
var<workgroup> square_partials: array<f32, ROWS * CLUSTERS>;
// Bounds of quantised rows, by row and cluster.
var<workgroup> bound_partials: array<vec2<i32>, BOUNDS>;

var<private> sum0: f32;
var<private> sum1: f32;
var<private> sum2: f32;
var<private> sum3: f32;
var<private> squares: array<f32, 4>;
var<private> quantisations: array<Quantisation, 4>;
// First row of the workgroup.
var<private> first_row: u32;

// Eight activations.
struct Octet {
    first: vec4<f32>,
    second: vec4<f32>,
}

// Loads an octet of a row, 0 past the end of k.
fn load_octet(row: u32, octet: u32) -> Octet {
    if RAGGED != 0u && octet >= UNITS * 4u {
        return Octet();
    }
    var at = octet * 2u;
    // Addresses that need no parameter are known before the parameters have arrived.
    if ROWS > 1u {
        at += min(first_row + row, params.m - 1u) * (UNITS * 8u);
    }
    if LAST_ROW == 1u {
        at += params.x_row * (UNITS * 8u);
    }
    return Octet(x[at], x[at + 1u]);
}

fn load_norm(octet: u32) -> Octet {
    if NORM == 0u || (RAGGED != 0u && octet >= UNITS * 4u) {
        return Octet();
    }
    return Octet(norm[octet * 2u], norm[octet * 2u + 1u]);
}

fn low_halves(a: u32, b: u32) -> u32 {
    return (a & 0xffffu) | (b << 16u);
}

fn high_halves(a: u32, b: u32) -> u32 {
    return (a >> 16u) | (b & 0xffff0000u);
}

// The lower bytes of four halves, and the upper ones. Digits have 128 added, which the last bit removes.
fn lower_bytes(a: u32, b: u32) -> u32 {
    return ((a & 0x00ff00ffu) | ((b << 8u) & 0xff00ff00u)) ^ 0x80808080u;
}

fn upper_bytes(a: u32, b: u32) -> u32 {
    return (((a >> 8u) & 0x00ff00ffu) | (b & 0xff00ff00u)) ^ 0x80808080u;
}

// The largest magnitude in a unit, whose octets neighbouring threads hold, as bits: those of NaN and infinity are larger than any number's.
fn largest_bits(v: Octet) -> u32 {
    let magnitude = vec4<u32>(0x7fffffffu);
    let four = max(bitcast<vec4<u32>>(v.first) & magnitude, bitcast<vec4<u32>>(v.second) & magnitude);
    var largest = max(max(four.x, four.y), max(four.z, four.w));
    largest = max(largest, subgroupShuffleXor(largest, 1u));
    return max(largest, subgroupShuffleXor(largest, 2u));
}

// Splits an octet of the chunk into digits.
fn split(row: u32, octet: u32, v: Octet) {
    let largest = bitcast<f32>(largest_bits(v));
    let at = (row * PLANES * 2u + octet / 2u % 2u) * CHUNK + octet / 4u;
    let word = octet % 2u * 2u;
    var a = vec4<u32>();
    var b = vec4<u32>();
    var value = 0.0;
    if PLANES == 2u {
        // The low bits of these sums are the rounded numbers, with 128 added to both digits.
        let inverse = select(32512.0 / largest, 0.0, largest < 1e-30);
        a = bitcast<vec4<u32>>(fma(v.first, vec4<f32>(inverse), vec4<f32>(12615808.0)));
        b = bitcast<vec4<u32>>(fma(v.second, vec4<f32>(inverse), vec4<f32>(12615808.0)));
        // Infinite or NaN if an activation is, and then the sum is, too.
        value = largest * (1.0 / 32512.0);
    } else {
        let inverse = select(8323072.0 / largest, 0.0, largest < 1e-30);
        a = bitcast<vec4<u32>>(vec4<i32>(round(v.first * inverse))) + 0x808080u;
        b = bitcast<vec4<u32>>(vec4<i32>(round(v.second * inverse))) + 0x808080u;
        value = largest * (1.0 / 8323072.0);
        let even = vec2<u32>(high_halves(a.x, b.x), high_halves(a.z, b.z));
        let odd = vec2<u32>(high_halves(a.y, b.y), high_halves(a.w, b.w));
        digits[at + 4u * CHUNK][word] = lower_bytes(even.x, even.y);
        digits[at + 4u * CHUNK][word + 1u] = lower_bytes(odd.x, odd.y);
    }
    let even = vec2<u32>(low_halves(a.x, b.x), low_halves(a.z, b.z));
    let odd = vec2<u32>(low_halves(a.y, b.y), low_halves(a.w, b.w));
    digits[at][word] = lower_bytes(even.x, even.y);
    digits[at][word + 1u] = lower_bytes(odd.x, odd.y);
    digits[at + 2u * CHUNK][word] = upper_bytes(even.x, even.y);
    digits[at + 2u * CHUNK][word + 1u] = upper_bytes(odd.x, odd.y);
    if octet % 4u == 0u {
        // Weights are multiplied by 16.
        digit_values[row * CHUNK + octet / 4u] = value * 0.0625;
    }
}

// After the overrides that it uses: naga takes them in the order of their use.
//#include fused_linear_int8_rows

fn split_or_quantise(row: u32, octet: u32, v: Octet) {
    if INT8 == 1u {
        quantise(row, octet, v);
    } else {
        split(row, octet, v);
    }
}

// Multiplies an octet by the norm's weights and splits it; sums its squares, unless they are known.
fn normalise_and_split(row: u32, octet: u32, v: Octet, factors: Octet) {
    if NORM == 1u {
        if INT8 == 0u {
            squares[row] += dot(v.first, v.first) + dot(v.second, v.second);
        }
        split_or_quantise(row, octet, Octet(v.first * factors.first, v.second * factors.second));
    } else {
        split_or_quantise(row, octet, v);
    }
}

// 16 · (weight − 8) of even and odd values of k, as signed bytes.
struct Unit {
    even: vec4<u32>,
    odd: vec4<u32>,
}

fn unpack(words: vec4<u32>) -> Unit {
    let upper = vec4<u32>(0xf0f0f0f0u);
    let zero = vec4<u32>(0x80808080u);
    return Unit(((words << vec4<u32>(4u)) & upper) ^ zero, (words & upper) ^ zero);
}

// The sum over a unit of one plane of digits.
fn dot_plane(w: Unit, at: u32) -> i32 {
    let a = digits[at];
    let b = digits[at + CHUNK];
    return dot4I8Packed(w.even.x, a.x) + dot4I8Packed(w.odd.x, a.y) + dot4I8Packed(w.even.y, a.z) + dot4I8Packed(w.odd.y, a.w) +
           dot4I8Packed(w.even.z, b.x) + dot4I8Packed(w.odd.z, b.y) + dot4I8Packed(w.even.w, b.z) + dot4I8Packed(w.odd.w, b.w);
}

// The sum of a unit's weights, which zero points are multiplied by.
fn weight_sum(w: Unit) -> i32 {
    if INT8 == 0u {
        return 0;
    }
    let ones = 0x01010101u;
    return dot4I8Packed(w.even.x, ones) + dot4I8Packed(w.odd.x, ones) + dot4I8Packed(w.even.y, ones) + dot4I8Packed(w.odd.y, ones) +
           dot4I8Packed(w.even.z, ones) + dot4I8Packed(w.odd.z, ones) + dot4I8Packed(w.even.w, ones) + dot4I8Packed(w.odd.w, ones);
}

fn product(w: Unit, row: u32, unit: u32, weights: i32) -> f32 {
    let at = row * PLANES * 2u * CHUNK + unit;
    if INT8 == 1u {
        return f32(dot_plane(w, at) - i32(quantisations[row].zero) * weights);
    }
    let sum = f32(dot_plane(w, at + 2u * CHUNK) * 256 + dot_plane(w, at));
    let value = digit_values[row * CHUNK + unit];
    if PLANES == 2u {
        return sum * value;
    }
    return (f32(dot_plane(w, at + 4u * CHUNK)) * 65536.0 + sum) * value;
}

fn add_unit(unit: u32, words: vec4<u32>, scale: f32) {
    let w = unpack(words);
    let weights = weight_sum(w);
    sum0 += product(w, 0u, unit, weights) * scale;
    if ROWS > 1u {
        sum1 += product(w, 1u, unit, weights) * scale;
    }
    if ROWS > 2u {
        sum2 += product(w, 2u, unit, weights) * scale;
        sum3 += product(w, 3u, unit, weights) * scale;
    }
}

// The index of a pair within k: those past the end repeat the last one, and are multiplied by 0.
fn existing(pair: u32) -> u32 {
    return select(pair, min(pair, PAIRS - 1u), RAGGED != 0u);
}

// The scales of four pairs: those of the thread's units.
fn scales_at(tile: u32, pair: u32, lane: u32) -> vec4<f32> {
    let block = select(pair / 4u, min(pair, PAIRS - 1u) / 4u, RAGGED != 0u);
    return scales[tile * SCALES_PER_TILE + block * SCALE_LANES + lane % SCALE_LANES];
}

// A column of an output.
struct Column {
    matrix: u32,
    index: u32,
}

// The column of a tile; it may be past the last of its matrix.
fn column_of(tile: u32, column: u32) -> Column {
    var matrix = 0u;
    if GATED == 0u {
        matrix = matrix_of_tile(tile);
    }
    return Column(matrix, (tile - params.first_tile[matrix]) * 16u + column);
}

fn put_partials(row: u32, thread: u32, sum: f32) {
    partials[row * THREADS + thread] = sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) subgroup_lane: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
    let thread = thread_of(subgroup, subgroup_lane, subgroup_size);
    var tile = group_index(group, groups);
    if ROWS == 4u {
        // More rows are more workgroups.
        first_row = tile / params.tiles * ROWS;
        tile %= params.tiles;
    }
    let lane = thread % 32u;
    let slice = thread / 32u % SLICES;
    let q = lane / 16u;
    let source = tile + thread / 32u / SLICES * FACTOR_TILES;
    let weights = source * (PAIRS * 32u) + lane;
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
        let octet = chunk * CHUNK * 4u + thread;
        let x0 = load_octet(0u, octet);
        let norm0 = load_norm(octet);
        var x1 = Octet();
        var norm1 = Octet();
        if GATED == 0u {
            x1 = load_octet(0u, octet + THREADS);
            norm1 = load_norm(octet + THREADS);
        }
        let pair = (chunk * SLICES + slice) * 8u;
        let w0 = weight[weights + existing(pair) * 32u];
        let w1 = weight[weights + existing(pair + 1u) * 32u];
        let w2 = weight[weights + existing(pair + 2u) * 32u];
        let w3 = weight[weights + existing(pair + 3u) * 32u];
        let w4 = weight[weights + existing(pair + 4u) * 32u];
        let w5 = weight[weights + existing(pair + 5u) * 32u];
        let w6 = weight[weights + existing(pair + 6u) * 32u];
        let w7 = weight[weights + existing(pair + 7u) * 32u];
        let s = scales_at(source, pair, lane);
        let t = scales_at(source, pair + 4u, lane);
        if INT8 == 1u && chunk == 0u {
            var bounds = vec2<i32>();
            if CHUNKS == 1u {
                bounds = max(bounds, bounds_of_octet(0u, x0, norm0));
            }
            if CHUNKS == 1u && GATED == 0u {
                bounds = max(bounds, bounds_of_octet(0u, x1, norm1));
            }
            choose_quantisations(thread, bounds);
        }
        if CHUNKS > 1u {
            // The digits of the last chunk have been multiplied.
            workgroupBarrier();
        }
        normalise_and_split(0u, thread, x0, norm0);
        if GATED == 0u {
            normalise_and_split(0u, thread + THREADS, x1, norm1);
        }
        for (var row = 1u; row < ROWS; row++) {
            let a = load_octet(row, octet);
            if GATED == 0u {
                let b = load_octet(row, octet + THREADS);
                normalise_and_split(row, thread, a, norm0);
                normalise_and_split(row, thread + THREADS, b, norm1);
            } else {
                normalise_and_split(row, thread, a, norm0);
            }
        }
        workgroupBarrier();
        let local = slice * 16u + q;
        add_unit(local, w0, s.x);
        add_unit(local + 2u, w1, s.y);
        add_unit(local + 4u, w2, s.z);
        add_unit(local + 6u, w3, s.w);
        add_unit(local + 8u, w4, t.x);
        add_unit(local + 10u, w5, t.y);
        add_unit(local + 12u, w6, t.z);
        add_unit(local + 14u, w7, t.w);
    }
    put_partials(0u, thread, sum0);
    if ROWS > 1u {
        put_partials(1u, thread, sum1);
    }
    if ROWS > 2u {
        put_partials(2u, thread, sum2);
        put_partials(3u, thread, sum3);
    }
    if NORM == 1u && INT8 == 0u {
        for (var row = 0u; row < ROWS; row++) {
            let square = sum_lanes(squares[row]);
            if thread % LANES == 0u {
                square_partials[row * CLUSTERS + thread / LANES] = square;
            }
        }
    }
    workgroupBarrier();
    for (var item = thread; item < ROWS * 16u; item += THREADS) {
        store_sums(item / 16u, column_of(tile, item % 16u), item % 16u);
    }
}

// The sum of the slices of a tile.
fn total(row: u32, second: u32, column: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < SLICES * 2u; i++) {
        sum += partials[row * THREADS + second * SLICES * 32u + i * 16u + column];
    }
    return sum;
}

fn with_bias(column: Column, value: f32) -> f32 {
    if params.bias[column.matrix] == NO_BIAS {
        return value;
    }
    let at = params.bias[column.matrix] + column.index;
    return value + scales[at / 4u][at % 4u];
}

// Stores the output of a row of the workgroup and a column, which is `local` in the tile.
fn store_sums(row: u32, column: Column, local: u32) {
    let width = params.width[column.matrix];
    if first_row + row >= params.m || column.index >= width {
        return;
    }
    var factor = 1.0;
    if INT8 == 1u {
        // Weights are multiplied by 16.
        factor = digit_values[row * CHUNK] * 0.0625;
    } else if NORM == 1u {
        var square = 0.0;
        for (var i = 0u; i < CLUSTERS; i++) {
            square += square_partials[row * CLUSTERS + i];
        }
        factor = inverseSqrt(square / f32(params.k) + params.eps);
    }
    var value = with_bias(column, total(row, 0u, local) * factor);
    if GATED == 1u {
        value = silu(vec4<f32>(value)).x * with_bias(Column(1u, column.index), total(row, 1u, local) * factor);
    }
    let at = (first_row + row) * width + column.index;
    if params.has_addend == 1u {
        value += addend[at + params.addend_row * width];
    }
    store_output(column.matrix, at, value);
}
