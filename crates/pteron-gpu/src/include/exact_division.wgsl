// A GPU may divide with an error of some last bits; where a quotient is rounded to a step, those bits decide. One correction by what the
// quotient leaves of the dividend makes it as good as the host's. Halves of 12 bits have exact products, so what is left is exact even where
// a device multiplies and adds in two roundings, fused or not.
const UPPER_HALF: u32 = 0xfffff000u;

fn divided(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = a / b;
    let q_high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(q) & vec4<u32>(UPPER_HALF));
    let b_high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & vec4<u32>(UPPER_HALF));
    let q_low = q - q_high;
    let b_low = b - b_high;
    let left = ((a - q_high * b_high) - q_high * b_low) - q_low * b_high;
    return fma(left - q_low * b_low, 1.0 / b, q);
}

fn reciprocal(b: f32) -> f32 {
    let q = 1.0 / b;
    let q_high = bitcast<f32>(bitcast<u32>(q) & UPPER_HALF);
    let b_high = bitcast<f32>(bitcast<u32>(b) & UPPER_HALF);
    let q_low = q - q_high;
    let b_low = b - b_high;
    let left = ((1.0 - q_high * b_high) - q_high * b_low) - q_low * b_high;
    return fma(left - q_low * b_low, q, q);
}
