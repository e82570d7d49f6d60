// Scale and zero point that map each block of values onto a range of integers. Blocks are contiguous. A workgroup of 256
// threads computes four blocks, whose zero points share a word: all threads load from all four blocks, then a reduction in
// workgroup memory combines them.

//#include exact_division
//#include grid

struct Params {
    blocks: u32,
    length: u32,
    quant_min: i32,
    quant_max: i32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> scale: array<f32>;
@group(0) @binding(3) var<storage, read_write> zero_point: array<u32>;

// 1: zero points are bytes, four per word. 0: words.
override PACKED: u32 = 1u;
// 0: the zero point is rounded from the lower end of the range. 1: from the end that is represented with the smaller error. 2: the same,
// with a multiplier in place of the scale, which is 1 where the range is empty.
override RULE: u32 = 0u;

const THREADS: u32 = 256u;
var<workgroup> lows: array<vec4<f32>, THREADS>;
var<workgroup> highs: array<vec4<f32>, THREADS>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = group_index(group, groups) * 4u;
    if first < params.blocks {
        let last = params.blocks - 1u;
        let starts = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * params.length;
        // The range always contains 0.
        var low = vec4<f32>();
        var high = vec4<f32>();
        for (var i = thread; i < params.length; i += THREADS) {
            let values = vec4<f32>(x[starts.x + i], x[starts.y + i], x[starts.z + i], x[starts.w + i]);
            low = min(low, values);
            high = max(high, values);
        }
        lows[thread] = low;
        highs[thread] = high;
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                lows[thread] = min(lows[thread], lows[thread + half]);
                highs[thread] = max(highs[thread], highs[thread + half]);
            }
        }
        if thread == 0u {
            let quant_min = f32(params.quant_min);
            let quant_max = f32(params.quant_max);
            var scales = max(divided(highs[0] - lows[0], vec4<f32>(quant_max - quant_min)), vec4<f32>(params.eps));
            let least = vec4<f32>(quant_min);
            let most = vec4<f32>(quant_max);
            var low_steps = divided(lows[0], scales);
            var zeros = clamp(least - round(low_steps), least, most);
            if RULE != 0u {
                var high_steps = divided(highs[0], scales);
                if RULE == 2u {
                    let spread = highs[0] - lows[0];
                    scales = select(divided(vec4<f32>(255.0), spread), vec4<f32>(1.0), spread == vec4<f32>());
                    // At most 255 in magnitude. The bounds keep drivers from fusing the products with the sums below: they are rounded
                    // first, which decides ties of ranges that are symmetric.
                    low_steps = clamp(lows[0] * scales, vec4<f32>(-1024.0), vec4<f32>(1024.0));
                    high_steps = clamp(highs[0] * scales, vec4<f32>(-1024.0), vec4<f32>(1024.0));
                }
                let from_low = (least + low_steps) + (most + high_steps) > vec4<f32>();
                zeros = round(clamp(select(most - high_steps, least - low_steps, from_low), least, most));
            }
            let bits = bitcast<vec4<u32>>(vec4<i32>(zeros));
            for (var i = 0u; i < min(4u, params.blocks - first); i++) {
                scale[first + i] = scales[i];
                if PACKED == 0u {
                    zero_point[first + i] = bits[i];
                }
            }
            if PACKED == 1u {
                let bytes = bits & vec4<u32>(0xffu);
                zero_point[first / 4u] = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
            }
        }
    }
}
