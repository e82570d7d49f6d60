// 4-bit weights as f16 operands of cooperative matrices, and the outputs of finished sums. Rows come packed
// (`fused_linear_q4gsw_pack_f16`): divided by a power of two, the row's factor, so that f16 holds them. Weights are divided by
// WEIGHT_FACTOR. Of eight values along k, both have the order 0, 4, 1, 5, 2, 6, 3, 7.

//#include fused_linear_coop_store

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<E>;
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

const WEIGHT_FACTOR: f32 = 0.015625;
// The largest scale whose weights are finite in f16.
const LARGEST_SCALE: f32 = 8188.0;
// Values of k per unit of a tile. Kernels multiply slices of two units; a tile of columns has 32 units of a slice.
const UNIT: u32 = 32u;
const UNITS_PER_SLICE: u32 = 32u;
// Vectors per column of a slice in workgroup memory, padded against bank conflicts.
const PITCH: u32 = 18u;
// Vectors of a tile of columns there, and of 16 packed rows of a slice.
const TILE: u32 = 16u * PITCH;
const SLICE: u32 = 256u;

// A pair of f16 from its bits. The driver drops both conversions; WGSL as naga has it cannot reinterpret 32 bits as two f16.
fn pair_of(bits: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float(bits));
}

// Four weights of a word, values 0, 4, 1 and 5; a word shifted by 8 has the others. A nibble is combined with the exponent of 1,024,
// which gives 1,024 plus the nibble, or plus 16 times the nibble; exact subtractions leave the value.
fn weights_of(word: u32, scale: vec2<f16>, sixteenth: vec2<f16>) -> vec4<f16> {
    let low = pair_of((word & 0x000f000fu) | 0x64006400u) - vec2<f16>(1032.0h);
    let high = pair_of((word & 0x00f000f0u) | 0x64006400u) - vec2<f16>(1152.0h);
    return vec4<f16>(low * scale, high * sixteenth);
}

// Stores a vector of a column in workgroup memory.
fn stage(at: u32, v: vec4<f16>) {
    //#unroll vector {VECTORS}
    columns[at] = v;
    //#end
    //#unroll scalar {SCALARS}
    columns[at * 4u] = v.x;
    columns[at * 4u + 1u] = v.y;
    columns[at * 4u + 2u] = v.z;
    columns[at * 4u + 3u] = v.w;
    //#end
}

// Dequantises a unit to workgroup memory, from pair `at` of vectors on.
fn store_unit(at: u32, words: vec4<u32>, scale: f32) {
    let whole = vec2<f16>(f16(scale));
    let sixteenth = vec2<f16>(f16(scale * 0.0625));
    stage(at * 2u, weights_of(words.x, whole, sixteenth));
    stage(at * 2u + 1u, weights_of(words.x >> 8u, whole, sixteenth));
    stage(at * 2u + 2u, weights_of(words.y, whole, sixteenth));
    stage(at * 2u + 3u, weights_of(words.y >> 8u, whole, sixteenth));
    stage(at * 2u + 4u, weights_of(words.z, whole, sixteenth));
    stage(at * 2u + 5u, weights_of(words.z >> 8u, whole, sixteenth));
    stage(at * 2u + 6u, weights_of(words.w, whole, sixteenth));
    stage(at * 2u + 7u, weights_of(words.w >> 8u, whole, sixteenth));
}

// Pair of vectors of a tile in workgroup memory that unit `item` of its slice starts with.
fn staged_at(item: u32) -> u32 {
    return item % COLUMNS_PER_TILE * (PITCH / 2u) + item / COLUMNS_PER_TILE * 4u;
}

// Offset of the first scale of a tile for unit `item` of every slice: one column, and its even or odd units.
fn scales_of(tile: u32, item: u32) -> u32 {
    let matrix = matrix_of_tile(tile);
    let column = (tile - params.first_tile[matrix]) * COLUMNS_PER_TILE + item % COLUMNS_PER_TILE;
    return first_scale(matrix, column) + scale_of_unit(item / COLUMNS_PER_TILE);
}

// Offset of the scale of a slice from there.
fn scale_of_slice(slice: u32) -> u32 {
    return scale_of_unit(slice * 2u);
}

// The scale of a unit of a slice, as weights are divided; zero past k. Apart from the load, which would be waited for.
fn divided(scale: f32, slice: u32, item: u32) -> f32 {
    let finite = clamp(scale / WEIGHT_FACTOR, -LARGEST_SCALE, LARGEST_SCALE);
    return select(0.0, finite, (slice * 2u + item / COLUMNS_PER_TILE) * UNIT < params.k);
}
