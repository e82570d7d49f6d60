//! `et_vk.rms_norm`: RMS norm of rows, times a weight per column.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::rms_norm::{self, ITEMS};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

const NAME: &str = "et_vk.rms_norm.default";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[], kernels: &[&rms_norm::KERNEL], decode };

#[derive(Debug)]
pub(crate) struct RmsNorm {
    pub(crate) x: TensorId,
    pub(crate) weight: TensorId,
    pub(crate) eps: f64,
    pub(crate) out: TensorId,
}

/// Creates a call of the operator.
pub(crate) fn call(graph: &mut Graph, x: TensorId, weight: TensorId, eps: f64, out: TensorId) -> Call {
    let eps = graph.add(Value::Double(eps));
    Call::new(&DEF, NAME, vec![ValueId(x.0), ValueId(weight.0), eps, ValueId(out.0)])
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let eps = rms_norm::check_eps(args.float("eps")?)?;
    Ok(Box::new(RmsNorm { x, weight, eps, out: args.output_of("out", Elem::F32)? }))
}

impl RmsNorm {
    fn dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (x, weight) = (cx.dims(self.x), cx.dims(self.weight));
        if x.is_empty() {
            return Err(OpError::new("input", "is a scalar, expected at least one dimension"));
        }
        if *weight != [x.last()] {
            return Err(OpError::new("weight", format!("is {weight}, expected [{}] for rows of {x}", x.last())));
        }
        Ok(x)
    }
}

impl Op for RmsNorm {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.outer(self.x, 1).filter(|_| rows.axis(self.weight).is_none())
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let recipe = |(item, _)| rms_norm::recipe(item, self.x.into(), self.weight.into(), self.out.into());
        Ok(Recipes::of(ITEMS.map(recipe)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = self.dims(cx)?;
        if dims.count() == 0 {
            return Ok(Plan::new(self.out, dims, None));
        }
        let recipe = usize::from(dims.last() % ITEMS[0].1 != 0);
        let rows = u32::try_from(dims.rows()).unwrap_or(u32::MAX);
        Ok(Plan::new(self.out, dims, rms_norm::dispatch(recipe, (rows, dims.last() / ITEMS[recipe].1), self.eps)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = self.dims(cx)?;
        let weight = tensors.f32(self.weight);
        let rows = tensors.f32(self.x).chunks_exact((dims.last() as usize).max(1));
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let out = rows.flat_map(|row| rms_norm::normalised(row, weight, self.eps)).map(|x| x as f32).collect();
        tensors.set(self.out, dims, HostData::F32(out));
        Ok(())
    }
}
