//! `aten.upsample_nearest2d` and `aten.upsample_bilinear2d`.

use super::{counted, image};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

/// Images with channels last. Front ends call it; no file does.
pub(crate) const CHANNELS_LAST: &str = "pteron.upsample_bilinear2d_channels_last";

pub(super) static KERNEL: KernelDef =
    KernelDef::new("upsample", include_str!("upsample.wgsl"), Params::FIELDS).proven(reach);

params! {
    /// Of `upsample.wgsl`.
    struct Params {
        height: u32, width: u32, out_height: u32, out_width: u32,
        step_y: f32, step_x: f32, shift: f32, count: u32, inner: u32, pad: [u32; 3],
    }
}

/// Pixels are clamped to the image they belong to.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let plane = count(params.out_height) * count(params.out_width) * count(params.inner);
    let planes = (count(params.count) - count(1)) / plane + count(1);
    let read = planes * count(params.height) * count(params.width) * count(params.inner);
    Some(Reached::new().array(read, 4).array(count(params.count), 4))
}

/// How the output's size follows from the arguments.
#[derive(Debug)]
enum Target {
    Size([Scalar; 2]),
    Factors([f64; 2]),
}

#[derive(Debug)]
struct Upsample {
    x: TensorId,
    target: Target,
    bilinear: bool,
    align_corners: bool,
    channels_last: bool,
    out: TensorId,
}

pub(super) fn decode_nearest(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    decode(args, false)
}

pub(super) fn decode_bilinear(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    decode(args, true)
}

fn decode(args: &mut Args<'_>, bilinear: bool) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    image("input", &args.info(x).bound)?;
    let size = args.optional_scalars("output_size")?;
    let align_corners = bilinear && args.bool("align_corners")?;
    let factors = args.optional_floats("scale_factors")?;
    let target = match (size.as_deref(), factors.as_deref()) {
        (Some(&[height, width]), None) => Target::Size([height, width]),
        (None, Some(&[y, x])) => Target::Factors([y, x]),
        (Some(size), None) => {
            return Err(OpError::new("output_size", format!("has {} numbers, expected 2", size.len())));
        }
        (None, Some(factors)) => {
            return Err(OpError::new("scale_factors", format!("has {} numbers, expected 2", factors.len())));
        }
        _ => {
            return Err(OpError::new(
                "output_size",
                "and `scale_factors` are both given or both None, expected one of them",
            ));
        }
    };
    if let Target::Factors(factors) = target
        && let Some(factor) = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0))
    {
        return Err(OpError::new("scale_factors", format!("has {factor}, each must be above 0")));
    }
    let channels_last = args.operator() == CHANNELS_LAST;
    let out = args.output_of("out", Elem::F32)?;
    Ok(Box::new(Upsample { x, target, bilinear, align_corners, channels_last, out }))
}

/// One direction: the sizes, and the distance of two output pixels in pixels of the input.
struct Axis {
    size: u32,
    out: u32,
    step: f32,
}

impl Upsample {
    fn axis(&self, cx: &PlanCx<'_>, size: u32, which: usize) -> Result<Axis, OpError> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is saturated to 64 bits")]
        let out = match &self.target {
            Target::Size(sizes) => cx.scalar(sizes[which]),
            Target::Factors(factors) => (f64::from(size) * factors[which]) as i64,
        };
        let out =
            u32::try_from(out).map_err(|_| OpError::new("output_size", format!("is {out}, which no image can have")))?;
        if out > 0 && size == 0 {
            return Err(OpError::new("input", format!("has {size} pixels in a direction that has {out} in the output")));
        }
        let step = match &self.target {
            _ if self.align_corners => {
                if out > 1 {
                    f64::from(size - 1) / f64::from(out - 1)
                } else {
                    0.0
                }
            }
            Target::Size(_) => f64::from(size) / f64::from(out),
            Target::Factors(factors) => factors[which].recip(),
        };
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let step = step as f32;
        Ok(Axis { size, out, step })
    }

    /// The dims of the output, and both directions.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, [Axis; 2]), OpError> {
        let dims = image("input", &cx.dims(self.x))?;
        let first = if self.channels_last { 1 } else { 2 };
        let axes = [self.axis(cx, dims[first], 0)?, self.axis(cx, dims[first + 1], 1)?];
        let mut out = dims;
        [out[first], out[first + 1]] = [axes[0].out, axes[1].out];
        Ok((Dims::of(out), axes))
    }

    /// The distance of the first output pixel's centre from the first input pixel's, in steps: half a pixel, unless corners are aligned.
    fn shift(&self) -> f32 {
        if self.align_corners { 0.0 } else { 0.5 }
    }
}

impl Op for Upsample {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.batch(self.x)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("BILINEAR", self.bilinear.into());
        Ok(Recipes::of([Recipe::new(variant, [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, [y, x]) = self.sizes(cx)?;
        let params = Params {
            height: y.size,
            width: x.size,
            out_height: y.out,
            out_width: x.out,
            step_y: y.step,
            step_x: x.step,
            shift: self.shift(),
            count: counted(&out)?,
            inner: if self.channels_last { out.last() } else { 1 },
            pad: [0; 3],
        };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, axes) = self.sizes(cx)?;
        let values = tensors.f32(self.x);
        let pixel = |mut index: Vec<u32>| {
            let channels = if self.channels_last { out[3] } else { out[1] };
            if self.channels_last {
                index.swap(1, 3);
                index.swap(2, 3);
            }
            let at = |y: u32, x: u32| {
                let [y, x, height, width] = [y, x, axes[0].size, axes[1].size].map(|size| size as usize);
                let [image, channel, channels] = [index[0], index[1], channels].map(|size| size as usize);
                f64::from(
                    values[match self.channels_last {
                        true => ((image * height + y) * width + x) * channels + channel,
                        false => ((image * channels + channel) * height + y) * width + x,
                    }],
                )
            };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positions are not negative")]
            let nearest = |axis: usize| {
                // In 32 bits as PyTorch does: where a pixel is on an edge, rounding decides.
                ((index[2 + axis] as f32 * axes[axis].step).floor() as u32).min(axes[axis].size - 1)
            };
            if !self.bilinear {
                return at(nearest(0), nearest(1));
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positions are not negative")]
            let [(y, v), (x, u)] = [0, 1].map(|axis| {
                let shift = f64::from(self.shift());
                let place = (f64::from(axes[axis].step) * (f64::from(index[2 + axis]) + shift) - shift).max(0.0);
                let first = (place as u32).min(axes[axis].size - 1);
                (first, place - f64::from(first))
            });
            let [below, right] = [(y, 0), (x, 1)].map(|(first, axis)| (first + 1).min(axes[axis].size - 1));
            (1.0 - v) * ((1.0 - u) * at(y, x) + u * at(y, right)) + v * ((1.0 - u) * at(below, x) + u * at(below, right))
        };
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let data = indices(&out).map(|index| pixel(index) as f32).collect();
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}
