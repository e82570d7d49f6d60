// Four 4-bit values from the low half of a word, the lowest first; 8 stands for zero.
// A nibble put under the exponent of 2²³ is that float plus the nibble times its place: a product and a difference, both
// exact, make it the value, which costs less than a shift and a conversion each.

// 1: of the two values in a byte, the first is in its high half.
override HIGH_FIRST: u32 = 0u;

fn q4_values(half: u32) -> vec4<f32> {
    let bits = (vec4<u32>(half) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
    let places = vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625);
    let values = bitcast<vec4<f32>>(bits) * places - vec4<f32>(8388616.0, 524296.0, 32776.0, 2056.0);
    if HIGH_FIRST == 1u {
        return values.yxwz;
    }
    return values;
}
