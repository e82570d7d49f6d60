// v · sigmoid(v). The exponent is never positive, so exp cannot overflow; NaN stays NaN.
fn silu(v: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(v));
    return v * (select(e, vec4<f32>(1.0), v >= vec4<f32>(0.0)) / (1.0 + e));
}
