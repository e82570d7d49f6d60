// Fused 4-bit linears, many rows, portable: tiled GEMM (`matmul_tile`). A workgroup computes a TILE × TILE tile over the
// columns of all weights, a thread 4 × 4 of it; weights are dequantised on the way to workgroup memory.

//#include grid
//#include fused_linear_params
//#include q4_dequantise
//#include matmul_gemm
//#include fused_linear_store
//#include fused_linear_gemm_store

alias O = f32;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> addend: array<f32>;
@group(0) @binding(5) var<storage, read_write> out0: array<f32>;
@group(0) @binding(6) var<storage, read_write> out1: array<f32>;
@group(0) @binding(7) var<storage, read_write> out2: array<f32>;

// k is a multiple of the tile's depth, so no load is past its end.
fn activations(m: u32, k: u32) -> vec4<f32> {
    return x[(min(m, params.m - 1u) * params.k + k) / 4u];
}

fn weights(n: u32, k: u32) -> vec4<f32> {
    let row = min(n, params.n - 1u);
    let matrix = matrix_of(row);
    let column = row - params.first[matrix];
    let word = weight[(first_unit(matrix, column) + k / 32u * COLUMNS_PER_TILE) * 4u + k % 32u / 8u];
    return q4_values(word >> (k % 8u * 4u)) * scales[first_scale(matrix, column) + scale_of_unit(k / 32u)];
}
