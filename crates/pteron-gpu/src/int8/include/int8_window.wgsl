// Places of a convolution's window in its input.

// 1: the gradient of a convolution: an output pixel gathers the input pixels that would be convolved into it.
override TRANSPOSED: u32 = 0u;
const OUTSIDE: u32 = 0xffffffffu;

// The input's row or column for one of the output and a place in the kernel, not below the size where it is outside.
fn input_place(at: u32, tap: u32, stride: u32, pad: u32, dilation: u32) -> u32 {
    if TRANSPOSED == 1u {
        let scaled = at + pad - tap * dilation;
        return select(OUTSIDE, scaled / stride, scaled < 0x80000000u && scaled % stride == 0u);
    }
    return at * stride + tap * dilation - pad;
}

fn input_y(pixel: u32, tap: u32) -> u32 {
    return input_place(pixel / params.out_width, tap, params.stride_y, params.margin_y, params.dilation_y);
}

fn input_x(pixel: u32, tap: u32) -> u32 {
    return input_place(pixel % params.out_width, tap, params.stride_x, params.margin_x, params.dilation_x);
}
