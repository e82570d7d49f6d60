// Convolution, channels first, with the weight as it is in the file. A thread computes one pixel of four output channels of a group:
// neighbouring threads have neighbouring pixels, so that loads of the input are coalesced and those of the weight broadcast. Also
// transposed convolutions: each output pixel gathers the input pixels whose windows cover it.

//#include grid
//#include convolution_clamp

struct Params {
    batch: u32,
    groups: u32,
    // Channels of a group.
    channels_in: u32,
    channels_out: u32,
    input_h: u32,
    input_w: u32,
    output_h: u32,
    output_w: u32,
    kernel_h: u32,
    kernel_w: u32,
    stride_h: u32,
    stride_w: u32,
    before_h: u32,
    before_w: u32,
    dilation_h: u32,
    dilation_w: u32,
    // The weight's strides from one group, output channel, input channel and tap to the next.
    weight_group: u32,
    weight_out: u32,
    weight_in: u32,
    weight_tap: u32,
    has_bias: u32,
    // Four output channels each, in all groups.
    blocks: u32,
    low: f32,
    high: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

override TRANSPOSED: u32 = 0u;

// The input position of a tap along an axis; none is a position past the end.
fn place(output: u32, tap: u32, stride: u32, padding: u32, dilation: u32) -> u32 {
    if TRANSPOSED == 1u {
        let steps = i32(output + padding) - i32(tap * dilation);
        if steps < 0 || u32(steps) % stride != 0u {
            return 0xffffffffu;
        }
        return u32(steps) / stride;
    }
    // Below zero it is a huge number, and outside as well.
    return output * stride + tap * dilation - padding;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let pixels = params.batch * params.output_h * params.output_w;
    let groups_across = (pixels + 127u) / 128u;
    let index = group_index(group, groups);
    let block = index / groups_across;
    let pixel = index % groups_across * 128u + thread;
    if pixel >= pixels || block >= params.blocks {
        return;
    }
    let column = pixel % params.output_w;
    let row = pixel / params.output_w % params.output_h;
    let image = pixel / params.output_w / params.output_h;
    let blocks = params.blocks / params.groups;
    let own_group = block / blocks;
    let first = block % blocks * 4u;
    // Channels past the last of the group repeat it.
    let channels = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.channels_out - 1u));
    let weights = own_group * params.weight_group + channels * params.weight_out;
    let plane = params.input_h * params.input_w;
    let inputs = (image * params.groups + own_group) * params.channels_in * plane;
    var sum = vec4<f32>();
    for (var tap_h = 0u; tap_h < params.kernel_h; tap_h++) {
        let y = place(row, tap_h, params.stride_h, params.before_h, params.dilation_h);
        if y >= params.input_h {
            continue;
        }
        for (var tap_w = 0u; tap_w < params.kernel_w; tap_w++) {
            let z = place(column, tap_w, params.stride_w, params.before_w, params.dilation_w);
            if z >= params.input_w {
                continue;
            }
            var at = inputs + y * params.input_w + z;
            var tap = weights + (tap_h * params.kernel_w + tap_w) * params.weight_tap;
            for (var channel = 0u; channel < params.channels_in; channel++) {
                sum += x[at] * vec4<f32>(weight[tap.x], weight[tap.y], weight[tap.z], weight[tap.w]);
                at += plane;
                tap += params.weight_in;
            }
        }
    }
    let out_plane = params.output_h * params.output_w;
    let first_channel = own_group * params.channels_out + first;
    let outputs = (image * params.groups * params.channels_out + first_channel) * out_plane + row * params.output_w + column;
    for (var i = 0u; i < 4u; i++) {
        if first + i < params.channels_out {
            var value = sum[i];
            if params.has_bias == 1u {
                value += bias[first_channel + i];
            }
            out[outputs + i * out_plane] = clamped(value, params.low, params.high);
        }
    }
}
