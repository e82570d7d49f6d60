// 4-bit linear, many rows: tiled GEMM (`matmul_tile`). A workgroup computes a TILE × TILE tile of the output, a thread 4 × 4
// of it; weights are dequantised on the way to workgroup memory.

//#include grid
//#include matmul_params
//#include matmul_activations
//#include float_activations
//#include q4_weights
//#include matmul_gemm
//#include matmul_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
