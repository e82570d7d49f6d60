// The largest element of a window and its index in the plane. Of equal ones the first wins, of NaN the last, as in PyTorch. NaN is
// detected by its bits.

struct Maximum {
    value: T,
    index: I,
}

fn is_nan(v: T) -> B {
    return (bitcast<U>(v) & U(0x7fffffffu)) > U(0x7f800000u);
}

// The first position of a window along an axis that is not before the input.
fn first_inside(start: i32, dilation: u32) -> u32 {
    if start >= 0 {
        return u32(start);
    }
    return u32(start + i32((u32(-start) + dilation - 1u) / dilation * dilation));
}

fn maximum_of(output: Output) -> Maximum {
    let top = first_inside(output.top, params.dilation_h);
    let left = first_inside(output.left, params.dilation_w);
    let bottom = min(i32(params.input_h), output.top + i32((params.kernel_h - 1u) * params.dilation_h) + 1);
    let right = min(i32(params.input_w), output.left + i32((params.kernel_w - 1u) * params.dilation_w) + 1);
    var largest = Maximum(T(params.lowest), I(i32(top * params.input_w + left)));
    for (var y = top; i32(y) < bottom; y += params.dilation_h) {
        for (var z = left; i32(z) < right; z += params.dilation_w) {
            let at = y * params.input_w + z;
            let v = x[output.first + at * params.inner];
            let larger = is_nan(v) | ((v > largest.value) & !is_nan(largest.value));
            largest.value = select(largest.value, v, larger);
            largest.index = select(largest.index, I(i32(at)), larger);
        }
    }
    return largest;
}
