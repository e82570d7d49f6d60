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
