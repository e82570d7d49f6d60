// Math functions for float expressions, with IEEE results for NaN, infinities and zeros. NaN is tested by its bits: shader compilers
// may assume that comparisons never see one.

fn is_nan(v: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}

fn is_finite(v: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
}

// `computed`, or NaN where v is NaN.
fn unless_nan(v: vec4<f32>, computed: vec4<f32>) -> vec4<f32> {
    return select(computed, v, is_nan(v));
}

// NaN and infinity, computed from v at run time: WGSL rejects them as constants.
fn nan_for(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) | vec4<u32>(0x7fc00000u));
}

fn infinity_for(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((bitcast<vec4<u32>>(v) & vec4<u32>(0u)) | vec4<u32>(0x7f800000u));
}

// Drivers may return anything at the ends of the built-ins' ranges: for zero, negative and infinite arguments, and on overflow.
fn exp2_ieee(v: vec4<f32>) -> vec4<f32> {
    let inside = exp2(clamp(v, vec4<f32>(-126.0), vec4<f32>(127.9999)));
    let low = select(inside, vec4<f32>(0.0), v < vec4<f32>(-126.0));
    return unless_nan(v, select(low, infinity_for(v), v >= vec4<f32>(128.0)));
}

fn log2_ieee(v: vec4<f32>) -> vec4<f32> {
    var result = select(log2(v), v, v == infinity_for(v));
    result = select(result, -infinity_for(v), v == vec4<f32>(0.0));
    result = select(result, nan_for(v), v < vec4<f32>(0.0));
    return unless_nan(v, result);
}

fn sqrt_ieee(v: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, select(sqrt(v), nan_for(v), v < vec4<f32>(0.0)));
}

fn clamp_ieee(v: vec4<f32>, low: f32, high: f32) -> vec4<f32> {
    return unless_nan(v, min(max(v, vec4<f32>(low)), vec4<f32>(high)));
}

fn min_ieee(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, unless_nan(w, min(v, w)));
}

fn max_ieee(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, unless_nan(w, max(v, w)));
}

// exp of a non-positive argument cannot overflow.
fn sigmoid(v: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(v));
    return unless_nan(v, select(e, vec4<f32>(1.0), v >= vec4<f32>(0.0)) / (1.0 + e));
}

// tanh is ±1 in 32 bits beyond ±15, where some drivers overflow.
fn tanh_ieee(v: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, tanh(clamp(v, vec4<f32>(-15.0), vec4<f32>(15.0))));
}

// The complementary error function for v ≥ 0: t · exp(P(t) − v²) with t = 1 / (1 + v / 2), P fitted to 5e-8.
fn erfc_nonnegative(v: vec4<f32>) -> vec4<f32> {
    let t = 1.0 / (1.0 + 0.5 * v);
    var p = 0.144930214 * t - 0.68082718;
    p = p * t + 1.15673376;
    p = p * t - 0.696251907;
    p = p * t - 0.0802804248;
    p = p * t + 0.00126758217;
    p = p * t + 0.0346028015;
    p = p * t + 0.386640412;
    p = p * t + 0.998632783;
    p = p * t - 1.265448;
    return t * exp(p - v * v);
}

fn gelu(v: vec4<f32>, tanh_approximation: bool) -> vec4<f32> {
    if tanh_approximation {
        return v * (0.5 + 0.5 * tanh_ieee(0.7978845608 * (v + 0.044715 * v * v * v)));
    }
    let tail = 0.5 * erfc_nonnegative(abs(v) * 0.7071067812);
    return v * select(tail, 1.0 - tail, v > vec4<f32>(0.0));
}

// sin(v + quarter_turns · π/2) by Cody-Waite range reduction: π/2 is split into three constants, the first two of which have so few
// bits that their products with k are exact. Taylor polynomials cover the remaining ±π/4.
fn sin_shifted(v: vec4<f32>, quarter_turns: i32) -> vec4<f32> {
    let k = round(v * 0.6366197724);
    let r = ((v - k * 1.5703125) - k * 0.00048351287841796875) - k * 3.1391647326e-7;
    let s = r * r;
    let odd = r + r * s * (-0.1666666667 + s * (0.0083333333 + s * (-1.984126984e-4 + s * 2.755731922e-6)));
    let even = 1.0 + s * (-0.5 + s * (0.0416666667 + s * (-1.388888889e-3 + s * 2.480158730e-5)));
    // An infinite or huge argument has no quadrant; its sine is NaN or noise.
    let quadrant = vec4<i32>(select(vec4<f32>(0.0), k, abs(k) < vec4<f32>(8388608.0))) + vec4<i32>(quarter_turns);
    let magnitude = select(odd, even, (quadrant & vec4<i32>(1)) == vec4<i32>(1));
    return select(magnitude, -magnitude, (quadrant & vec4<i32>(2)) == vec4<i32>(2));
}

