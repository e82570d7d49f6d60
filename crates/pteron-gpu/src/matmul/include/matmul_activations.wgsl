// Loads of the activations `x: array<X>`, four along k at a time.

// 1: X is vec4<f32>, and k is a multiple of 4. 0: X is f32.
override WIDE: u32 = 0u;

fn x1(row: u32, k: u32) -> f32 {
    if k < params.k {
        return vec4<f32>(x[row * params.k + k]).x;
    }
    return 0.0;
}

// x[m, k..k + 4]; 0 past the end of the row. A row past the last reads the last one: it is never written.
fn x4(m: u32, k: u32) -> vec4<f32> {
    let row = min(m, params.m - 1u);
    if WIDE == 1u {
        if k < params.k {
            return vec4<f32>(x[(row * params.k + k) / 4u]);
        }
        return vec4<f32>();
    }
    return vec4<f32>(x1(row, k), x1(row, k + 1u), x1(row, k + 2u), x1(row, k + 3u));
}
