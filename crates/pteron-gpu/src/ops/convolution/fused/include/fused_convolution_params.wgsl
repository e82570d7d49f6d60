// Convolution of tensors with channels last, [images, height, width, channels]: pixels times taps and input channels of a group, times
// output channels. Weights are packed: see `ConvolutionTiles` in packing/convolution.rs.

struct Params {
    // Output pixels of all images.
    pixels: u32,
    output_h: u32,
    output_w: u32,
    input_h: u32,
    input_w: u32,
    kernel_h: u32,
    kernel_w: u32,
    stride_h: u32,
    stride_w: u32,
    before_h: u32,
    before_w: u32,
    dilation_h: u32,
    dilation_w: u32,
    // Channels of a group, and of all.
    channels_in: u32,
    all_in: u32,
    channels_out: u32,
    all_out: u32,
    groups: u32,
    // Tiles of 16 output channels of a group.
    tiles: u32,
    // Vectors of four input channels of a tap.
    vectors: u32,
    // Rows of a tile of weights.
    rows: u32,
    // Workgroups that share the rows, and the rows of each, a multiple of 32.
    splits: u32,
    split_rows: u32,
    has_bias: u32,
    low: f32,
    high: f32,
    // The activation's arguments.
    p: vec4<f32>,
}

override TRANSPOSED: u32 = 0u;

// Where the windows of an output pixel begin: below zero in the padding. Of a transposed convolution, the position that is divided by
// the stride.
struct Window {
    top: i32,
    left: i32,
    // The image's first pixel in the input.
    image: u32,
}

fn window_of(pixel: u32) -> Window {
    let column = pixel % params.output_w;
    let row = pixel / params.output_w % params.output_h;
    let image = pixel / params.output_w / params.output_h * params.input_h * params.input_w;
    if TRANSPOSED == 1u {
        return Window(i32(row + params.before_h), i32(column + params.before_w), image);
    }
    return Window(i32(row * params.stride_h) - i32(params.before_h), i32(column * params.stride_w) - i32(params.before_w), image);
}

// The input pixel of a tap of a window; none is 0xffffffff.
fn input_pixel(window: Window, tap_h: u32, tap_w: u32) -> u32 {
    let down = i32(tap_h * params.dilation_h);
    let across = i32(tap_w * params.dilation_w);
    var y = window.top + down;
    var z = window.left + across;
    var inside = tap_h < params.kernel_h;
    if TRANSPOSED == 1u {
        y = window.top - down;
        z = window.left - across;
        inside = inside && y >= 0 && z >= 0;
        inside = inside && u32(y) % params.stride_h == 0u && u32(z) % params.stride_w == 0u;
        y /= i32(params.stride_h);
        z /= i32(params.stride_w);
    }
    // Below zero it is a huge number, and outside as well.
    inside = inside && u32(y) < params.input_h && u32(z) < params.input_w;
    return select(0xffffffffu, window.image + u32(y) * params.input_w + u32(z), inside);
}
