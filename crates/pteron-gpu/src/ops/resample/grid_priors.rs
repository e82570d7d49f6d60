//! `et_vk.grid_priors`: the points of a feature map in pixels of the image, (index + offset) · stride in x and y, row by row. Only the
//! last two dims of the feature map are read.

use super::counted;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

pub(super) static KERNEL: KernelDef =
    KernelDef::new("grid_priors", include_str!("grid_priors.wgsl"), Params::FIELDS).proven(reach);

params! {
    /// Of `grid_priors.wgsl`.
    struct Params { points: u32, width: u32, stride: f32, offset: f32 }
}

fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    Some(Reached::new().array(count(call.params::<Params>()?.points), 8))
}

#[derive(Debug)]
struct GridPriors {
    x: TensorId,
    stride: f64,
    offset: f64,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("x")?;
    let bound = args.info(x).bound;
    if bound.len() < 2 {
        return Err(OpError::new("x", format!("is {bound}, expected at least two dimensions")));
    }
    let (stride, offset) = (args.float("stride")?, args.float("offset")?);
    Ok(Box::new(GridPriors { x, stride, offset, out: args.output_of("out", Elem::F32)? }))
}

impl GridPriors {
    /// The dims of the output, and the width of the feature map.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, u32), OpError> {
        let x = cx.dims(self.x);
        let Some(&[height, width]) = x.last_chunk::<2>() else {
            return Err(OpError::new("x", format!("is {x}, expected at least two dimensions")));
        };
        let out = Dims::from_sizes([i64::from(height).saturating_mul(width.into()), 2]);
        out.map(|out| (out, width)).ok_or_else(|| OpError::new("x", format!("is {x}, with more points than kernels count")))
    }
}

impl Op for GridPriors {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), [self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, width) = self.sizes(cx)?;
        counted(&out)?;
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let params = Params { points: out[0], width, stride: self.stride as f32, offset: self.offset as f32 };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out[0].into(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, width) = self.sizes(cx)?;
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let place = |index: u32| ((f64::from(index) + self.offset) * self.stride) as f32;
        let data = (0..out[0]).flat_map(|point| [place(point % width), place(point / width)]).collect();
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}
