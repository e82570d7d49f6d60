// The end of a convolution: bias, bounds, activation and addend, on four output channels of a pixel. `apply` is the activation.

//#include float_math

alias X = vec4<f32>;

override HAS_ADDEND: u32 = 0u;
// The activation comes before the addend (1), after it (2), or not at all (0).
override ACTIVATION: u32 = 0u;

// `at` is the index of the output vector, `channel` that of its first channel among all.
fn finished(sum: vec4<f32>, at: u32, channel: u32) -> vec4<f32> {
    var value = sum;
    if params.has_bias == 1u {
        value += bias[channel / 4u];
    }
    value = clamp_ieee(value, params.low, params.high);
    if ACTIVATION == 1u {
        value = apply(value);
    }
    if HAS_ADDEND == 1u {
        value += addend[at];
    }
    if ACTIVATION == 2u {
        value = apply(value);
    }
    return value;
}
