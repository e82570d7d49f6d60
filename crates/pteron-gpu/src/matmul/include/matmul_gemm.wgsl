// Tiled GEMM with row-major weights [n, k]: `weights(n, k)` and `activations(m, k)` return four values along k, 0 past its
// end, for any row, also past the last.

//#include matmul_tile

const TRANSPOSED: u32 = 1u;

fn enter_batch(batch: u32) -> bool {
    return batch == 0u;
}

fn weight_block(n: u32, k: u32) -> mat4x4<f32> {
    return transpose(mat4x4<f32>(weights(n, k), weights(n + 1u, k), weights(n + 2u, k), weights(n + 3u, k)));
}
