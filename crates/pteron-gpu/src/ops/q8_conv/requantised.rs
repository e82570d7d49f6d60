//! `pteron.q8_convolution`: convolution of int8 images with channels last, with the integer arithmetic of exported int8 networks. Sums are
//! exact, with an integer bias; one factor per output channel and one rounding make them the output's integers. Front ends call it; no file
//! does.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::{
    self, CONV_CHANNELS_LAST, DEPTHWISE_CHANNELS_LAST, Factor, MAX_K, Params, Product, Quantised, take_bounds, take_constant,
};
use crate::ops::OpDef;
use crate::packing::WeightLayout;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, indices};
use crate::shape::Dims;
use crate::window::geometry::{Geometry, Sizes, channels_first, channels_last, decode_layout};

/// The operator's name.
pub(crate) const NAME: &str = "pteron.q8_convolution";

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &[NAME], internal: &[NAME], kernels: &[&CONV_CHANNELS_LAST, &DEPTHWISE_CHANNELS_LAST], decode };

#[derive(Debug)]
struct Convolution {
    product: Product,
    geometry: Geometry,
    layout: WeightLayout,
    /// The dims of the weight in the order that PyTorch has.
    weight: Dims,
    /// Channels of a group, in and out.
    channels: [u32; 2],
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::I8])?;
    let quantised = Some(Quantised::take(args, ["input_scale", "input_zero_point"])?);
    let weight = take_constant(args, "weight", Elem::I8)?;
    let layout = decode_layout(args)?;
    let scales = take_constant(args, "weight_scales", Elem::F32)?;
    let bias = args.optional_tensor_of("bias", &[Elem::I32])?;
    let out_quantised = Some(Quantised::take(args, ["output_scale", "output_zero_point"])?);
    let requantises = Some(take_bounds(args)?);
    let bound = args.info(x).bound;
    let first = channels_first(&bound)
        .filter(|_| bound.len() == 4)
        .ok_or_else(|| OpError::new("input", format!("is {bound}, expected four dimensions")))?;
    let geometry = Geometry::decode(args, first, true, true)?;
    let out = args.output_of("out", Elem::I8)?;
    if layout == WeightLayout::OutIn {
        return Err(OpError::new("weight_layout", "has channels first, expected channels last"));
    }
    let dims = geometry.logical_weight(layout, args.info(weight).bound)?;
    let sizes = geometry.sizes(first, dims, None)?;
    let (factor, sums, transposed, relu) = (Factor::Bytes, None, false, false);
    let product =
        Product { x, factor, quantised, weight, sums, scales, bias, out_quantised, requantises, transposed, relu, out };
    let op = Convolution { product, layout, channels: [sizes.channels_in, sizes.channels_out], weight: dims, geometry };
    let products = u64::from(op.channels[0]) * u64::from(sizes.taps());
    if products > MAX_K.into() || op.channels.contains(&0) {
        let reason = format!("is {dims}, {products} products per sum, expected 1 to {MAX_K}");
        return Err(OpError::new("weight", reason));
    }
    Ok(Box::new(op))
}

impl Convolution {
    fn is_depthwise(&self) -> bool {
        self.layout == WeightLayout::Depthwise
    }

    /// The sizes at live shapes, and the output's dims.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Sizes, Dims), OpError> {
        let x = cx.dims(self.product.x);
        let wrong = || OpError::new("input", format!("is {x}, expected four dimensions"));
        let sizes = self.geometry.sizes(channels_first(&x).ok_or_else(wrong)?, self.weight, None)?;
        let out = channels_last(&sizes.out).unwrap_or(sizes.out);
        self.product.check_channels(cx, out.last())?;
        Ok((sizes, out))
    }

    fn params(&self, cx: &PlanCx<'_>, sizes: &Sizes) -> Result<Params, OpError> {
        let too_many = || OpError::new("input", format!("makes {} output pixels, too many", sizes.pixels()));
        let [down, across] = sizes.windows;
        let (groups, [channels_in, channels_out]) = (self.geometry.groups, self.channels);
        let k = channels_in.saturating_mul(sizes.taps());
        let params = Params {
            fast: if self.is_depthwise() { channels_out.saturating_mul(groups) } else { channels_out },
            slow: u32::try_from(sizes.pixels()).map_err(|_| too_many())?,
            k,
            batches: if self.is_depthwise() { 1 } else { groups },
            channels: channels_in,
            height: sizes.input[0],
            width: sizes.input[1],
            out_width: sizes.output[1],
            kernel_height: down.kernel,
            kernel_width: across.kernel,
            stride_y: down.stride,
            stride_x: across.stride,
            margin_y: down.padding,
            margin_x: across.padding,
            dilation_y: down.dilation,
            dilation_x: across.dilation,
            groups,
            weight_stride: k,
            image_pixels: sizes.output[0].saturating_mul(sizes.output[1]),
            ..Params::default()
        };
        Ok(self.product.fill(cx, params))
    }
}