fn sin_ieee(v: vec4<f32>) -> vec4<f32> {
    return sin_shifted(v, 0);
}

fn cos_ieee(v: vec4<f32>) -> vec4<f32> {
    return sin_shifted(v, 1);
}

// a − q · b, exactly: the product is computed from 12-bit halves, because not every driver has a fused multiply-add.
fn division_remainder(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let product = q * b;
    let qh = bitcast<vec4<f32>>(bitcast<vec4<u32>>(q) & vec4<u32>(0xfffff000u));
    let bh = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & vec4<u32>(0xfffff000u));
    let ql = q - qh;
    let bl = b - bh;
    let lost = ((qh * bh - product) + qh * bl + ql * bh) + ql * bl;
    return (a - product) - lost;
}

// a / b for every finite divisor. A GPU may multiply by the reciprocal, which is subnormal and flushed to zero for divisors beyond
// 2^126: both operands are scaled by a power of two there, which changes no quotient.
fn div_ieee(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let scale = select(vec4<f32>(1.0), vec4<f32>(0.25), abs(b) > vec4<f32>(8.507059e37));
    return (a * scale) / (b * scale);
}

// A quotient that is exact where it is an integer; the hardware's may be off by some last bits.
fn div_exact(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = div_ieee(a, b);
    let better = q + div_ieee(division_remainder(a, q, b), b);
    return select(q, better, is_finite(better));
}

// The exact quotient rounded down: the remainder's sign shows where the quotient was rounded up to an integer. An infinite dividend
// gives NaN, as in PyTorch.
fn floor_div(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = div_exact(a, b);
    let whole = floor(q);
    let left = division_remainder(a, whole, b);
    let apart = (a < vec4<f32>(0.0)) != (b < vec4<f32>(0.0));
    let over = (left != vec4<f32>(0.0)) & ((left < vec4<f32>(0.0)) != (b < vec4<f32>(0.0)));
    var result = select(whole, whole - 1.0, over & is_finite(left));
    result = select(result, q, !is_finite(q));
    result = select(result, vec4<f32>(-1.0), !is_finite(b) & apart & (a != vec4<f32>(0.0)));
    result = select(result, nan_for(a), !is_finite(a) & (b != vec4<f32>(0.0)));
    return unless_nan(a, unless_nan(b, result));
}

fn div_rounded(a: vec4<f32>, b: vec4<f32>, mode: i32) -> vec4<f32> {
    switch mode {
        case 1: { return floor_div(a, b); }
        case 2: { return trunc(div_exact(a, b)); }
        default: { return div_ieee(a, b); }
    }
}

// Integer exponents up to this are computed by repeated squaring.
const MAX_SQUARED_EXPONENT: f32 = 64.0;

fn pow_by_squaring(v: vec4<f32>, times: vec4<f32>) -> vec4<f32> {
    var left = vec4<u32>(min(abs(times), vec4<f32>(MAX_SQUARED_EXPONENT)));
    var power = v;
    var product = vec4<f32>(1.0);
    // At most as many iterations as the largest exponent has bits.
    while any(left != vec4<u32>()) {
        product *= select(vec4<f32>(1.0), power, (left & vec4<u32>(1u)) == vec4<u32>(1u));
        power *= power;
        left >>= vec4<u32>(1u);
    }
    return select(product, 1.0 / product, times < vec4<f32>(0.0));
}

// exp2(w · log2(v)), for exponents that squaring does not cover.
fn pow_exp2_log2(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    let one = vec4<f32>(1.0);
    let is_whole = floor(w) == w;
    let is_odd = is_whole & (floor(w * 0.5) * 2.0 != w);
    // A finite negative base has only integer powers; its logarithm is NaN.
    let magnitude = exp2_ieee(w * log2_ieee(select(v, abs(v), is_whole | !is_finite(v))));
    var result = select(magnitude, -magnitude, is_odd & (bitcast<vec4<i32>>(v) < vec4<i32>(0)));
    result = select(result, v + w, is_nan(v) | is_nan(w));
    // 1 to any power, and −1 to an infinite one.
    let infinite = !is_finite(w) & !is_nan(w);
    return select(result, one, (v == one) | ((v == -one) & infinite));
}

fn is_small_integer(w: vec4<f32>) -> vec4<bool> {
    return (floor(w) == w) & (abs(w) <= vec4<f32>(MAX_SQUARED_EXPONENT));
}

fn pow_ieee(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    // Most calls have exponents of one kind: compute both only where both occur.
    let small = is_small_integer(w);
    if all(small) {
        return pow_by_squaring(v, w);
    }
    let result = pow_exp2_log2(v, w);
    if !any(small) {
        return result;
    }
    return select(result, pow_by_squaring(v, w), small);
}

