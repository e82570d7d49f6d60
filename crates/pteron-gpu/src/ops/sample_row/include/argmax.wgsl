// Argmax over pairs of (key, index): the largest key, and the first index of equal keys. Keys order floats as integers do, so
// that the result does not depend on a driver's comparisons; NaN is above everything.
const NAN_KEY: u32 = 0xffffffffu;

var<workgroup> candidates: array<vec2<u32>, 256>;

fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

fn key_of(v: f32) -> u32 {
    if is_nan(v) {
        return NAN_KEY;
    }
    // Both zeros are equal.
    let bits = select(bitcast<u32>(v), 0u, v == 0.0);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn argmax_of(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let second = b.x > a.x || (b.x == a.x && b.y < a.y);
    return select(a, b, second);
}

fn workgroup_argmax(own: vec2<u32>, thread: u32) -> vec2<u32> {
    candidates[thread] = own;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            candidates[thread] = argmax_of(candidates[thread], candidates[thread + half]);
        }
    }
    workgroupBarrier();
    return candidates[0];
}
