// 16-bit floats; what they cannot hold becomes the largest that they can: an infinity would spoil all that meets it.
fn saturate_f16(v: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
}
