// Math functions for integer expressions. Division by zero, which PyTorch rejects, returns the dividend.

fn int_div_rounded(a: vec4<i32>, b: vec4<i32>, mode: i32) -> vec4<i32> {
    let q = a / b;
    let left = a - q * b;
    let over = (left != vec4<i32>(0)) & ((left < vec4<i32>(0)) != (b < vec4<i32>(0)));
    return select(q, q - vec4<i32>(1), over & vec4<bool>(mode == 1));
}

fn int_pow(v: vec4<i32>, w: vec4<i32>) -> vec4<i32> {
    var power = v;
    var result = vec4<i32>(1);
    for (var bit = 0u; bit < 31u; bit++) {
        result *= select(vec4<i32>(1), power, ((w >> vec4<u32>(bit)) & vec4<i32>(1)) == vec4<i32>(1));
        power *= power;
    }
    // A negative exponent has an integer result only for bases 1 and −1.
    let odd = (w & vec4<i32>(1)) == vec4<i32>(1);
    let unit = select(vec4<i32>(1), v, odd);
    let negative = select(vec4<i32>(0), unit, abs(v) == vec4<i32>(1));
    return select(result, negative, w < vec4<i32>(0));
}

// The remainder with the sign of the divisor, as in Python.
fn int_remainder(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> {
    let rest = a - a / b * b;
    let apart = (rest != vec4<i32>()) & ((rest < vec4<i32>()) != (b < vec4<i32>()));
    return select(rest, rest + b, apart);
}

// Shifts by more than the width, or by a negative number, leave nothing but the sign.
fn shift_left(v: vec4<i32>, by: vec4<i32>) -> vec4<i32> {
    let outside = (by < vec4<i32>()) | (by > vec4<i32>(31));
    return select(v << (vec4<u32>(by) & vec4<u32>(31u)), vec4<i32>(), outside);
}

fn shift_right(v: vec4<i32>, by: vec4<i32>) -> vec4<i32> {
    return v >> select(vec4<u32>(31u), vec4<u32>(by), (by >= vec4<i32>()) & (by < vec4<i32>(31)));
}
