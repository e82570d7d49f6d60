//! `aten.linear`: rows of activations times rows of weights, plus a bias.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::matmul::{self, Frame, Params, RECIPES};
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static GEMV: KernelDef = KernelDef::new("linear_gemv", include_str!("linear_gemv.wgsl"), Params::FIELDS)
    .with_includes(&[matmul::INCLUDES])
    .with_types(matmul::TYPES);
static GEMM: KernelDef = KernelDef::new("linear_gemm", include_str!("linear_gemm.wgsl"), Params::FIELDS)
    .with_includes(&[matmul::INCLUDES])
    .with_types(matmul::TYPES);

const NAME: &str = "aten.linear.default";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[], kernels: &[&GEMV, &GEMM], decode };

#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) frame: Frame,
    pub(crate) weight: TensorId,
    /// Whether rows are whole vectors of four, if the file fixes it.
    wide: Option<bool>,
}

/// Creates a call of the operator.
pub(crate) fn call(graph: &mut Graph, x: TensorId, weight: TensorId, bias: Option<TensorId>, out: TensorId) -> Call {
    let bias = bias.map_or_else(|| graph.add(Value::Null), |bias| ValueId(bias.0));
    Call::new(&DEF, NAME, vec![ValueId(x.0), ValueId(weight.0), bias, ValueId(out.0)])
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let out = args.output_of("out", Elem::F32)?;
    let wide = args.is_constant(weight).then(|| whole_vectors(args.info(weight).bound));
    Ok(Box::new(Linear { frame: Frame { x, bias, out }, weight, wide }))
}

fn whole_vectors(weight: Dims) -> bool {
    weight.last().is_multiple_of(4)
}

impl Linear {
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let weight = cx.dims(self.weight);
        if weight.len() != 2 {
            return Err(OpError::new("weight", format!("is {weight}, expected two dimensions")));
        }
        self.frame.sizes(cx, weight[0], weight[1])
    }

    /// The load widths with a set of recipes each: both, unless the file fixes one.
    fn ways(&self) -> Vec<bool> {
        self.wide.map_or_else(|| vec![true, false], |wide| vec![wide])
    }
}

impl Op for Linear {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.outer(self.frame.x, 1).filter(|_| rows.axis(self.weight).is_none())
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Frame { x, bias, out } = self.frame;
        let binds = [x, self.weight, bias.unwrap_or(self.weight), out].map(Into::into);
        let set = |wide| {
            let [gemv, gemm] = [&GEMV, &GEMM].map(|kernel| matmul::reading(Variant::new(kernel), wide));
            matmul::recipes(&gemv, &gemm, &binds).collect::<Vec<_>>()
        };
        Ok(Recipes::of(self.ways().into_iter().flat_map(set)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        let wide = whole_vectors(cx.dims(self.weight));
        let set = self.ways().iter().position(|&way| way == wide).unwrap_or(0);
        Ok(Plan::new(self.frame.out, out, matmul::dispatch(cx.caps(), set * RECIPES, &params)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        let k = params.k as usize;
        let (x, weight) = (tensors.f32(self.frame.x), tensors.f32(self.weight));
        let bias = self.frame.bias.map(|bias| tensors.f32(bias));
        let data = matmul::reference(&params, |m, i| x[m * k + i].into(), |n, i| weight[n * k + i].into(), bias);
        tensors.set(self.frame.out, out, HostData::F32(data));
        Ok(())
    }
}
