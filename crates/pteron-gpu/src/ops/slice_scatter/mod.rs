//! A tensor with a slice of it replaced: one index of a dimension, or every `step`th of a range.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;
use crate::strided_copy::strides;

static KERNEL: KernelDef = KernelDef::new("slice_scatter", include_str!("slice_scatter.wgsl"), Params::FIELDS);

const SELECT: &str = "aten.select_scatter.default";
const SLICE: &str = "aten.slice_scatter.default";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[SELECT, SLICE], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `slice_scatter.wgsl`.
    struct Params { count: u32, inner: u32, dim: u32, start: u32, length: u32, step: u32, pad: [u32; 2] }
}

/// The indices that are replaced.
#[derive(Debug)]
enum Replaced {
    One(Scalar),
    Range { start: Option<Scalar>, end: Option<Scalar>, step: u32 },
}

#[derive(Debug)]
struct SliceScatter {
    x: TensorId,
    source: TensorId,
    axis: usize,
    replaced: Replaced,
    elem: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("self")?;
    let info = args.info(x);
    let source = args.tensor_of("src", &[info.elem])?;
    if info.bound.is_empty() {
        return Err(OpError::new("self", "is a scalar, which has no dimension"));
    }
    let axis = args.axis("dim", info.bound.len())?;
    let replaced = if args.operator() == SELECT {
        Replaced::One(args.scalar("index")?)
    } else {
        let (start, end) = (args.optional_scalar("start")?, args.optional_scalar("end")?);
        let step = args.int("step")?;
        let Some(step) = u32::try_from(step).ok().filter(|&step| step > 0) else {
            return Err(OpError::new("step", format!("is {step}, it must be at least 1")));
        };
        Replaced::Range { start, end, step }
    };
    Ok(Box::new(SliceScatter { x, source, axis, replaced, elem: info.elem, out: args.output_of("out", info.elem)? }))
}

impl SliceScatter {
    /// The first index, the number of indices and the distance between them.
    fn range(&self, cx: &PlanCx<'_>, dims: &Dims) -> Result<(u32, u32, u32), OpError> {
        let dim = dims[self.axis];
        let (start, length, step, expected) = match self.replaced {
            Replaced::One(index) => (strides::select(cx.scalar(index), dim)?, 1, 1, dims.without(self.axis)),
            Replaced::Range { start, end, step } => {
                let (start, end) = (start.map_or(0, |start| cx.scalar(start)), end.map_or(i64::MAX, |end| cx.scalar(end)));
                let (start, length) = strides::slice(start, end, step.into(), dim);
                (start, length, step, dims.with(self.axis, length))
            }
        };
        let found = cx.dims(self.source);
        if found != expected {
            return Err(OpError::new("src", format!("is {found}, but the slice that it replaces is {expected}")));
        }
        Ok((start, length, step))
    }
}

impl Op for SliceScatter {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("LANES", self.elem.lanes());
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.source, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let (start, length, step) = self.range(cx, &dims)?;
        let inner = dims.strides()[self.axis];
        let params = Params { count: dims.count_u32(), inner, dim: dims[self.axis], start, length, step, pad: [0; 2] };
        let words = dims.count().div_ceil(self.elem.lanes().into());
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, words, 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let (start, length, step) = self.range(cx, &dims)?;
        let (Some(x), Some(source)) = (tensors.get(self.x), tensors.get(self.source)) else { return Ok(()) };
        let inner = dims.strides()[self.axis] as usize;
        let count = x.data.len();
        let both = crate::reference::HostData::concat([&x.data, &source.data]);
        let place = |at: usize| {
            let (outer, index) = (at / inner / dims[self.axis] as usize, at / inner % dims[self.axis] as usize);
            let replaced = (0..length).find(|&number| (start + number * step) as usize == index);
            replaced.map_or(at, |number| count + (outer * length as usize + number as usize) * inner + at % inner)
        };
        let places: Vec<usize> = (0..count).map(place).collect();
        tensors.set(self.out, dims, both.gather(&places));
        Ok(())
    }
}
