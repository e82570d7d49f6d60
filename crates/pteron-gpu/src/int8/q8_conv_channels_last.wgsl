// Convolution of images with channels last and int8 weights as an implicit GEMM (`int8_tile`): a workgroup computes a tile of output
// channels of a group by pixels of all images. k runs over the kernel's rows and columns and the group's input channels, in this order;
// the tile's activations are gathered from the images while they are staged. Pixels outside an image are the zero point.

// Overrides come before the arrays of `int8_tile`, whose length is one: naga 30 panics otherwise.
//#include int8_window
// 1: the group's channels are a multiple of 4, so that four values along k are a word of one pixel.
override WHOLE_CHANNELS: u32 = 0u;

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
const BATCH_INSIDE: u32 = 1u;

// The offset of the group's first channel at a place of the kernel.
fn tap_offset(pixel: u32, tap: u32) -> u32 {
    let image = pixel / params.image_pixels;
    let y = input_y(pixel % params.image_pixels, tap / params.kernel_width);
    let column = input_x(pixel % params.image_pixels, tap % params.kernel_width);
    if y >= params.height || column >= params.width {
        return OUTSIDE;
    }
    return (((image * params.height + y) * params.width + column) * params.groups + batch) * params.channels;
}

fn one(pixel: u32, k: u32) -> P {
    if k >= params.k {
        return P();
    }
    let at = tap_offset(pixel, k / params.channels);
    if at == OUTSIDE {
        return padding();
    }
    return x_value(at + k % params.channels);
}

// Four values of a pixel along k.
fn along_k(pixel: u32, k: u32) -> V {
    if WHOLE_CHANNELS == 0u {
        return pack4(one(pixel, k), one(pixel, k + 1u), one(pixel, k + 2u), one(pixel, k + 3u));
    }
    let at = tap_offset(pixel, k / params.channels);
    if at == OUTSIDE {
        return pack4(padding(), padding(), padding(), padding());
    }
    return x_word(at + k % params.channels);
}

// Weights of four output channels of the group.
fn fast_block(channel: u32, k: u32) -> Q {
    let first = batch * params.fast;
    return weight_block(first + channel, first + params.fast - 1u, k);
}

fn slow_block(pixel: u32, k: u32) -> Q {
    if k >= params.k {
        return Q();
    }
    let p = min(vec4<u32>(pixel) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.slow - 1u));
    return Q(along_k(p.x, k), along_k(p.y, k), along_k(p.z, k), along_k(p.w, k));
}

fn channels_of(fast: u32, slow: u32) -> vec4<u32> {
    return batch * params.fast + min(vec4<u32>(fast) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.fast - 1u));
}
