// Loads of 4-bit weights of any layout, `weight: array<u32>` with `scales: array<f32>`, four along k at a time, dequantised.

//#include q4_dequantise

// The two bytes at a byte offset, in the low half. Rows may start anywhere, so they may span two words.
fn two_bytes(at: u32) -> u32 {
    let low = weight[at / 4u] >> (at % 4u * 8u);
    if at % 4u < 3u {
        return low;
    }
    return low | (weight[min(at / 4u + 1u, params.last_word)] << 8u);
}

fn scale1(n: u32, k: u32) -> f32 {
    return scales[min(k, params.k - 1u) / params.group * params.scale_stride + n];
}

// weight[n, k..k + 4], scaled, for k a multiple of 4; 0 past the end of the row. A row past the last reads the last one.
fn weights(n: u32, k: u32) -> vec4<f32> {
    if k >= params.k {
        return vec4<f32>();
    }
    let row = min(n, params.n - 1u);
    let values = q4_values(two_bytes(row * params.weight_stride + k / 2u));
    if params.group % 4u == 0u {
        return values * scale1(row, k);
    }
    return values * vec4<f32>(scale1(row, k), scale1(row, k + 1u), scale1(row, k + 2u), scale1(row, k + 3u));
}
