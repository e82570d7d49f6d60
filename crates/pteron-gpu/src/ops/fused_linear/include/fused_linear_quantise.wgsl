// Rows of activations quantised to 8 bits by the rule of exported programs: the scale and the zero point of a row follow from its
// smallest and its largest value. Both are found as bits, which compare as integers: NaN is above every number, and the
// smallest value is the largest negated one.

//#include exact_division

struct Quantisation {
    scale: f32,
    // What a value is multiplied by before it is rounded.
    inverse: f32,
    zero: f32,
}

// Bits of the largest of four values, and of the largest negated one; numbers below 0 have negative bits.
fn bounds_of(v: vec4<f32>) -> vec2<i32> {
    let high = bitcast<vec4<i32>>(v);
    // The sign bit is flipped as such: a driver may negate by subtracting, which leaves the sign of NaN as it is.
    let low = bitcast<vec4<i32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(0x80000000u));
    return vec2<i32>(max(max(high.x, high.y), max(high.z, high.w)), max(max(low.x, low.y), max(low.z, low.w)));
}

// The quantisation of a row, given its bounds, which are at least 0, and the factor that its values are still to be multiplied by. If
// one of them is not finite, neither is the scale, nor what is multiplied by it. An `eps` of 0 stands for XNNPACK's rule.
fn quantisation(bounds: vec2<i32>, factor: f32, eps: f32) -> Quantisation {
    let high = bitcast<f32>(bounds.x) * factor;
    let low = -bitcast<f32>(bounds.y) * factor;
    var scale = max(divided(vec4<f32>(high - low), vec4<f32>(255.0)).x, eps);
    var zero = clamp(-128.0 - round(divided(vec4<f32>(low), vec4<f32>(scale)).x), -128.0, 127.0);
    var multiplier = reciprocal(scale);
    if eps == 0.0 {
        // The multiplier is rounded, not the scale, and the zero point from the end with the smaller error.
        multiplier = select(divided(vec4<f32>(255.0), vec4<f32>(high - low)).x, 1.0, high == low);
        scale = reciprocal(multiplier);
        // At most 255 in magnitude. The bounds keep drivers from fusing the products with the sums below.
        let steps = clamp(vec2<f32>(low, high) * multiplier, vec2<f32>(-1024.0), vec2<f32>(1024.0));
        let from_low = (-128.0 + steps.x) + (127.0 + steps.y) > 0.0;
        zero = round(clamp(select(127.0 - steps.y, -128.0 - steps.x, from_low), -128.0, 127.0));
    }
    // A selection costs less than a branch.
    let largest = max(bounds.x, bounds.y);
    let finite = largest < 0x7f800000;
    return Quantisation(select(bitcast<f32>(largest), scale, finite), select(0.0, multiplier * factor, finite),
                        select(0.0, zero, finite));
}

// Quantised values: whole, from −128 to 127.
fn quantised(v: vec4<f32>, by: Quantisation) -> vec4<f32> {
    return clamp(round(v * by.inverse) + by.zero, vec4<f32>(-128.0), vec4<f32>(127.0));
}
