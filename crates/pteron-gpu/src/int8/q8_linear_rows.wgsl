// Linear with int8 weights of rows that are quantised by their own multiplier and zero point (`int8_tile`): a workgroup computes a tile of
// rows of activations by rows of weights. Activations are quantised while they are staged.

//#include grid
//#include int8_params
//#include int8_loads
//#include int8_tile
//#include int8_rows

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> multipliers: array<f32>;
@group(0) @binding(3) var<storage, read> zero_points: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> weight_sums: array<i32>;
@group(0) @binding(6) var<storage, read> scales: array<f32>;
@group(0) @binding(7) var<storage, read> bias: array<Y>;
@group(0) @binding(8) var<storage, read_write> out: array<atomic<u32>>;

const FAST_ALONG_K: u32 = 1u;
const SLOW_ALONG_K: u32 = 1u;
const BATCH_INSIDE: u32 = 0u;

fn fast_block(row: u32, k: u32) -> Q {
    return weight_block(row, params.fast - 1u, k);
}

fn slow_block(row: u32, k: u32) -> Q {
    if k >= params.k {
        return Q();
    }
    return Q(quantised(row, k), quantised(row + 1u, k), quantised(row + 2u, k), quantised(row + 3u, k));
}
