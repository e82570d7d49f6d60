//! Convolutions on the host, for tests: every product of every output element.

use super::Conv;
use crate::int8::Params;
use crate::reference::{HostTensors, indices};
use crate::shape::Dims;

pub(super) fn run(conv: &Conv, out: &Dims, params: &Params, tensors: &mut HostTensors) {
    let x = conv.product.activations(tensors);
    let weights = tensors.u8(conv.product.weight).to_vec();
    let per_group = conv.channels / conv.groups;
    let element = |index: Vec<u32>| {
        let (image, channel) = (index[0], index[1]);
        let group = channel / per_group;
        let mut sum = 0.0;
        for tap_y in 0..conv.kernel[0] {
            for tap_x in 0..conv.kernel[1] {
                let taps = [tap_y, tap_x];
                let place = |axis: usize, size: u32| {
                    let (at, tap) = (i64::from(index[2 + axis]), i64::from(taps[axis] * conv.dilation[axis]));
                    let (stride, padding) = (i64::from(conv.stride[axis]), i64::from(conv.padding[axis]));
                    let place = if conv.transposed {
                        let scaled = at + padding - tap;
                        (scaled % stride == 0).then_some(scaled / stride)?
                    } else {
                        at * stride + tap - padding
                    };
                    u32::try_from(place).ok().filter(|&place| place < size)
                };
                let (Some(y), Some(column)) = (place(0, params.height), place(1, params.width)) else { continue };
                for input in 0..params.channels {
                    let plane = image * conv.groups * params.channels + group * params.channels + input;
                    let from =
                        (plane as usize * params.height as usize + y as usize) * params.width as usize + column as usize;
                    let tap = tap_y * conv.kernel[1] + tap_x;
                    let weight = if conv.depthwise {
                        tap * conv.channels + channel
                    } else {
                        channel * params.weight_stride + tap * params.channels + input
                    };
                    sum += x[from] * f64::from(weights[weight as usize].cast_signed());
                }
            }
        }
        conv.product.real(tensors, channel as usize, sum)
    };
    let real: Vec<f64> = indices(out).map(element).collect();
    conv.product.set(tensors, *out, &real);
}
