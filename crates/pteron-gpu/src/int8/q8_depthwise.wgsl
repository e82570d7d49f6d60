// Depthwise convolution of bytes: a thread computes four consecutive elements of the output, a word; its workgroup of 256 computes 1024.
// Weights are [kernel height, kernel width, output channels].

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

// The sum of one output element; `plane` is its image and channel.
fn sum_of(plane: u32, y: u32, column: u32) -> i32 {
    let channel = plane % params.slow;
    // Output channels per input channel.
    let multiplier = params.slow / params.groups;
    let start = (plane / params.slow * params.groups + channel / multiplier) * params.height;
    var sum = 0;
    for (var tap_y = 0u; tap_y < params.kernel_height; tap_y++) {
        let input_y = y * params.stride_y + tap_y * params.dilation_y - params.margin_y;
        if input_y < params.height {
            let row = (start + input_y) * params.width;
            for (var tap_x = 0u; tap_x < params.kernel_width; tap_x++) {
                let input_x = column * params.stride_x + tap_x * params.dilation_x - params.margin_x;
                if input_x < params.width {
                    let place = row + input_x;
                    let at = (tap_y * params.kernel_width + tap_x) * params.slow + channel;
                    sum += (signed_byte(x[place / 4u], place) - params.x_zero) * signed_byte(weight[at / 4u], at);
                }
            }
        }
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    let count = params.batches * params.slow * params.fast;
    if word > (count - 1u) / 4u {
        return;
    }
    var sums = vec4<i32>();
    var channels = vec4<u32>();
    for (var lane = 0u; lane < 4u; lane++) {
        let i = min(word * 4u + lane, count - 1u);
        let pixel = i % params.fast;
        let plane = i / params.fast;
        channels[lane] = plane % params.slow;
        sums[lane] = sum_of(plane, pixel / params.out_width, pixel % params.out_width);
    }
    store(word * 4u, min(4u, count - word * 4u), real(channels, vec4<f32>(sums)));
}
