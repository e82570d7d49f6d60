//! Largest indices of the kernels of int8 products.

use super::Params;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// Of the tiled convolution. Pixels outside the image are not loaded.
pub(super) fn conv(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let image = count(params.channels) * count(params.height) * count(params.width);
    tiled(call, &params, count(params.batches) * image, count(params.groups) * count(params.slow))
}

/// Of the tiled linear.
pub(super) fn linear(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    tiled(call, &params, count(params.slow) * count(params.k), count(params.fast))
}

/// Of the tiled convolution with channels last. Pixels outside the image are not loaded.
pub(super) fn conv_channels_last(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    tiled(call, &params, channels_last(&params)? * count(params.channels), count(params.batches) * count(params.fast))
}

/// The pixels of all images, times groups.
fn channels_last(params: &Params) -> Option<Counts> {
    let images = params.slow.checked_div(params.image_pixels)?;
    let whole = u64::from(images) * u64::from(params.image_pixels) == u64::from(params.slow);
    whole.then(|| count(images) * count(params.height) * count(params.width) * count(params.groups))
}

/// Of the linear whose rows have their own parameters. It binds activations, their multipliers and zero points, then as the others.
pub(super) fn linear_rows(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let rows = count(params.slow);
    let read = Reached::new().array(rows * count(params.k), 4).array(rows, 4).fours(rows, 4);
    let weights = (count(params.fast) - count(1)) * count(params.weight_stride) + count(params.k);
    let weights = weights.max((count(params.last_weight) + count(1)) * count(4));
    let read = read.fours(weights, 4).array(count(params.fast), 4);
    Some(finished(call, &params, read, count(params.fast)))
}

/// The kernels bind activations, weights, their sums, scales, bias and output. Rows past the last repeat it, and words past the last are
/// clamped to it. Bytes are indexed one by one.
fn tiled(call: &DispatchView<'_>, params: &Params, x: Counts, channels: Counts) -> Option<Reached> {
    let bytes = call.type_bytes("X")? == 4 && call.variant.types.contains(&("X", "u32"));
    let last_x = count(params.last_x) + count(1);
    let read =
        if bytes { Reached::new().fours(x.max(last_x * count(4)), 4) } else { Reached::new().array(x.max(last_x), 4) };
    let weights = (channels - count(1)) * count(params.weight_stride) + count(params.k);
    let weights = weights.max((count(params.last_weight) + count(1)) * count(4));
    let read = read.fours(weights, 4).array_if(call.type_bytes("V")? == 4, channels, 4);
    Some(finished(call, params, read, channels))
}

/// Of the depthwise kernel, which binds activations, weights, scales, bias and output.
pub(super) fn depthwise(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let x = count(params.batches) * count(params.groups) * count(params.height) * count(params.width);
    let weights = count(params.kernel_height) * count(params.kernel_width) * count(params.slow);
    Some(finished(call, &params, Reached::new().fours(x, 4).fours(weights, 4), count(params.slow)))
}

/// Of the depthwise kernel for channels last, which binds the same.
pub(super) fn depthwise_channels_last(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let weights = count(params.kernel_height) * count(params.kernel_width) * count(params.fast);
    let read = Reached::new().fours(channels_last(&params)?, 4).fours(weights, 4);
    Some(finished(call, &params, read, count(params.fast)))
}

fn finished(call: &DispatchView<'_>, params: &Params, read: Reached, channels: Counts) -> Reached {
    let read = read.array(channels, 4).array_if(params.flags & 1 == 1, channels, 4);
    let out = count(params.batches) * count(params.slow) * count(params.fast);
    if call.flag("FLOAT_OUT") { read.array(out, 4) } else { read.fours(out, 4) }
}
