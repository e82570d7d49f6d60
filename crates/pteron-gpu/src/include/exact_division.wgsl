// A GPU may divide with an error of some last bits; where a quotient is rounded to a step, those bits decide. One correction with
// a fused multiply-add makes it as good as the host's.
fn divided(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = a / b;
    return fma(fma(-q, b, a), 1.0 / b, q);
}

fn reciprocal(b: f32) -> f32 {
    let q = 1.0 / b;
    return fma(fma(-q, b, 1.0), q, q);
}
