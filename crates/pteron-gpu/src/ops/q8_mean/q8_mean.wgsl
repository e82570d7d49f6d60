// Means over the pixels of int8 images with channels last, as integers of another scale. A workgroup of 64 threads computes four consecutive
// elements of the output, a word: threads share the pixels, then a tree reduction in workgroup memory adds their sums, which are exact.

//#include grid

struct Params {
    // Elements of the output, channels, and pixels of an image.
    count: u32,
    channels: u32,
    pixels: u32,
    zero: i32,
    factor: f32,
    out_zero: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

const THREADS: u32 = 64u;
var<workgroup> partials: array<vec4<i32>, THREADS>;

fn byte_at(at: u32) -> i32 {
    return bitcast<i32>(x[at / 4u] << (24u - 8u * (at % 4u))) >> 24u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups);
    if word <= (params.count - 1u) / 4u {
        let elements = min(vec4<u32>(word * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.count - 1u));
        let starts = elements / params.channels * (params.pixels * params.channels) + elements % params.channels;
        var sums = vec4<i32>();
        for (var pixel = thread; pixel < params.pixels; pixel += THREADS) {
            let at = starts + pixel * params.channels;
            if params.channels % 4u == 0u {
                sums += unpack4xI8(x[at.x / 4u]);
            } else {
                sums += vec4<i32>(byte_at(at.x), byte_at(at.y), byte_at(at.z), byte_at(at.w));
            }
        }
        partials[thread] = sums;
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                partials[thread] += partials[thread + half];
            }
        }
        if thread == 0u {
            let product = vec4<f32>(partials[0] - i32(params.pixels) * params.zero) * params.factor;
            // The bounds change nothing but that the product is rounded before the sum: a driver would fuse both.
            let real = clamp(product, vec4<f32>(-65536.0), vec4<f32>(65536.0));
            let steps = clamp(round(real + params.out_zero), vec4<f32>(-128.0), vec4<f32>(127.0));
            let bytes = bitcast<vec4<u32>>(vec4<i32>(steps)) & vec4<u32>(255u);
            out[word] = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
        }
    }
}
