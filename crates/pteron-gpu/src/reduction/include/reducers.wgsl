// Functions of the reducers that take more than an expression.

const SIGN: u32 = 0x80000000u;

// Maps the bits of a float to an integer key of the same order. NaN is above everything.
fn float_key(bits: u32) -> u32 {
    let key = bits ^ (bitcast<u32>(bitcast<i32>(bits) >> 31u) | SIGN);
    return select(key, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn float_of_key(key: u32) -> u32 {
    return key ^ select(0xffffffffu, SIGN, (key & SIGN) != 0u);
}

// The same with 0 and −0 equal, for comparisons that do not return the float.
fn comparison_key(bits: u32) -> u32 {
    return float_key(select(bits, 0u, bits == SIGN));
}

// Pairs of a key and an index: the highest key, and of equal keys the first index.
fn argmax_of_four(keys: vec4<u32>, k: u32) -> vec2<u32> {
    let high = max(max(keys.x, keys.y), max(keys.z, keys.w));
    let at = select(select(select(3u, 2u, keys.z == high), 1u, keys.y == high), 0u, keys.x == high);
    return vec2<u32>(high, 4u * k + at);
}

fn argmax_of_two(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, (b.x > a.x) | ((b.x == a.x) & (b.y < a.y)));
}

// Online softmax: the maximum of a row, never below the lowest finite float, and the sum of exp(v − maximum). A sum of 0 means that
// every element is −infinity, a negative sum that one is NaN or +infinity; the softmax is NaN in both cases. Infinities and NaN are
// tested by their bits and take no part in arithmetic.
const LOWEST: f32 = -3.4028234663852886e38;

fn softmax_stats_of_one(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    let special = (bits & 0x7fffffffu) >= 0x7f800000u;
    let counts = select(select(1.0, -1.0, special), 0.0, bits == 0xff800000u);
    return vec2<f32>(select(x, LOWEST, special), counts);
}

fn softmax_stats_of_four(x: vec4<f32>) -> vec2<f32> {
    let bits = bitcast<vec4<u32>>(x);
    let special = (bits & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u);
    let masked = bits == vec4<u32>(0xff800000u);
    let v = select(x, vec4<f32>(LOWEST), special);
    let high = max(max(v.x, v.y), max(v.z, v.w));
    let sum = dot(exp(v - high), select(vec4<f32>(1.0), vec4<f32>(0.0), masked));
    return vec2<f32>(high, select(sum, -1.0, any(special & !masked)));
}

fn combine_softmax_stats(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let high = max(a.x, b.x);
    let sum = a.y * exp(a.x - high) + b.y * exp(b.x - high);
    return vec2<f32>(high, select(sum, -1.0, min(a.y, b.y) < 0.0));
}

// Welford moments: the count, the mean, and the sum of squared deviations from it.
fn moments_of_four(x: vec4<f32>) -> vec3<f32> {
    let mean = ((x.x + x.y) + (x.z + x.w)) * 0.25;
    let deviation = x - mean;
    return vec3<f32>(4.0, mean, dot(deviation, deviation));
}

fn combine_moments(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    let count = a.x + b.x;
    let share = b.x / max(count, 1.0);
    let delta = b.y - a.y;
    return vec3<f32>(count, a.y + delta * share, a.z + b.z + (delta * share) * (delta * a.x));
}