// One exponent for all elements. Exponents of ±0.5 use the square root, as in PyTorch, also for −infinity.
fn pow_scalar(v: vec4<f32>, exponent: f32) -> vec4<f32> {
    if exponent == 0.5 {
        return sqrt_ieee(v);
    }
    if exponent == -0.5 {
        return 1.0 / sqrt_ieee(v);
    }
    return pow_ieee(v, vec4<f32>(exponent));
}

// Quantises to signed bytes: a scale by its reciprocal, and ties to even.
fn requantised(v: vec4<f32>, inverse_scale: f32, zero_point: f32) -> vec4<f32> {
    return clamp(round(v * inverse_scale) + zero_point, vec4<f32>(-128.0), vec4<f32>(127.0));
}

// exp(v) - 1: a series near 0, where the difference would cancel.
fn expm1(v: vec4<f32>) -> vec4<f32> {
    let series = v + v * v * (0.5 + v * (0.1666666667 + v * (0.0416666667 + v * (8.333333333e-3 + v * (1.388888889e-3 + v * 1.984126984e-4)))));
    return unless_nan(v, select(exp2_ieee(v * 1.4426950409) - 1.0, series, abs(v) < vec4<f32>(0.5)));
}

fn elu(v: vec4<f32>, alpha: f32, scale: f32, input_scale: f32) -> vec4<f32> {
    return unless_nan(v, select(expm1(min(v, vec4<f32>()) * input_scale) * (alpha * scale), v * scale, v > vec4<f32>()));
}

// log(1 + v): twice the series of the inverse hyperbolic tangent near 0, where 1 + v would be rounded.
fn log1p_ieee(v: vec4<f32>) -> vec4<f32> {
    let s = v / (2.0 + v);
    let t = s * s;
    let series = 2.0 * s * (1.0 + t * (0.3333333333 + t * (0.2 + t * (0.1428571429 + t * (0.1111111111 + t * 0.0909090909)))));
    return unless_nan(v, select(log2_ieee(1.0 + v) * 0.6931471806, series, abs(v) < vec4<f32>(0.5)));
}

fn log_ieee(v: vec4<f32>) -> vec4<f32> {
    return log2_ieee(v) * 0.6931471806;
}

// The remainder of a / b with the sign of a. Quotients beyond 24 bits lose the last ones.
fn fmod(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let size = abs(b);
    var rest = division_remainder(abs(a), floor(div_exact(abs(a), size)), size);
    // The quotient may be off by one.
    rest = select(rest, rest + size, rest < vec4<f32>());
    rest = select(rest, rest - size, rest >= size);
    rest = select(rest, abs(a), abs(a) < size);
    rest = select(rest, nan_for(a), !is_finite(a) | (b == vec4<f32>()));
    return unless_nan(b, select(rest, -rest, a < vec4<f32>()));
}

// The remainder with the sign of b, as in Python.
fn remainder(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let rest = fmod(a, b);
    let apart = (rest != vec4<f32>()) & ((rest < vec4<f32>()) != (b < vec4<f32>()));
    return unless_nan(rest, select(rest, rest + b, apart));
}

fn sign_ieee(v: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, sign(v));
}

// The error function: a series near 0, where the difference from 1 would cancel.
fn erf(v: vec4<f32>) -> vec4<f32> {
    let s = v * v;
    let series = v * (1.1283791671 + s * (-0.3761263890 + s * (0.1128379167 + s * (-0.0268661706 + s * (5.2239776e-3 + s * (-8.5483270e-4 + s * 1.2055333e-4))))));
    let tail = 1.0 - erfc_nonnegative(min(abs(v), vec4<f32>(10.0)));
    return unless_nan(v, select(sign(v) * tail, series, abs(v) < vec4<f32>(0.7)));
}

// exp(|v|) / 2 without overflow of exp itself.
fn half_exp(v: vec4<f32>) -> vec4<f32> {
    return exp2_ieee(abs(v) * 1.4426950409 - 1.0);
}

fn sinh_ieee(v: vec4<f32>) -> vec4<f32> {
    let e = expm1(min(abs(v), vec4<f32>(20.0)));
    let size = select(half_exp(v), 0.5 * (e + e / (e + 1.0)), abs(v) < vec4<f32>(10.0));
    return unless_nan(v, select(size, -size, v < vec4<f32>()));
}

fn cosh_ieee(v: vec4<f32>) -> vec4<f32> {
    let half = half_exp(v);
    return unless_nan(v, select(half, half + 0.25 / half, abs(v) < vec4<f32>(10.0)));
}

