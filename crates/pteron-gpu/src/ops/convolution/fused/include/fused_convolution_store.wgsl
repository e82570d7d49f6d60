// The outputs of a workgroup: finished, or partial sums where workgroups share the products of an output.

//#include fused_convolution_finish

override PARTIAL: u32 = 0u;

// Stores the sums of four output channels of a group, from `channel` on.
fn store(pixel: u32, own_group: u32, channel: u32, split: u32, sum: vec4<f32>) {
    if pixel < params.pixels && channel < params.channels_out {
        let first = own_group * params.channels_out + channel;
        if PARTIAL == 1u {
            out[((split * params.pixels + pixel) * params.all_out + first) / 4u] = sum;
        } else {
            let at = (pixel * params.all_out + first) / 4u;
            out[at] = finished(sum, at, first);
        }
    }
}
