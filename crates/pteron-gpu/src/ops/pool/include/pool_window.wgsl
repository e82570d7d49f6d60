// Pooling of a tensor [planes, height, width, inner]: channels first are planes, channels last are inner. A workgroup of 256 threads
// computes 256 outputs, a thread one load T of its window: one channel, or four neighbours.

//#include grid

struct Params {
    // Outputs, in loads.
    count: u32,
    inner: u32,
    input_h: u32,
    input_w: u32,
    output_h: u32,
    output_w: u32,
    kernel_h: u32,
    kernel_w: u32,
    stride_h: u32,
    stride_w: u32,
    before_h: u32,
    before_w: u32,
    dilation_h: u32,
    dilation_w: u32,
    // Of averages: whether padding counts, and the divisor that replaces the count if it is not 0.
    include_padding: u32,
    divisor: f32,
    // Of maxima: minus infinity, which WGSL has no name for.
    lowest: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<T>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;

struct Output {
    // The first position of its window, which may be in the padding before the input.
    top: i32,
    left: i32,
    // The offset of its plane and channel in the input.
    first: u32,
}

fn output_at(index: u32) -> Output {
    let channel = index % params.inner;
    let pixel = index / params.inner;
    let column = pixel % params.output_w;
    let row = pixel / params.output_w % params.output_h;
    let plane = pixel / params.output_w / params.output_h;
    let top = i32(row * params.stride_h) - i32(params.before_h);
    let left = i32(column * params.stride_w) - i32(params.before_w);
    return Output(top, left, plane * params.input_h * params.input_w * params.inner + channel);
}
