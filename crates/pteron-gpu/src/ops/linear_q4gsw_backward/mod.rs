//! `et_vk.linear_q4gsw_backward`: the gradient of a linear with 4-bit weights with respect to its input, `d_out [m, n] · weight [n, k]`.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::matmul::{self, GEMM_TILES, Layout, Params, Q4};
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static GEMM: KernelDef = KernelDef::new("linear_q4gsw_backward", include_str!("linear_q4gsw_backward.wgsl"), Params::FIELDS)
    .with_includes(&[matmul::INCLUDES]);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.linear_q4gsw_backward.default"], internal: &[], kernels: &[&GEMM], decode };

#[derive(Debug)]
struct LinearBackward {
    d_out: TensorId,
    weights: Q4,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let d_out = args.tensor_of("d_out", &[Elem::F32])?;
    let weight = args.tensor_of("weights", &[Elem::U8])?;
    let scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let group = args.int("group_size")?;
    let weights = Q4::new(args, weight, scales, group)?;
    Ok(Box::new(LinearBackward { d_out, weights, out: args.output_of("out", Elem::F32)? }))
}

impl LinearBackward {
    /// The dims of the output, the layout of the weights, and the parameters: k is the weights' rows, n their columns.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Layout, Params), OpError> {
        let (d_out, layout) = (cx.dims(self.d_out), self.weights.layout(cx)?);
        // Rows of weights may be padded; those of the scales, too.
        if d_out.is_empty() || d_out.last() > layout.n {
            return Err(OpError::new("d_out", format!("is {d_out}, but the weights have {} rows", layout.n)));
        }
        let k = cx.bound(self.out).last();
        if k > layout.k || k > layout.weight_stride.saturating_mul(2) {
            return Err(OpError::new(
                "weights",
                format!("have {} columns, but the output is {}", layout.k, cx.bound(self.out)),
            ));
        }
        let m = u32::try_from(d_out.rows())
            .map_err(|_| OpError::new("d_out", format!("is {d_out}, with more rows than kernels count")))?;
        let params = layout.fill(Params { m, n: k, k: d_out.last(), ..Params::default() });
        Ok((d_out.with(d_out.len() - 1, k), layout, params))
    }
}

impl Op for LinearBackward {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.d_out, self.weights.weight, self.weights.scales, self.out].map(Into::into);
        let variant = |tile: &u32| Variant::new(&GEMM).with("TILE", *tile);
        Ok(Recipes::of(GEMM_TILES.iter().map(|tile| Recipe::new(variant(tile), binds))))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, _, params) = self.sizes(cx)?;
        let (tile, groups) = matmul::gemm_tiles(cx.caps(), params.m, params.n);
        Ok(Plan::new(self.out, out, Dispatch::groups(tile, &params, groups)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, layout, params) = self.sizes(cx)?;
        let (d_out, n) = (tensors.f32(self.d_out), params.k as usize);
        let weight = |column: usize, row: usize| {
            self.weights.value(&layout, tensors, row, column) * self.weights.scale(&layout, tensors, row, column)
        };
        let data = matmul::reference(&params, |m, row| d_out[m * n + row].into(), weight, None);
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}
