// Batched matmul, many rows: tiled GEMM (`matmul_tile`). A workgroup computes a 64 × 64 tile of one batch's output, a thread 4
// × 4 of it.

//#include grid
//#include batched_matmul
//#include matmul_tile

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<W>;
@group(0) @binding(3) var<storage, read> addend: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
