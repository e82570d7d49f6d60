// Float weights in tiles (`fused_linear_params`): units of 32 bytes, 16 values of 16 bits or 8 of 32 bits.

// 1: values have 16 bits.
override HALF: u32 = 1u;

// Four values of 16 bits.
fn halves(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
