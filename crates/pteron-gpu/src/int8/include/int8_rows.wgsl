// Rows of floats that are quantised by their own multiplier and zero point, and the end of products with them.

//#include exact_division

fn zero_of(row: u32) -> i32 {
    return bitcast<i32>(zero_points[row / 4u] << (24u - 8u * (row % 4u))) >> 24u;
}

// Four values of a row along k; those past its end meet weights of 0.
fn quantised(row: u32, k: u32) -> u32 {
    let own = min(row, params.slow - 1u);
    let at = own * params.k + min(vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.k - 1u));
    let values = vec4<f32>(x[at.x], x[at.y], x[at.z], x[at.w]) * multipliers[own];
    let steps = clamp(round(values) + f32(zero_of(own)), vec4<f32>(-128.0), vec4<f32>(127.0));
    return packed(bitcast<vec4<u32>>(vec4<i32>(steps)));
}

fn channels_of(fast: u32, slow: u32) -> vec4<u32> {
    return min(vec4<u32>(fast) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.fast - 1u));
}

// Sums in real numbers: by the row's scale, then by the weights'.
fn of_row(s: vec4<i32>, c: vec4<u32>, row: u32) -> vec4<f32> {
    let of_weights = vec4<i32>(weight_sums[c.x], weight_sums[c.y], weight_sums[c.z], weight_sums[c.w]);
    let sums = vec4<f32>(s - zero_of(row) * of_weights);
    return with_bias(c, sums * reciprocal(multipliers[row]) * factors_of(c));
}
