//! `aten.glu`: the first half of a dimension times the sigmoid of the second.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static KERNEL: KernelDef = KernelDef::new("glu", include_str!("glu.wgsl"), Params::FIELDS).proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten.glu.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `glu.wgsl`.
    struct Params { count: u32, half: u32, pad: [u32; 2] }
}

/// Each output element reads one of each half.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = count(call.params::<Params>()?.count);
    Some(Reached::new().array(elements * count(2), 4).array(elements, 4))
}

#[derive(Debug)]
struct Glu {
    x: TensorId,
    axis: usize,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("self", &[Elem::F32])?;
    let bound = args.info(x).bound;
    if bound.is_empty() {
        return Err(OpError::new("self", "is a scalar, which has no halves"));
    }
    let axis = args.axis("dim", bound.len())?;
    Ok(Box::new(Glu { x, axis, out: args.output_of("out", Elem::F32)? }))
}

impl Glu {
    /// The dims of the output, and the elements of half a row.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, u32), OpError> {
        let dims = cx.dims(self.x);
        let dim = dims[self.axis];
        if !dim.is_multiple_of(2) {
            return Err(OpError::new("self", format!("is {dims}, but dimension {} has no halves", self.axis)));
        }
        Ok((dims.with(self.axis, dim / 2), (dim / 2).saturating_mul(dims.strides()[self.axis])))
    }
}

impl Op for Glu {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.axis(self.x).filter(|&axis| axis != self.axis)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), [self.x, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, half) = self.dims(cx)?;
        let params = Params { count: dims.count_u32(), half, pad: [0; 2] };
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, dims.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (dims, half) = self.dims(cx)?;
        let x = tensors.f32(self.x);
        let gated = |rows: &[f32]| {
            let (first, second) = rows.split_at(half as usize);
            first.iter().zip(second).map(|(&a, &b)| f64::from(a) / (1.0 + (-f64::from(b)).exp())).collect::<Vec<f64>>()
        };
        let values: Vec<f64> = x.chunks(2 * (half as usize).max(1)).flat_map(gated).collect();
        tensors.set(self.out, dims, HostData::from_numbers(Elem::F32, values));
        Ok(())
    }
}
