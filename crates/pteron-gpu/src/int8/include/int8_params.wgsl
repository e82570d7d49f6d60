// Parameters of products with int8 weights; `Params` of int8/mod.rs is the host's side. The output is [batches, slow, fast]: output
// channels and pixels of a convolution, rows and columns of a linear.
struct Params {
    fast: u32,
    slow: u32,
    k: u32,
    // Images times groups.
    batches: u32,
    // A convolution's input channels of a group, its input's height and width, and its output's width.
    channels: u32,
    height: u32,
    width: u32,
    out_width: u32,
    kernel_height: u32,
    kernel_width: u32,
    stride_y: u32,
    stride_x: u32,
    margin_y: u32,
    margin_x: u32,
    dilation_y: u32,
    dilation_x: u32,
    groups: u32,
    // Bytes from one row of weights to the next, and their last word.
    weight_stride: u32,
    last_weight: u32,
    // The last element of the activations, or their last word where they are bytes.
    last_x: u32,
    // Bit 0: a bias is added. Bit 1: negative results are 0.
    flags: u32,
    x_zero: i32,
    x_scale: f32,
    x_inverse: f32,
    out_inverse: f32,
    out_zero: f32,
    // Bounds of requantised sums, less the zero point.
    low: f32,
    high: f32,
    // Output pixels of an image, where channels are last.
    image_pixels: u32,
}
