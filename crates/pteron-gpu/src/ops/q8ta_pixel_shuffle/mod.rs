//! `et_vk.q8ta_pixel_shuffle`: blocks of channels of a tensor of bytes become blocks of pixels, quantised with other parameters.

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
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::Dims;

static KERNEL: KernelDef =
    KernelDef::new("q8ta_pixel_shuffle", include_str!("q8ta_pixel_shuffle.wgsl"), Params::FIELDS).proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.q8ta_pixel_shuffle.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `q8ta_pixel_shuffle.wgsl`.
    struct Params {
        height: u32, width: u32, factor: u32, count: u32,
        scale: f32, zero_point: f32, out_inverse: f32, out_zero: f32,
    }
}

/// Elements are only moved: as many are read as are written.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = count(call.params::<Params>()?.count);
    Some(Reached::new().fours(elements, 4).fours(elements, 4))
}

#[derive(Debug)]
struct Q8taPixelShuffle {
    x: TensorId,
    from: Quantised,
    /// The reciprocal of the output's scale, and its zero point.
    to: (f64, i32),
    factor: u32,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::I8])?;
    let from = Quantised::take(args, ["input_scale", "input_zero_point"])?;
    let to = Quantised::take(args, ["output_inv_scale", "output_zero_point"])?;
    let factor = args.int("upscale_factor")?;
    let Some(factor) = u32::try_from(factor).ok().filter(|factor| (1..=1 << 12).contains(factor)) else {
        return Err(OpError::new("upscale_factor", format!("is {factor}, expected 1 to {}", 1 << 12)));
    };
    let out = args.output_of("out", Elem::I8)?;
    Ok(Box::new(Q8taPixelShuffle { x, from, to: (to.scale, to.zero_point), factor, out }))
}

impl Q8taPixelShuffle {
    fn out_dims(&self, x: &Dims) -> Result<Dims, OpError> {
        let (Some(&[channels, height, width]), factor) = (x.last_chunk::<3>(), self.factor) else {
            return Err(OpError::new("input", format!("is {x}, expected at least three dimensions")));
        };
        if channels % (factor * factor) != 0 {
            let reason = format!("is {factor}, but `input` has {channels} channels, no multiple of its square");
            return Err(OpError::new("upscale_factor", reason));
        }
        let [tall, wide] = [height, width].map(|size| i64::from(size) * i64::from(factor));
        let lead = x[..x.len() - 3].iter().copied().map(i64::from);
        let out = Dims::from_sizes(lead.chain([i64::from(channels / (factor * factor)), tall, wide]));
        out.ok_or_else(|| OpError::new("upscale_factor", format!("is {factor}, too large for {x}")))
    }
}

impl Op for Q8taPixelShuffle {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let x = cx.dims(self.x);
        let out = self.out_dims(&x)?;
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let [scale, zero_point, out_inverse, out_zero] =
            [self.from.scale, self.from.zero_point.into(), self.to.0, self.to.1.into()].map(|value: f64| value as f32);
        let params = Params {
            height: x[x.len() - 2],
            width: x.last(),
            factor: self.factor,
            count: out.count_u32(),
            scale,
            zero_point,
            out_inverse,
            out_zero,
        };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 1024)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let x = cx.dims(self.x);
        let out = self.out_dims(&x)?;
        let (values, factor, lead) = (tensors.u8(self.x), self.factor as usize, out.len() - 3);
        let element = |index: Vec<u32>| {
            let index: Vec<usize> = index.iter().map(|&at| at as usize).collect();
            let planes = index[..=lead].iter().zip(out.iter()).fold(0, |at, (&index, &dim)| at * dim as usize + index);
            let plane = (planes * factor + index[lead + 1] % factor) * factor + index[lead + 2] % factor;
            let from =
                (plane * x[x.len() - 2] as usize + index[lead + 1] / factor) * x.last() as usize + index[lead + 2] / factor;
            let real = f64::from(i32::from(values[from].cast_signed()) - self.from.zero_point) * self.from.scale;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within a byte")]
            let byte = crate::elementwise::requantised(real, self.to.0, self.to.1.into()) as i8 as u8;
            byte
        };
        let data = indices(&out).map(element).collect();
        tensors.set(self.out, out, HostData::U8(data));
        Ok(())
    }
}
