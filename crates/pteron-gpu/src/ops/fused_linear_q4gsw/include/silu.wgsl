// v · sigmoid(v). The exponential of a number that is never positive cannot overflow; what is no number stays so in the product.
fn silu(v: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(v));
    return v * (select(e, vec4<f32>(1.0), v >= vec4<f32>(0.0)) / (1.0 + e));
}
