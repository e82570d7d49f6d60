// A thread's share of k for 4-bit weights whose rows are whole 16-byte vectors, `weight: array<vec4<u32>>`, in groups of
// whole vectors, with scales in vectors along n, `scales: array<vec4<f32>>`: 32 values from a load, and a scale for them all.

//#include q4_dequantise

// The sums within a vector, before they are scaled.
var<private> unscaled: array<vec4<f32>, MAX_ROWS>;

// Eight values along k from a word of each of four rows.
fn add_word(row: u32, k: u32, w0: u32, w1: u32, w2: u32, w3: u32) {
    let a0 = q4_values(w0);
    let a1 = q4_values(w1);
    let a2 = q4_values(w2);
    let a3 = q4_values(w3);
    let b0 = q4_values(w0 >> 16u);
    let b1 = q4_values(w1 >> 16u);
    let b2 = q4_values(w2 >> 16u);
    let b3 = q4_values(w3 >> 16u);
    for (var m = 0u; m < ROWS; m++) {
        let sum = add_products(unscaled[m], activations(row + m, k), a0, a1, a2, a3);
        unscaled[m] = add_products(sum, activations(row + m, k + 4u), b0, b1, b2, b3);
    }
}

fn accumulate(thread: u32, row: u32, column: u32) {
    let stride = params.weight_stride / 16u;
    let last = params.n - 1u;
    let r0 = column * stride;
    let r1 = min(column + 1u, last) * stride;
    let r2 = min(column + 2u, last) * stride;
    let r3 = min(column + 3u, last) * stride;
    for (var vector = thread; vector < params.k / 32u; vector += THREADS) {
        let w0 = weight[r0 + vector];
        let w1 = weight[r1 + vector];
        let w2 = weight[r2 + vector];
        let w3 = weight[r3 + vector];
        let k = vector * 32u;
        let scale = scales[k / params.group * (params.scale_stride / 4u) + column / 4u];
        for (var m = 0u; m < ROWS; m++) {
            unscaled[m] = vec4<f32>();
        }
        add_word(row, k, w0.x, w1.x, w2.x, w3.x);
        add_word(row, k + 8u, w0.y, w1.y, w2.y, w3.y);
        add_word(row, k + 16u, w0.z, w1.z, w2.z, w3.z);
        add_word(row, k + 24u, w0.w, w1.w, w2.w, w3.w);
        for (var m = 0u; m < ROWS; m++) {
            sums[m] += unscaled[m] * scale;
        }
    }
}
