// Converts to f16, saturating at the largest finite value: an infinity would spoil every later result.
fn saturate_f16(v: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}
