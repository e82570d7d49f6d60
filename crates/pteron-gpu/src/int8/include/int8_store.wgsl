// The end of a product with int8 weights: sums become real numbers, and those the output's bytes or floats. Bytes of a word may belong
// to several threads, where rows are no whole words; each changes its own bytes.

// 1: the output is floats. 0: signed bytes.
override FLOAT_OUT: u32 = 0u;
// 1: sums become the output's bytes by one factor per channel, which a single rounding follows.
override REQUANTISE: u32 = 0u;

fn store_bytes(at: u32, count: u32, bytes: u32) {
    let shift = at % 4u * 8u;
    if count == 4u && shift == 0u {
        atomicStore(&out[at / 4u], bytes);
        return;
    }
    let mask = 0xffffffffu >> (32u - 8u * count);
    atomicAnd(&out[at / 4u], ~(mask << shift));
    atomicOr(&out[at / 4u], (bytes & mask) << shift);
    if at % 4u + count > 4u {
        atomicAnd(&out[at / 4u + 1u], ~(mask >> (32u - shift)));
        atomicOr(&out[at / 4u + 1u], (bytes & mask) >> (32u - shift));
    }
}

// Stores `count` of four consecutive results: real numbers, or where sums are requantised, integers less the zero point that are not
// rounded yet.
fn store(at: u32, count: u32, results: vec4<f32>) {
    var values = results;
    if REQUANTISE == 1u {
        let steps = round(clamp(values, vec4<f32>(params.low), vec4<f32>(params.high))) + params.out_zero;
        store_bytes(at, count, packed(bitcast<vec4<u32>>(vec4<i32>(steps))));
        return;
    }
    if (params.flags & 2u) != 0u {
        values = max(values, vec4<f32>());
    }
    if FLOAT_OUT == 1u {
        for (var i = 0u; i < count; i++) {
            atomicStore(&out[at + i], bitcast<u32>(values[i]));
        }
    } else {
        let steps = clamp(round(values * params.out_inverse) + params.out_zero, vec4<f32>(-128.0), vec4<f32>(127.0));
        store_bytes(at, count, packed(bitcast<vec4<u32>>(vec4<i32>(steps))));
    }
}

// The low bytes of four words in one.
fn packed(words: vec4<u32>) -> u32 {
    return dot((words & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u), vec4<u32>(1u));
}

// The scales of four output channels, or the factors that requantise their sums.
fn factors_of(c: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(scales[c.x], scales[c.y], scales[c.z], scales[c.w]);
}

fn with_bias(c: vec4<u32>, values: vec4<f32>) -> vec4<f32> {
    if (params.flags & 1u) == 0u {
        return values;
    }
    return values + vec4<f32>(f32(bias[c.x]), f32(bias[c.y]), f32(bias[c.z]), f32(bias[c.w]));
}

// The real numbers of four sums, which belong to these output channels.
fn real(channels: vec4<u32>, sums: vec4<f32>) -> vec4<f32> {
    return with_bias(channels, sums * (params.x_scale * factors_of(channels)));
}

// The output's integers, less the zero point, of four sums with an integer bias; not rounded yet.
fn requantised(c: vec4<u32>, sums: vec4<i32>) -> vec4<f32> {
    var biased = sums;
    if (params.flags & 1u) != 0u {
        biased += vec4<i32>(i32(bias[c.x]), i32(bias[c.y]), i32(bias[c.z]), i32(bias[c.w]));
    }
    return vec4<f32>(biased) * factors_of(c);
}
