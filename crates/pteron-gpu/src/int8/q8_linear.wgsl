// Linear with int8 weights (`int8_tile`): a workgroup computes a tile of rows of activations by rows of weights.

//#include grid
//#include int8_params
//#include int8_loads
//#include int8_tile

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> weight_sums: array<i32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> bias: array<Y>;
@group(0) @binding(6) var<storage, read_write> out: array<atomic<u32>>;

const FAST_ALONG_K: u32 = 1u;
const SLOW_ALONG_K: u32 = 1u;
const BATCH_INSIDE: u32 = 0u;

fn fast_block(row: u32, k: u32) -> Q {
    return weight_block(row, params.fast - 1u, k);
}

// Activations past the end of k meet weights of 0.
fn slow_block(row: u32, k: u32) -> Q {
    if k >= params.k {
        return Q();
    }
    let rows = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.slow - 1u)) * params.k + k;
    return Q(x_word(rows.x), x_word(rows.y), x_word(rows.z), x_word(rows.w));
}

fn channels_of(fast: u32, slow: u32) -> vec4<u32> {
    return min(vec4<u32>(fast) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.fast - 1u));
}
