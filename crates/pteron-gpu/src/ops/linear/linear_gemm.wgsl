// f32 linear, many rows: tiled GEMM (`matmul_tile`). A workgroup computes a TILE × TILE tile of the output, a thread 4 × 4 of it.

//#include grid
//#include matmul_params
//#include matmul_activations
//#include float_activations
//#include f32_weights
//#include matmul_gemm
//#include matmul_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<X>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
