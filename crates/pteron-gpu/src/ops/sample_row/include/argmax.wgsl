// The best of pairs of a key and an index: the greatest key, and of equal ones the first. Keys order floats as integers do,
// so that nothing depends on how a driver compares; what is no number comes above all.
const NO_NUMBER: u32 = 0xffffffffu;

var<workgroup> candidates: array<vec2<u32>, 256>;

fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

fn key_of(v: f32) -> u32 {
    if is_nan(v) {
        return NO_NUMBER;
    }
    // Both zeros are one number.
    let bits = select(bitcast<u32>(v), 0u, v == 0.0);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let second = b.x > a.x || (b.x == a.x && b.y < a.y);
    return select(a, b, second);
}

fn best_of_workgroup(own: vec2<u32>, thread: u32) -> vec2<u32> {
    candidates[thread] = own;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            candidates[thread] = better(candidates[thread], candidates[thread + half]);
        }
    }
    workgroupBarrier();
    return candidates[0];
}
