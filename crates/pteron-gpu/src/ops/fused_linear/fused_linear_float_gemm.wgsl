// Fused linears with float weights, many rows, portable: tiled GEMM (`matmul_tile`). A workgroup computes a TILE × TILE tile over
// the columns of all weights, a thread 4 × 4 of it.

//#include grid
//#include fused_linear_params
//#include fused_linear_float
//#include matmul_gemm
//#include fused_linear_store
//#include fused_linear_gemm_store

alias O = f32;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> addend: array<f32>;
@group(0) @binding(5) var<storage, read_write> out0: array<f32>;
@group(0) @binding(6) var<storage, read_write> out1: array<f32>;
@group(0) @binding(7) var<storage, read_write> out2: array<f32>;

// k is a multiple of 16, and the tile's depth is 32.
fn activations(m: u32, k: u32) -> vec4<f32> {
    if k >= params.k {
        return vec4<f32>();
    }
    return x[(min(m, params.m - 1u) * params.k + k) / 4u];
}

// Columns have zeros past k.
fn weights(n: u32, k: u32) -> vec4<f32> {
    let row = min(n, params.n - 1u);
    let matrix = matrix_of(row);
    let first = first_unit(matrix, row - params.first[matrix]) * 4u;
    if HALF == 1u {
        return halves(weight[first + k / 16u * 64u + k % 16u / 4u]);
    }
    let at = first + k / 8u * 64u + k % 8u / 2u;
    return vec4<f32>(bitcast<vec2<f32>>(weight[at]), bitcast<vec2<f32>>(weight[at + 1u]));
}
