// Up to three products of many rows with 4-bit weights: a workgroup computes a square tile of the columns of all parts, a
// thread 4×4 of it, from weights it makes floats of on the way into workgroup memory.

//#include grid
//#include fused_linear_params
//#include q4_dequantise
//#include matmul_gemm
//#include fused_linear_store

alias O = f32;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> addend: array<f32>;
@group(0) @binding(5) var<storage, read_write> out0: array<f32>;
@group(0) @binding(6) var<storage, read_write> out1: array<f32>;
@group(0) @binding(7) var<storage, read_write> out2: array<f32>;

// k is whole slices of a tile: nothing lies past its end.
fn activations(m: u32, k: u32) -> vec4<f32> {
    return x[(min(m, params.m - 1u) * params.k + k) / 4u];
}

fn weights(n: u32, k: u32) -> vec4<f32> {
    let row = min(n, params.n - 1u);
    let part = part_of(row);
    let word = weight[row * (params.weight_stride / 4u) + k / 8u];
    let scale = params.scales[part] + row - params.first[part] + k / params.group * params.scale_stride[part];
    return q4_values(word >> (k % 8u * 4u)) * scales[scale];
}

fn finish(m: u32, n: u32, product: f32) {
    let part = part_of(n);
    let column = n - params.first[part];
    let at = m * params.width[part] + column;
    var value = product;
    if params.bias[part] != NO_BIAS {
        value += scales[params.bias[part] + column];
    }
    if params.has_addend == 1u {
        value += addend[at];
    }
    write_part(part, at, value);
}
