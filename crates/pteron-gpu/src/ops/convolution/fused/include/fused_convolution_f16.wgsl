// Rounding of inputs for cooperative matrices.

// Saturates at the largest finite value: an infinity would spoil every sum.
fn to_f16(v: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}
