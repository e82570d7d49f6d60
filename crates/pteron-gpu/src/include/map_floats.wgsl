// What expressions on floats share. NaN is told by its bits: a compiler may take comparisons to know that there is none.

fn is_nan(v: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}

fn is_finite(v: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
}

// What was computed from v, or NaN where v is.
fn unless_nan(v: vec4<f32>, computed: vec4<f32>) -> vec4<f32> {
    return select(computed, v, is_nan(v));
}

// NaN and infinity, made from bits that only the running shader knows: as constants they would be errors.
fn nan_for(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) | vec4<u32>(0x7fc00000u));
}

fn infinity_for(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((bitcast<vec4<u32>>(v) & vec4<u32>(0u)) | vec4<u32>(0x7f800000u));
}

// Drivers are free at the ends of these: of zero, of what is below, of the infinite.
fn exponential_of_2(v: vec4<f32>) -> vec4<f32> {
    let inside = exp2(clamp(v, vec4<f32>(-126.0), vec4<f32>(127.9999)));
    let low = select(inside, vec4<f32>(0.0), v < vec4<f32>(-126.0));
    return unless_nan(v, select(low, infinity_for(v), v >= vec4<f32>(128.0)));
}

fn logarithm_to_2(v: vec4<f32>) -> vec4<f32> {
    var result = select(log2(v), v, v == infinity_for(v));
    result = select(result, -infinity_for(v), v == vec4<f32>(0.0));
    result = select(result, nan_for(v), v < vec4<f32>(0.0));
    return unless_nan(v, result);
}

fn root(v: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, select(sqrt(v), nan_for(v), v < vec4<f32>(0.0)));
}

fn within(v: vec4<f32>, low: f32, high: f32) -> vec4<f32> {
    return unless_nan(v, min(max(v, vec4<f32>(low)), vec4<f32>(high)));
}

fn least(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, unless_nan(w, min(v, w)));
}

// The exponential of a number that is never positive cannot overflow.
fn sigmoid(v: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(v));
    return unless_nan(v, select(e, vec4<f32>(1.0), v >= vec4<f32>(0.0)) / (1.0 + e));
}

// Past ±15 nothing changes but that some drivers overflow.
fn tangent(v: vec4<f32>) -> vec4<f32> {
    return unless_nan(v, tanh(clamp(v, vec4<f32>(-15.0), vec4<f32>(15.0))));
}

// The complementary error function of what is not negative: t · exp(P(t) − v²) with t = 1 / (1 + v / 2), P fitted to 5e-8.
fn erfc_of(v: vec4<f32>) -> vec4<f32> {
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

fn gelu(v: vec4<f32>, by_tanh: bool) -> vec4<f32> {
    if by_tanh {
        return v * (0.5 + 0.5 * tangent(0.7978845608 * (v + 0.044715 * v * v * v)));
    }
    let tail = 0.5 * erfc_of(abs(v) * 0.7071067812);
    return v * select(tail, 1.0 - tail, v > vec4<f32>(0.0));
}

// Sine of v + turns · π/2. The nearest multiple of π/2 is taken off in three parts, the first two of which have so few bits
// that their products are exact; what is left is small enough for a short series.
fn sine(v: vec4<f32>, turns: i32) -> vec4<f32> {
    let k = round(v * 0.6366197724);
    let r = ((v - k * 1.5703125) - k * 0.00048351287841796875) - k * 3.1391647326e-7;
    let s = r * r;
    let odd = r + r * s * (-0.1666666667 + s * (0.0083333333 + s * (-1.984126984e-4 + s * 2.755731922e-6)));
    let even = 1.0 + s * (-0.5 + s * (0.0416666667 + s * (-1.388888889e-3 + s * 2.480158730e-5)));
    // Of an infinite or huge number there is no quarter; its sine is NaN or noise.
    let quarter = vec4<i32>(select(vec4<f32>(0.0), k, abs(k) < vec4<f32>(8388608.0))) + vec4<i32>(turns);
    let size = select(odd, even, (quarter & vec4<i32>(1)) == vec4<i32>(1));
    return select(size, -size, (quarter & vec4<i32>(2)) == vec4<i32>(2));
}

// What q · b leaves of a, exactly: the product in halves of twelve bits, since not every driver fuses a multiplication and an
// addition.
fn left_over(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let product = q * b;
    let qh = bitcast<vec4<f32>>(bitcast<vec4<u32>>(q) & vec4<u32>(0xfffff000u));
    let bh = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & vec4<u32>(0xfffff000u));
    let ql = q - qh;
    let bl = b - bh;
    let lost = ((qh * bh - product) + qh * bl + ql * bh) + ql * bl;
    return (a - product) - lost;
}

