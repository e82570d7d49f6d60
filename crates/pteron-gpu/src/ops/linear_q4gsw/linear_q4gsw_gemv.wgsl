// 4-bit linear, few rows, any layout of the weights: GEMV (`matmul_gemv`). A workgroup of 64 threads computes up to eight rows
// by four columns; threads share k, four values at a time.

//#include grid
//#include matmul_params
//#include matmul_activations
//#include float_activations
//#include q4_weights
//#include matmul_gemv
//#include matmul_gemv_blocks
//#include matmul_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
