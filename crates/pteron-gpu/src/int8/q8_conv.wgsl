// Convolution with int8 weights as an implicit GEMM (`int8_tile`): a workgroup computes a tile of pixels by output channels of a group. k
// runs over the kernel's rows and columns and the group's input channels, in this order; the tile's activations are gathered from the image
// while they are staged. Pixels outside the image are the zero point.

// Overrides come before the arrays of `int8_tile`, whose length is one: naga 30 panics otherwise.
//#include int8_window
// 1: the group's channels are a multiple of 4, so that four values along k are at one place of the kernel.
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

const FAST_ALONG_K: u32 = 0u;
const SLOW_ALONG_K: u32 = 1u;
const BATCH_INSIDE: u32 = 0u;

// The offset of a pixel in the first channel of the batch's group.
fn pixel_offset(y: u32, column: u32) -> u32 {
    return (batch * params.channels * params.height + y) * params.width + column;
}

fn one(pixel: u32, k: u32) -> P {
    if k >= params.k {
        return P();
    }
    let tap = k / params.channels;
    let y = input_y(pixel, tap / params.kernel_width);
    let column = input_x(pixel, tap % params.kernel_width);
    if y >= params.height || column >= params.width {
        return padding();
    }
    return x_value(pixel_offset(y, column) + k % params.channels * params.height * params.width);
}

// Four channels of a pixel.
fn channels_at(offset: u32, plane: u32) -> V {
    return pack4(x_value(offset), x_value(offset + plane), x_value(offset + 2u * plane), x_value(offset + 3u * plane));
}

fn channels_of_pixel(pixel: u32, tap_y: u32, tap_x: u32, channel: u32) -> V {
    let y = input_y(pixel, tap_y);
    let column = input_x(pixel, tap_x);
    if y >= params.height || column >= params.width {
        return pack4(padding(), padding(), padding(), padding());
    }
    let plane = params.height * params.width;
    return channels_at(pixel_offset(y, column) + channel * plane, plane);
}

fn fast_block(pixel: u32, k: u32) -> Q {
    if k >= params.k {
        return Q();
    }
    let last = params.fast - 1u;
    let p = min(vec4<u32>(pixel) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last));
    if WHOLE_CHANNELS == 0u {
        return Q(pack4(one(p.x, k), one(p.x, k + 1u), one(p.x, k + 2u), one(p.x, k + 3u)),
                 pack4(one(p.y, k), one(p.y, k + 1u), one(p.y, k + 2u), one(p.y, k + 3u)),
                 pack4(one(p.z, k), one(p.z, k + 1u), one(p.z, k + 2u), one(p.z, k + 3u)),
                 pack4(one(p.w, k), one(p.w, k + 1u), one(p.w, k + 2u), one(p.w, k + 3u)));
    }
    let tap = k / params.channels;
    let tap_y = tap / params.kernel_width;
    let tap_x = tap % params.kernel_width;
    let channel = k % params.channels;
    let column = pixel % params.out_width;
    let first = input_x(pixel, tap_x);
    let y = input_y(pixel, tap_y);
    // Four pixels beside each other in the output and in the input: four words, one per channel.
    if TRANSPOSED == 0u && params.stride_x == 1u && column + 3u < params.out_width && first < params.width
        && first + 3u < params.width && y < params.height {
        let plane = params.height * params.width;
        let at = pixel_offset(y, first) + channel * plane;
        return transposed(x_word(at), x_word(at + plane), x_word(at + 2u * plane), x_word(at + 3u * plane));
    }
    return Q(channels_of_pixel(p.x, tap_y, tap_x, channel), channels_of_pixel(p.y, tap_y, tap_x, channel),
             channels_of_pixel(p.z, tap_y, tap_x, channel), channels_of_pixel(p.w, tap_y, tap_x, channel));
}

// Weights of four output channels of the group.
fn slow_block(channel: u32, k: u32) -> Q {
    let first = batch % params.groups * params.slow;
    return weight_block(first + channel, first + params.slow - 1u, k);
}

fn channels_of(fast: u32, slow: u32) -> vec4<u32> {
    return vec4<u32>(batch % params.groups * params.slow + slow);
}
