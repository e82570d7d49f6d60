// Loads of f32 weights, `weight: array<X>`, four along k at a time.

fn weight1(row: u32, k: u32) -> f32 {
    if k < params.k {
        return vec4<f32>(weight[row * params.k + k]).x;
    }
    return 0.0;
}

// weight[n, k..k + 4]; 0 past the end of the row. A row past the last reads the last one.
fn weights(n: u32, k: u32) -> vec4<f32> {
    let row = min(n, params.n - 1u);
    if WIDE == 1u {
        if k < params.k {
            return vec4<f32>(weight[(row * params.k + k) / 4u]);
        }
        return vec4<f32>();
    }
    return vec4<f32>(weight1(row, k), weight1(row, k + 1u), weight1(row, k + 2u), weight1(row, k + 3u));
}