// The angle of a ratio from 0 to 1: shifted by an eighth of a turn above tan(π/8), then an odd polynomial.
fn atan_of_ratio(ratio: vec4<f32>) -> vec4<f32> {
    let shifted = ratio > vec4<f32>(0.4142135624);
    let r = select(ratio, (ratio - 1.0) / (ratio + 1.0), shifted);
    let s = r * r;
    let angle = r + r * s * (-0.333329491539 + s * (0.199777106478 + s * (-0.138776856032 + s * 0.0805374449538)));
    return select(angle, angle + 0.7853981634, shifted);
}

fn atan2_ieee(y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    let high = max(abs(x), abs(y));
    let low = min(abs(x), abs(y));
    // Two zeros have the angle of the positive axis, two infinities that of a diagonal.
    let infinite = !is_finite(low) & !is_nan(low);
    let quotient = div_ieee(low, select(high, vec4<f32>(1.0), high == vec4<f32>()));
    let ratio = select(select(quotient, vec4<f32>(), !is_finite(high)), vec4<f32>(1.0), infinite);
    var angle = atan_of_ratio(min(ratio, vec4<f32>(1.0)));
    angle = select(angle, 1.5707963268 - angle, abs(y) > abs(x));
    // Signs are tested by their bits: −0 counts.
    angle = select(angle, 3.1415926536 - angle, bitcast<vec4<i32>>(x) < vec4<i32>());
    angle = select(angle, -angle, bitcast<vec4<i32>>(y) < vec4<i32>());
    return unless_nan(x, unless_nan(y, angle));
}

fn atan_ieee(v: vec4<f32>) -> vec4<f32> {
    return atan2_ieee(v, vec4<f32>(1.0));
}

// The other side of a right triangle with a hypotenuse of 1; NaN where v is longer.
fn other_side(v: vec4<f32>) -> vec4<f32> {
    return sqrt_ieee((1.0 - v) * (1.0 + v));
}

fn asin_ieee(v: vec4<f32>) -> vec4<f32> {
    return atan2_ieee(v, other_side(v));
}

fn acos_ieee(v: vec4<f32>) -> vec4<f32> {
    return atan2_ieee(other_side(v), v);
}

fn asinh_ieee(v: vec4<f32>) -> vec4<f32> {
    let size = abs(v);
    let near = min(size, vec4<f32>(1e4));
    let exact = log1p_ieee(near + near * near / (1.0 + sqrt(1.0 + near * near)));
    let result = select(log_ieee(size) + 0.6931471806, exact, size < vec4<f32>(1e4));
    return unless_nan(v, select(result, -result, v < vec4<f32>()));
}

fn acosh_ieee(v: vec4<f32>) -> vec4<f32> {
    let past = min(v, vec4<f32>(1e4)) - 1.0;
    let exact = log1p_ieee(past + sqrt_ieee(past * (past + 2.0)));
    let result = select(log_ieee(v) + 0.6931471806, exact, v < vec4<f32>(1e4));
    return unless_nan(v, select(result, nan_for(v), v < vec4<f32>(1.0)));
}

fn atanh_ieee(v: vec4<f32>) -> vec4<f32> {
    let size = abs(v);
    let result = 0.5 * log1p_ieee(2.0 * size / (1.0 - size));
    let ended = select(result, infinity_for(v), size == vec4<f32>(1.0));
    let inside = select(ended, nan_for(v), size > vec4<f32>(1.0));
    return unless_nan(v, select(inside, -inside, v < vec4<f32>()));
}

// log(v / (1 - v)), with v kept `eps` away from 0 and 1 unless `eps` is negative.
fn logit(v: vec4<f32>, eps: f32) -> vec4<f32> {
    var p = v;
    if eps >= 0.0 {
        p = clamp_ieee(v, eps, 1.0 - eps);
    }
    return unless_nan(v, log_ieee(div_ieee(p, 1.0 - p)));
}

// The nearest numbers with 8 bits; ties go to even ones.
fn as_brain_float(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let nearest = bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u));
    return unless_nan(v, bitcast<vec4<f32>>(nearest & vec4<u32>(0xffff0000u)));
}

// The nearest numbers that 16-bit floats hold: with 11 bits, below 2^-14 multiples of 2^-24, and infinite from the middle of 65504 and 65536.
fn as_half(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let nearest = bits + vec4<u32>(0xfffu) + ((bits >> vec4<u32>(13u)) & vec4<u32>(1u));
    let normal = bitcast<vec4<f32>>(nearest & vec4<u32>(0xffffe000u));
    let infinite = bitcast<vec4<f32>>((bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f800000u));
    let finite = select(normal, round(v * 16777216.0) / 16777216.0, abs(v) < vec4<f32>(0.00006103515625));
    return unless_nan(v, select(finite, infinite, abs(finite) > vec4<f32>(65504.0)));
}
