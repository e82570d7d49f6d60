// Dequantises 4-bit values; 8 represents zero. A nibble is combined with an exponent whose lowest mantissa bit is at the
// nibble's position, which gives a power of two plus the nibble. An exact subtraction leaves the value, and costs less than
// a shift and a conversion.
const NIBBLES = vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u);
const EXPONENTS = vec4<u32>(0x4b000000u, 0x49000000u, 0x47000000u, 0x45000000u);
const ZEROES = vec4<f32>(8388616.0, 524296.0, 32776.0, 2056.0);

// 1: of the two values in a byte, the first is in the high nibble.
override HIGH_FIRST: u32 = 0u;

// Four values from the low half of a word, the lowest first.
fn q4_values(half: u32) -> vec4<f32> {
    let values = bitcast<vec4<f32>>((vec4<u32>(half) & NIBBLES) | EXPONENTS) - ZEROES;
    if HIGH_FIRST == 1u {
        return values.yxwz;
    }
    return values;
}

// The same of four words at once: a vector of their lowest values, one of the next, and so on.
fn q4_block(halves: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(q4_values_at(halves, NIBBLES.x, EXPONENTS.x, ZEROES.x), q4_values_at(halves, NIBBLES.y, EXPONENTS.y, ZEROES.y),
                       q4_values_at(halves, NIBBLES.z, EXPONENTS.z, ZEROES.z), q4_values_at(halves, NIBBLES.w, EXPONENTS.w, ZEROES.w));
}

fn q4_values_at(halves: vec4<u32>, nibble: u32, exponent: u32, zero: f32) -> vec4<f32> {
    return bitcast<vec4<f32>>((halves & vec4<u32>(nibble)) | vec4<u32>(exponent)) - zero;
}
