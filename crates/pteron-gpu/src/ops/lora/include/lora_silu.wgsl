// v · sigmoid(v). The exponent is never positive, so exp cannot overflow; NaN stays NaN.
fn silu(v: f32) -> f32 {
    let e = exp(-abs(v));
    return v * (select(e, 1.0, v >= 0.0) / (1.0 + e));
}
