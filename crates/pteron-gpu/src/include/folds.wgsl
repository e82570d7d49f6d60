// What lines of numbers are folded with, where it takes more than an expression.

const SIGN: u32 = 0x80000000u;

// The bits of a float as a whole number of the same order. NaN is above everything.
fn ordered(bits: u32) -> u32 {
    let key = bits ^ (bitcast<u32>(bitcast<i32>(bits) >> 31u) | SIGN);
    return select(key, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn unordered(key: u32) -> u32 {
    return key ^ select(0xffffffffu, SIGN, (key & SIGN) != 0u);
}

// The same for floats of which only the order matters: 0 and −0 are the same number.
fn place(bits: u32) -> u32 {
    return ordered(select(bits, 0u, bits == SIGN));
}

// Keys with indices: the highest key, and of equal ones the first.
fn first_of_four(keys: vec4<u32>, k: u32) -> vec2<u32> {
    let high = max(max(keys.x, keys.y), max(keys.z, keys.w));
    let at = select(select(select(3u, 2u, keys.z == high), 1u, keys.y == high), 0u, keys.x == high);
    return vec2<u32>(high, 4u * k + at);
}

fn first_highest(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, (b.x > a.x) | ((b.x == a.x) & (b.y < a.y)));
}

// The highest number of a line, never below the lowest finite one, and the sum of the exponentials of what the others are
// below it. A sum of 0: there is nothing above −infinity. One below 0: there is a NaN or +infinity. In both cases softmax
// has no number to give. Infinities and NaN are told by their bits and never computed with.
const LOWEST: f32 = -3.4028234663852886e38;

fn exponential(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    let odd = (bits & 0x7fffffffu) >= 0x7f800000u;
    let counts = select(select(1.0, -1.0, odd), 0.0, bits == 0xff800000u);
    return vec2<f32>(select(x, LOWEST, odd), counts);
}

fn four_exponentials(x: vec4<f32>) -> vec2<f32> {
    let bits = bitcast<vec4<u32>>(x);
    let odd = (bits & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u);
    let nothing = bits == vec4<u32>(0xff800000u);
    let v = select(x, vec4<f32>(LOWEST), odd);
    let high = max(max(v.x, v.y), max(v.z, v.w));
    let sum = dot(exp(v - high), select(vec4<f32>(1.0), vec4<f32>(0.0), nothing));
    return vec2<f32>(high, select(sum, -1.0, any(odd & !nothing)));
}

fn joined_exponentials(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let high = max(a.x, b.x);
    let sum = a.y * exp(a.x - high) + b.y * exp(b.x - high);
    return vec2<f32>(high, select(sum, -1.0, min(a.y, b.y) < 0.0));
}

// How many numbers, their mean, and the sum of the squares of what they are off it.
fn four_moments(x: vec4<f32>) -> vec3<f32> {
    let mean = ((x.x + x.y) + (x.z + x.w)) * 0.25;
    let off = x - mean;
    return vec3<f32>(4.0, mean, dot(off, off));
}

fn joined_moments(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    let count = a.x + b.x;
    let share = b.x / max(count, 1.0);
    let apart = b.y - a.y;
    return vec3<f32>(count, a.y + apart * share, a.z + b.z + (apart * share) * (apart * a.x));
}
