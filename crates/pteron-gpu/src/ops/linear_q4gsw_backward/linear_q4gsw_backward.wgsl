// Gradient of a linear with 4-bit weights with respect to its input: a tiled GEMM (`matmul_tile`) along the weights' rows. A workgroup
// computes a TILE × TILE tile of the output, a thread 4 × 4 of it.

//#include grid
//#include matmul_params
//#include q4_dequantise
//#include matmul_tile

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> d_out: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const TRANSPOSED: u32 = 0u;

fn enter_batch(batch: u32) -> bool {
    return batch == 0u;
}

fn d_out1(row: u32, k: u32) -> f32 {
    if k < params.k {
        return d_out[row * params.k + k];
    }
    return 0.0;
}

fn activations(m: u32, k: u32) -> vec4<f32> {
    let row = min(m, params.m - 1u);
    return vec4<f32>(d_out1(row, k), d_out1(row, k + 1u), d_out1(row, k + 2u), d_out1(row, k + 3u));
}

fn scale1(row: u32, column: u32) -> f32 {
    return scales[min(column, params.n - 1u) / params.group * params.scale_stride + row];
}

// Four columns of a row of weights, 0 past the last row. The column is a multiple of 4, so that its two bytes are even.
fn weight_row(row: u32, column: u32) -> vec4<f32> {
    if row >= params.k || column >= params.n {
        return vec4<f32>();
    }
    let at = row * params.weight_stride + column / 2u;
    let shift = at % 4u * 8u;
    var half = weight[at / 4u] >> shift;
    if shift == 24u {
        half |= weight[min(at / 4u + 1u, params.last_word)] << 8u;
    }
    let factors = vec4<f32>(scale1(row, column), scale1(row, column + 1u), scale1(row, column + 2u), scale1(row, column + 3u));
    return q4_values(half) * factors;
}

fn weight_block(column: u32, row: u32) -> mat4x4<f32> {
    return mat4x4<f32>(weight_row(row, column), weight_row(row + 1u, column), weight_row(row + 2u, column), weight_row(row + 3u, column));
}

fn finish(m: u32, n: u32, value: f32) {
    out[m * params.n + n] = value;
}
