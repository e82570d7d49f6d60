// 4-bit weights as f16 operands of cooperative matrices, and the outputs of finished sums. Rows come packed
// (`fused_linear_q4gsw_pack_f16`): divided by a power of two, the row's factor, so that f16 holds them. Weights are divided by
// WEIGHT_FACTOR. Of eight values along k, both have the order 0, 4, 1, 5, 2, 6, 3, 7.

//#include silu

const WEIGHT_FACTOR: f32 = 0.015625;
// The largest scale whose weights are finite in f16.
const LARGEST_SCALE: f32 = 8188.0;
// Values of k per unit of a tile. Kernels multiply slices of two units, which the lanes of a subgroup load at once.
const UNIT: u32 = 32u;
const LANES: u32 = 32u;
// Vectors per column of a slice in workgroup memory, padded against bank conflicts.
const PITCH: u32 = 18u;
// Vectors of a tile of columns there, of 16 packed rows of a slice, and of a block of sums.
const TILE: u32 = 16u * PITCH;
const SLICE: u32 = 256u;
const BLOCK: u32 = 64u;

override GATED: u32 = 0u;

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

// Dequantises a lane's unit to workgroup memory, from pair `at` of vectors on.
fn store_unit(at: u32, words: vec4<u32>, scale: f32) {
    let whole = vec2<f16>(f16(scale));
    let sixteenth = vec2<f16>(f16(scale * 0.0625));
    columns[at * 2u] = weights_of(words.x, whole, sixteenth);
    columns[at * 2u + 1u] = weights_of(words.x >> 8u, whole, sixteenth);
    columns[at * 2u + 2u] = weights_of(words.y, whole, sixteenth);
    columns[at * 2u + 3u] = weights_of(words.y >> 8u, whole, sixteenth);
    columns[at * 2u + 4u] = weights_of(words.z, whole, sixteenth);
    columns[at * 2u + 5u] = weights_of(words.z >> 8u, whole, sixteenth);
    columns[at * 2u + 6u] = weights_of(words.w, whole, sixteenth);
    columns[at * 2u + 7u] = weights_of(words.w >> 8u, whole, sixteenth);
}

fn matrix_of_tile(tile: u32) -> u32 {
    return select(0u, 1u, tile >= params.first_tile.y) + select(0u, 1u, tile >= params.first_tile.z);
}

// The tile of columns at a position; for SwiGLU the tiles of the two weights alternate. Positions past the last repeat it.
fn tile_at(position: u32) -> u32 {
    if GATED == 1u {
        return min(position / 2u, params.first_tile.y - 1u) + position % 2u * params.first_tile.y;
    }
    return min(position, params.tiles - 1u);
}

// Offset of a lane's first scale of a tile: its half of every pair of units, of one column.
fn scales_of(tile: u32, lane: u32) -> u32 {
    let matrix = matrix_of_tile(tile);
    let column = (tile - params.first_tile[matrix]) * COLUMNS_PER_TILE + lane % COLUMNS_PER_TILE;
    return first_scale(matrix, column) + scale_of_unit(lane / COLUMNS_PER_TILE);
}

// Offset of a lane's scale of a slice from there.
fn scale_of_slice(slice: u32) -> u32 {
    return scale_of_unit(slice * 2u);
}

// A lane's scale in a slice, as weights are divided; zero past k. Apart from the load, which would be waited for.
fn divided(scale: f32, slice: u32, lane: u32) -> f32 {
    let finite = clamp(scale / WEIGHT_FACTOR, -LARGEST_SCALE, LARGEST_SCALE);
    return select(0.0, finite, (slice * 2u + lane / COLUMNS_PER_TILE) * UNIT < params.k);
}

fn with_bias(matrix: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
    let at = params.bias[matrix] + column;
    if params.bias[matrix] == NO_BIAS {
        return value;
    }
    return value + vec4<f32>(scales[at], scales[at + 1u], scales[at + 2u], scales[at + 3u]);
}

// Stores four outputs of a row, given the position of their tile, their column in it, and their sums; `up` is the second factor of SwiGLU.
fn store_outputs(row: u32, position: u32, local: u32, sum: vec4<f32>, up: vec4<f32>) {
    let tile = tile_at(position);
    let matrix = matrix_of_tile(tile);
    let column = (tile - params.first_tile[matrix]) * COLUMNS_PER_TILE + local;
    if row < params.m && position < params.tiles && column < params.width[matrix] {
        let factor = factors[row] * WEIGHT_FACTOR;
        let at = (row * params.width[matrix] + column) / 4u;
        var value = with_bias(matrix, column, sum * factor);
        if GATED == 1u {
            value = silu(value) * with_bias(1u, column, up * factor);
        }
        if params.has_addend == 1u {
            value += addend[at];
        }
        store_output(matrix, at, value);
    }
}
