// Depthwise convolution of bytes with channels last: a thread computes four consecutive elements of the output, a word; its workgroup of 256
// computes 1024. Weights are [kernel height, kernel width, output channels].

//#include int8_window
// 1: an output channel per input channel, and whole words of them: a thread has four channels of one pixel.
override WHOLE_CHANNELS: u32 = 0u;

//#include grid
//#include int8_params
//#include int8_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<Y>;
@group(0) @binding(5) var<storage, read_write> out: array<atomic<u32>>;

fn signed_byte(word: u32, at: u32) -> i32 {
    return bitcast<i32>(word << (24u - 8u * (at % 4u))) >> 24u;
}

// The input pixel at a place of the kernel.
fn input_pixel(pixel: u32, tap_y: u32, tap_x: u32) -> u32 {
    let y = input_y(pixel % params.image_pixels, tap_y);
    let column = input_x(pixel % params.image_pixels, tap_x);
    if y >= params.height || column >= params.width {
        return OUTSIDE;
    }
    return (pixel / params.image_pixels * params.height + y) * params.width + column;
}

// The sums of four channels of a pixel.
fn sums_of(pixel: u32, channel: u32) -> vec4<i32> {
    var sums = vec4<i32>();
    for (var tap_y = 0u; tap_y < params.kernel_height; tap_y++) {
        for (var tap_x = 0u; tap_x < params.kernel_width; tap_x++) {
            let at = input_pixel(pixel, tap_y, tap_x);
            if at != OUTSIDE {
                let values = unpack4xI8(x[(at * params.groups + channel) / 4u]) - params.x_zero;
                sums += values * unpack4xI8(weight[((tap_y * params.kernel_width + tap_x) * params.fast + channel) / 4u]);
            }
        }
    }
    return sums;
}

// The sum of one channel of a pixel.
fn sum_of(pixel: u32, channel: u32) -> i32 {
    let input = channel / (params.fast / params.groups);
    var sum = 0;
    for (var tap_y = 0u; tap_y < params.kernel_height; tap_y++) {
        for (var tap_x = 0u; tap_x < params.kernel_width; tap_x++) {
            let at = input_pixel(pixel, tap_y, tap_x);
            if at != OUTSIDE {
                let place = at * params.groups + input;
                let tap = (tap_y * params.kernel_width + tap_x) * params.fast + channel;
                sum += (signed_byte(x[place / 4u], place) - params.x_zero) * signed_byte(weight[tap / 4u], tap);
            }
        }
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    let count = params.slow * params.fast;
    if word > (count - 1u) / 4u {
        return;
    }
    let elements = min(vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
    let channels = elements % vec4<u32>(params.fast);
    var sums = vec4<i32>();
    if WHOLE_CHANNELS == 1u {
        sums = sums_of(elements.x / params.fast, channels.x);
    } else {
        for (var lane = 0u; lane < 4u; lane++) {
            sums[lane] = sum_of(elements[lane] / params.fast, channels[lane]);
        }
    }
    store(word * 4u, min(4u, count - word * 4u), requantised(channels, sums));
}
