// Activations quantised to 8 bits with the scale and the zero point of their row (`input_scale`, and `input_zero_point`, four
// per word); a multiplier may take the place of the scale. The zero point is subtracted again, so that a product needs only the row's scale at its end.
//#include exact_division

// 1: rows have multipliers, the reciprocals of their scales.
override MULTIPLIERS: u32 = 0u;

fn activations(m: u32, k: u32) -> vec4<f32> {
    let row = min(m, params.m - 1u);
    let zero = f32(extractBits(bitcast<i32>(input_zero_point[row / 4u]), row % 4u * 8u, 8u));
    let multiplier = select(reciprocal(input_scale[row]), input_scale[row], MULTIPLIERS == 1u);
    let rounded = round(x4(row, k) * multiplier) + zero;
    return clamp(rounded, vec4<f32>(-128.0), vec4<f32>(127.0)) - zero;
}

// Products are in units of the row's scale.
fn finish(m: u32, n: u32, product: f32) {
    store(m, n, product * select(input_scale[m], reciprocal(input_scale[m]), MULTIPLIERS == 1u));
}
