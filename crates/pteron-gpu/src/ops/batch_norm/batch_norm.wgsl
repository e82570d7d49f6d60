// Batch normalisation with given statistics: (x − mean) / sqrt(variance + eps) · weight + bias of each channel. A workgroup of 256
// threads computes 1,024 elements, a thread one vector of four. Parameters of channels are loaded one by one, from the cache.

//#include grid

struct Params {
    count: u32,
    channels: u32,
    // Elements of a channel that lie together.
    inner: u32,
    has_weight: u32,
    has_bias: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> mean: array<f32>;
@group(0) @binding(5) var<storage, read> variance: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

fn normalised(value: f32, channel: u32) -> f32 {
    var result = (value - mean[channel]) * inverseSqrt(variance[channel] + params.eps);
    if params.has_weight == 1u {
        result *= weight[channel];
    }
    if params.has_bias == 1u {
        result += bias[channel];
    }
    return result;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    let v = x[i];
    let channels = (vec4<u32>(i * 4u) + vec4<u32>(0u, 1u, 2u, 3u)) / params.inner % params.channels;
    out[i] = vec4<f32>(normalised(v.x, channels.x), normalised(v.y, channels.y), normalised(v.z, channels.z),
        normalised(v.w, channels.w));
}
