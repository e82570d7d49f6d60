//! Convolution on the host, by its definition: every product is added where it belongs.

use crate::packing::WeightLayout;
use crate::window::geometry::{Geometry, Sizes};

/// The sums of all products, channels first, in double precision. Of a transposed convolution each input element is scattered over a
/// window of the output.
pub(crate) fn sums(geometry: &Geometry, sizes: &Sizes, x: &[f32], (weight, layout): (&[f32], WeightLayout)) -> Vec<f64> {
    let groups = geometry.groups as usize;
    let [channels_in, channels_out] = [sizes.channels_in, sizes.channels_out].map(|channels| channels as usize);
    let [[input_h, input_w], [output_h, output_w]] = [sizes.input, sizes.output].map(|size| size.map(|size| size as usize));
    let [kernel_h, kernel_w] = sizes.windows.map(|window| window.kernel as usize);
    let mut sums = vec![0.0; groups * channels_out * sizes.batch as usize * output_h * output_w];
    // The windows slide over the output if it is transposed, else over the input.
    let (outer, inner) = if geometry.transposed { (sizes.input, sizes.output) } else { (sizes.output, sizes.input) };
    let at = |axis: usize, window: u32, tap: u32| {
        let sizes = &sizes.windows[axis];
        let place = i64::from(window) * i64::from(sizes.stride) + i64::from(tap) * i64::from(sizes.dilation);
        usize::try_from(place - i64::from(sizes.padding)).ok().filter(|&place| place < inner[axis] as usize)
    };
    for image in 0..sizes.batch as usize {
        for (group, out, channel) in triples(groups, channels_out, channels_in) {
            let x = &x[(image * groups * channels_in + group * channels_in + channel) * input_h * input_w..];
            let sums = &mut sums[(image * groups * channels_out + group * channels_out + out) * output_h * output_w..];
            // The index of a weight, by the order that its layout names.
            let index = |tap: usize| match layout {
                WeightLayout::OutIn => ((group * channels_out + out) * channels_in + channel) * kernel_h * kernel_w + tap,
                WeightLayout::InOut => ((group * channels_in + channel) * channels_out + out) * kernel_h * kernel_w + tap,
                WeightLayout::ChannelsLast => {
                    ((group * channels_out + out) * kernel_h * kernel_w + tap) * channels_in + channel
                }
                WeightLayout::Depthwise => (tap * groups + group) * channels_out + out,
            };
            for (row, column) in pairs(outer[0], outer[1]) {
                for (tap_h, tap_w) in pairs(sizes.windows[0].kernel, sizes.windows[1].kernel) {
                    let (Some(y), Some(z)) = (at(0, row, tap_h), at(1, column, tap_w)) else { continue };
                    let [row, column, tap_h, tap_w] = [row, column, tap_h, tap_w].map(|place| place as usize);
                    let tap = f64::from(weight[index(tap_h * kernel_w + tap_w)]);
                    if geometry.transposed {
                        sums[y * output_w + z] += f64::from(x[row * input_w + column]) * tap;
                    } else {
                        sums[row * output_w + column] += f64::from(x[y * input_w + z]) * tap;
                    }
                }
            }
        }
    }
    sums
}

fn pairs(rows: u32, columns: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |a| (0..b).flat_map(move |b| (0..c).map(move |c| (a, b, c))))
}
