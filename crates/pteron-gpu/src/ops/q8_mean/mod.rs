//! `pteron.q8_mean`: the mean over the pixels of int8 images with channels last, as integers of another scale. Sums are exact. Front ends call
//! it; no file does.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::Quantised;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

/// The operator's name.
pub(crate) const NAME: &str = "pteron.q8_mean";

static KERNEL: KernelDef = KernelDef::new("q8_mean", include_str!("q8_mean.wgsl"), Params::FIELDS).proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[NAME], kernels: &[&KERNEL], decode };

params! {
    /// Of `q8_mean.wgsl`.
    struct Params { count: u32, channels: u32, pixels: u32, zero: i32, factor: f32, out_zero: f32, pad: [u32; 2] }
}

/// The most pixels of an image: sums of more bytes could exceed 32 bits.
const MAX_PIXELS: u64 = 1 << 22;

fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let elements = count(params.count);
    Some(Reached::new().fours(elements * count(params.pixels), 4).fours(elements, 4))
}

#[derive(Debug)]
struct Mean {
    x: TensorId,
    quantised: Quantised,
    out_quantised: Quantised,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::I8])?;
    let quantised = Quantised::take(args, ["input_scale", "input_zero_point"])?;
    let out_quantised = Quantised::take(args, ["output_scale", "output_zero_point"])?;
    let out = args.output_of("out", Elem::I8)?;
    Ok(Box::new(Mean { x, quantised, out_quantised, out }))
}

impl Mean {
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let x = cx.dims(self.x);
        let &[batch, height, width, channels] = &*x else {
            return Err(OpError::new("input", format!("is {x}, expected four dimensions")));
        };
        let pixels = u64::from(height) * u64::from(width);
        let Some(pixels) = u32::try_from(pixels).ok().filter(|&pixels| (1..=MAX_PIXELS).contains(&pixels.into())) else {
            return Err(OpError::new("input", format!("is {x}, expected 1 to {MAX_PIXELS} pixels")));
        };
        let out = Dims::of([batch, 1, 1, channels]);
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "programs compute in 32 bits")]
        let params = Params {
            count: out.count_u32(),
            channels,
            pixels,
            zero: self.quantised.zero_point,
            factor: (self.quantised.scale as f32 / self.out_quantised.scale as f32) * (1.0 / pixels as f32),
            out_zero: self.out_quantised.zero_point as f32,
            pad: [0; 2],
        };
        Ok((out, params))
    }
}

impl Op for Mean {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 4)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        let x = tensors.u8(self.x);
        let (channels, pixels) = (params.channels as usize, params.pixels as usize);
        let mean = |at: usize| {
            let (image, channel) = (at / channels, at % channels);
            let byte = |pixel: usize| i64::from(x[(image * pixels + pixel) * channels + channel].cast_signed());
            let sum: i64 = (0..pixels).map(|pixel| byte(pixel) - i64::from(params.zero)).sum();
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "programs compute in 32 bits")]
            let steps = (sum as f32 * params.factor + params.out_zero).round_ties_even().clamp(-128.0, 127.0) as i32;
            steps.to_le_bytes()[0]
        };
        let data = (0..params.count as usize).map(mean).collect();
        tensors.set(self.out, out, HostData::U8(data));
        Ok(())
    }
}