impl Op for Convolution {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let transposed = self.geometry.transposed;
        let [channels_in, channels_out] = self.channels;
        let joined = self.product.joined(cx, !self.is_depthwise());
        if self.is_depthwise() {
            let whole = channels_out == 1 && self.geometry.groups.is_multiple_of(4);
            return Ok(Recipes { joined, ..Recipes::of([self.product.depthwise_channels_last(transposed, whole)]) });
        }
        let taps = self.weight[2..].iter().fold(1u32, |taps, &size| taps.saturating_mul(size));
        let words = channels_in.saturating_mul(taps).is_multiple_of(4);
        let recipes = self.product.recipes(&CONV_CHANNELS_LAST, |variant| {
            let variant = variant.with("TRANSPOSED", transposed.into()).with("WORD_ROWS", words.into());
            variant.with("WHOLE_CHANNELS", channels_in.is_multiple_of(4).into())
        });
        Ok(Recipes { joined, ..Recipes::of(recipes) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (sizes, out) = self.sizes(cx)?;
        let params = self.params(cx, &sizes)?;
        let step = if out.count() == 0 {
            None
        } else if self.is_depthwise() {
            Dispatch::items(0, &params, out.count(), 1024)?
        } else {
            int8::dispatch(cx.caps(), &params)?
        };
        Ok(Plan::new(self.product.out, out, step))
    }

    /// Every product of every output element, in integers.
    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (sizes, out) = self.sizes(cx)?;
        let zero = self.product.quantised.map_or(0, |x| x.zero_point);
        let x: Vec<i64> =
            tensors.u8(self.product.x).iter().map(|byte| i64::from(i32::from(byte.cast_signed()) - zero)).collect();
        let weights: Vec<i64> = tensors.u8(self.product.weight).iter().map(|byte| byte.cast_signed().into()).collect();
        let [channels_in, channels_out] = self.channels;
        let strides = self.layout.strides(self.geometry.groups, self.channels, sizes.taps());
        let sum = |index: Vec<u32>| {
            let (group, own) = (index[3] / channels_out, index[3] % channels_out);
            let mut sum = 0;
            for (tap_y, tap_x) in
                (0..sizes.windows[0].kernel).flat_map(|y| (0..sizes.windows[1].kernel).map(move |x| (y, x)))
            {
                let place = |axis: usize, tap: u32| {
                    let window = sizes.windows[axis];
                    let [at, stride, tap, padding] =
                        [index[1 + axis], window.stride, tap * window.dilation, window.padding].map(i64::from);
                    let place = if self.geometry.transposed {
                        let scaled = at + padding - tap;
                        (scaled % stride == 0).then_some(scaled / stride)?
                    } else {
                        at * stride + tap - padding
                    };
                    u32::try_from(place).ok().filter(|&place| place < sizes.input[axis])
                };
                let (Some(y), Some(column)) = (place(0, tap_y), place(1, tap_x)) else { continue };
                let pixel = (index[0] * sizes.input[0] + y) * sizes.input[1] + column;
                for channel in 0..channels_in {
                    let from = (pixel * self.geometry.groups + group) * channels_in + channel;
                    let tap = tap_y * sizes.windows[1].kernel + tap_x;
                    let places = [group, own, channel, tap].map(u64::from);
                    let weight: u64 = places.into_iter().zip(strides).map(|(place, stride)| place * stride).sum();
                    sum += x[from as usize] * usize::try_from(weight).map_or(0, |weight| weights[weight]);
                }
            }
            (index[3] as usize, sum)
        };
        let sums: Vec<(usize, i64)> = indices(&out).map(sum).collect();
        self.product.set_requantised(tensors, out, sums.into_iter());
        Ok(())
    }
}
