// Depthwise convolution: a thread computes one pixel of four output channels. Neighbouring threads have neighbouring channels, so that
// loads and stores are coalesced; windows that overlap are loaded from the cache. Channels of the input are repeated where groups have
// several output channels.

//#include grid
//#include fused_convolution_params
//#include fused_convolution_finish

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<L>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

// Whether each group has one output channel.
override WIDE: u32 = 1u;

fn channels_of(pixel: u32, channel: u32) -> vec4<f32> {
    let at = pixel * params.all_in;
    if WIDE == 1u {
        return vec4<f32>(x[(at + channel) / 4u]);
    }
    let repeated = (vec4<u32>(channel) + vec4<u32>(0u, 1u, 2u, 3u)) / params.channels_out;
    return vec4<f32>(vec4<f32>(x[at + repeated.x]).x, vec4<f32>(x[at + repeated.y]).x, vec4<f32>(x[at + repeated.z]).x,
        vec4<f32>(x[at + repeated.w]).x);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let at = group_index(group, groups) * 128u + thread;
    let vectors = params.all_out / 4u;
    if at >= params.pixels * vectors {
        return;
    }
    let channel = at % vectors * 4u;
    let window = window_of(at / vectors);
    var sum = vec4<f32>();
    var weight_at = channel / 4u;
    for (var tap_h = 0u; tap_h < params.kernel_h; tap_h++) {
        for (var tap_w = 0u; tap_w < params.kernel_w; tap_w++) {
            let pixel = input_pixel(window, tap_h, tap_w);
            if pixel != 0xffffffffu {
                sum += channels_of(pixel, channel) * weight[weight_at];
            }
            weight_at += vectors;
        }
    }
    out[at] = finished(sum, at, channel);
}
