// 8-bit quantised rows times rows of 4-bit weights in whole vectors, few rows: a workgroup computes up to eight rows of
// four outputs, its threads sharing k, 32 at a time.

//#include grid
//#include matmul_params
//#include matmul_activations
//#include q8_activations
//#include q4_gemv_wide
//#include matmul_gemv
//#include matmul_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> input_scale: array<f32>;
@group(0) @binding(3) var<storage, read> input_zero_point: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<f32>;