// A quotient that is exact where it is a whole number, which the hardware's need not be.
fn quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = a / b;
    let better = q + left_over(a, q, b) / b;
    return select(q, better, is_finite(better));
}

// Rounded down as if it had been exact: what is left over tells a quotient that was rounded up to a whole number. Of an infinite
// number nothing can be left over, which makes NaN of it.
fn divided_down(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let q = quotient(a, b);
    let whole = floor(q);
    let left = left_over(a, whole, b);
    let apart = (a < vec4<f32>(0.0)) != (b < vec4<f32>(0.0));
    let over = (left != vec4<f32>(0.0)) & ((left < vec4<f32>(0.0)) != (b < vec4<f32>(0.0)));
    var result = select(whole, whole - 1.0, over & is_finite(left));
    result = select(result, q, !is_finite(q));
    result = select(result, vec4<f32>(-1.0), !is_finite(b) & apart & (a != vec4<f32>(0.0)));
    result = select(result, nan_for(a), !is_finite(a) & (b != vec4<f32>(0.0)));
    return unless_nan(a, unless_nan(b, result));
}

fn divided_to_whole(a: vec4<f32>, b: vec4<f32>, mode: i32) -> vec4<f32> {
    switch mode {
        case 1: { return divided_down(a, b); }
        case 2: { return trunc(quotient(a, b)); }
        default: { return a / b; }
    }
}

// Whole exponents up to this are done by multiplying.
const FEW: f32 = 64.0;

fn multiplied(v: vec4<f32>, times: vec4<f32>) -> vec4<f32> {
    var left = vec4<u32>(min(abs(times), vec4<f32>(FEW)));
    var power = v;
    var product = vec4<f32>(1.0);
    // No more rounds than the largest exponent has bits.
    while any(left != vec4<u32>()) {
        product *= select(vec4<f32>(1.0), power, (left & vec4<u32>(1u)) == vec4<u32>(1u));
        power *= power;
        left >>= vec4<u32>(1u);
    }
    return select(product, 1.0 / product, times < vec4<f32>(0.0));
}

// Any power but of what multiplication is better at.
fn power_by_logarithm(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    let one = vec4<f32>(1.0);
    let is_whole = floor(w) == w;
    let is_odd = is_whole & (floor(w * 0.5) * 2.0 != w);
    // Of a finite negative number there are only whole powers; its logarithm is NaN.
    let size = exponential_of_2(w * logarithm_to_2(select(v, abs(v), is_whole | !is_finite(v))));
    var result = select(size, -size, is_odd & (bitcast<vec4<i32>>(v) < vec4<i32>(0)));
    result = select(result, v + w, is_nan(v) | is_nan(w));
    // 1 to any power, and −1 to an infinite one.
    let infinite = !is_finite(w) & !is_nan(w);
    return select(result, one, (v == one) | ((v == -one) & infinite));
}

fn is_few(w: vec4<f32>) -> vec4<bool> {
    return (floor(w) == w) & (abs(w) <= vec4<f32>(FEW));
}

fn power(v: vec4<f32>, w: vec4<f32>) -> vec4<f32> {
    // Both ways only where both are needed.
    let few = is_few(w);
    if all(few) {
        return multiplied(v, w);
    }
    let result = power_by_logarithm(v, w);
    if !any(few) {
        return result;
    }
    return select(result, multiplied(v, w), few);
}

// The same with one exponent for all. Square roots are square roots here, of negative infinity as well.
fn power_of(v: vec4<f32>, exponent: f32) -> vec4<f32> {
    if exponent == 0.5 {
        return root(v);
    }
    if exponent == -0.5 {
        return 1.0 / root(v);
    }
    return power(v, vec4<f32>(exponent));
}
