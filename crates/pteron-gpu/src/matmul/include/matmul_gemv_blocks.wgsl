// A thread's share of k for weights of any layout: `weights(n, k)` and `activations(m, k)` return four values along k.
fn accumulate(thread: u32, row: u32, column: u32) {
    for (var k = thread * 4u; k < params.k; k += THREADS * 4u) {
        let w0 = weights(column, k);
        let w1 = weights(column + 1u, k);
        let w2 = weights(column + 2u, k);
        let w3 = weights(column + 3u, k);
        for (var m = 0u; m < ROWS; m++) {
            sums[m] = add_products(sums[m], activations(row + m, k), w0, w1, w2, w3);
        }
    }
}
