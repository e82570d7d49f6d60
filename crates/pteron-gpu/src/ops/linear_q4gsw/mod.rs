//! Linears with 4-bit weights: `et_vk.linear_q4gsw` with scales per group and a bias, and `et_vk.linear_qcs4w` with one
//! scale per row.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{self, Frame, Params, Q4};
use crate::ops::{OpDef, names};
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;

#[cfg(test)]
mod tests;

static GEMV: KernelDef = KernelDef::new("linear_q4gsw_gemv", include_str!("linear_q4gsw_gemv.wgsl"), Params::FIELDS)
    .with_includes(&[matmul::INCLUDES])
    .with_types(matmul::TYPES)
    .proven(matmul::reach);
static GEMV_WIDE: KernelDef =
    KernelDef::new("linear_q4gsw_gemv_wide", include_str!("linear_q4gsw_gemv_wide.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(matmul::TYPES)
        .proven(matmul::reach_in_vectors);
static GEMM: KernelDef = KernelDef::new("linear_q4gsw_gemm", include_str!("linear_q4gsw_gemm.wgsl"), Params::FIELDS)
    .with_includes(&[matmul::INCLUDES])
    .with_types(matmul::TYPES)
    .proven(matmul::reach);

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

const TABLE: &[(&str, Decode)] = &[
    ("et_vk.linear_q4gsw.default", decode_in_groups),
    ("et_vk.linear_qcs4w.default", decode_by_row),
    (ANY_ORDER, decode_in_groups),
];

/// The operator with constant scales of weights in any order. Front ends call it; no file does.
pub(crate) const ANY_ORDER: &str = "pteron.linear_q4";

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[ANY_ORDER], kernels: &[&GEMV, &GEMV_WIDE, &GEMM], decode };

#[derive(Debug)]
pub(crate) struct LinearQ4 {
    pub(crate) frame: Frame,
    pub(crate) weights: Q4,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (_, decode) = args.row(TABLE);
    decode(args)
}

fn decode_in_groups(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("self", &[Elem::F32])?;
    let weight = args.tensor_of("weights", &[Elem::U8])?;
    let scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let group = args.int("group_size")?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let out = args.output_of("out", Elem::F32)?;
    let weights = if args.operator() == ANY_ORDER { Q4::in_any_order } else { Q4::new }(args, weight, scales, group)?;
    Ok(Box::new(LinearQ4 { frame: Frame { x, bias, out }, weights }))
}

fn decode_by_row(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("self", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::U8])?;
    let scales = args.tensor_of("scales", &[Elem::F32])?;
    let out = args.output_of("out", Elem::F32)?;
    // A row with an odd number of columns ends in half a byte, so the weight's dims do not determine k.
    let weights = Q4::by_row(args, weight, scales, args.info(x).bound.last())?;
    Ok(Box::new(LinearQ4 { frame: Frame { x, bias: None, out }, weights }))
}

impl Op for LinearQ4 {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.outer(self.frame.x, 1)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Frame { x, bias, out } = self.frame;
        let (scales, joined) = self.weights.scales_bind();
        let [x, weight, out] = [x, self.weights.weight, out].map(Bind::from);
        let binds = [x, weight, scales, bias.map_or(scales, Bind::from), out];
        let gemv = if self.weights.vectors_of_weights() { &GEMV_WIDE } else { &GEMV };
        let [gemv, gemm] = [gemv, &GEMM].map(|kernel| {
            let variant = Variant::new(kernel).with("HIGH_FIRST", self.weights.high_first().into());
            matmul::reading(variant, self.weights.vectors_of_x())
        });
        Ok(Recipes { joined, ..Recipes::of(matmul::recipes(&gemv, &gemm, &binds)) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let layout = self.weights.layout(cx)?;
        let (out, params) = self.frame.sizes(cx, layout.n, layout.k)?;
        Ok(Plan::new(self.frame.out, out, matmul::dispatch(cx.caps(), 0, &layout.fill(params))?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let layout = self.weights.layout(cx)?;
        let (out, params) = self.frame.sizes(cx, layout.n, layout.k)?;
        let x = tensors.f32(self.frame.x);
        let bias = self.frame.bias.map(|bias| tensors.f32(bias));
        let weight = |n, k| self.weights.value(&layout, tensors, n, k) * self.weights.scale(&layout, tensors, n, k);
        let data = matmul::reference(&params, |m, k| x[m * params.k as usize + k].into(), weight, bias);
        tensors.set(self.frame.out, out, HostData::F32(data));
        Ok(())
    }
}
