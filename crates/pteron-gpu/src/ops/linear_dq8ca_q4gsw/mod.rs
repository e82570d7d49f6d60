//! `et_vk.linear_dq8ca_q4gsw`: activations quantised to 8 bits with one scale and zero point per row, times 4-bit weights
//! with scales per group, plus a bias.
//!
//! Files contain sums of weights, with which a kernel could subtract the zero point after an integer product. Ours subtract
//! it from the quantised value, which is as exact and reads less, so the sums are checked but not bound.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::matmul::{self, Frame, Layout, Params, Q4};
use crate::ops::OpDef;
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static GEMV: KernelDef =
    KernelDef::new("linear_dq8ca_q4gsw_gemv", include_str!("linear_dq8ca_q4gsw_gemv.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(matmul::TYPES);
static GEMV_WIDE: KernelDef =
    KernelDef::new("linear_dq8ca_q4gsw_gemv_wide", include_str!("linear_dq8ca_q4gsw_gemv_wide.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(matmul::TYPES);
static GEMM: KernelDef =
    KernelDef::new("linear_dq8ca_q4gsw_gemm", include_str!("linear_dq8ca_q4gsw_gemm.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(matmul::TYPES);

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &["et_vk.linear_dq8ca_q4gsw.default", MULTIPLIERS],
    internal: &[MULTIPLIERS],
    kernels: &[&GEMV, &GEMV_WIDE, &GEMM],
    decode,
};

/// The operator with rows that have multipliers in place of scales, without sums, and with constant scales of weights in any order. Front
/// ends call it; no file does.
pub(crate) const MULTIPLIERS: &str = "pteron.linear_rows_q4";

#[derive(Debug)]
pub(crate) struct LinearQ8Q4 {
    pub(crate) frame: Frame,
    pub(crate) scale: TensorId,
    pub(crate) zero_point: TensorId,
    pub(crate) weights: Q4,
    /// None where rows have multipliers in place of scales.
    pub(crate) sums: Option<TensorId>,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let scale = args.tensor_of("input_scales", &[Elem::F32])?;
    let zero_point = args.tensor_of("input_zp", &[Elem::I8])?;
    let weight = args.tensor_of("weights", &[Elem::U8])?;
    let multipliers = args.operator() == MULTIPLIERS;
    let sums = if multipliers { None } else { Some(args.tensor_of("weight_sums", &[Elem::I32])?) };
    let weight_scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let group = args.int("group_size")?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let out = args.output_of("out", Elem::F32)?;
    let weights = if multipliers { Q4::in_any_order } else { Q4::new }(args, weight, weight_scales, group)?;
    Ok(Box::new(LinearQ8Q4 { frame: Frame { x, bias, out }, scale, zero_point, weights, sums }))
}

impl LinearQ8Q4 {
    /// Whether there is a sum for each row in each group.
    pub(crate) fn sums_fit(layout: &Layout, sums: Dims, scales: Dims) -> bool {
        sums.len() == 2 && sums[0] == scales[0] && sums[1] >= layout.n
    }

    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params, Layout), OpError> {
        let layout = self.weights.layout(cx)?;
        let (out, params) = self.frame.sizes(cx, layout.n, layout.k)?;
        for (name, dims) in [("input_scales", cx.dims(self.scale)), ("input_zp", cx.dims(self.zero_point))] {
            matmul::check_rows(name, dims, params.m)?;
        }
        let scales = cx.dims(self.weights.scales);
        let sums = self.sums.map(|sums| cx.dims(sums));
        if let Some(sums) = sums.filter(|&sums| !Self::sums_fit(&layout, sums, scales)) {
            let expected = format!("expected a sum for each of {} rows in each of {} groups", layout.n, scales[0]);
            return Err(OpError::new("weight_sums", format!("is {sums}, {expected}")));
        }
        Ok((out, layout.fill(params), layout))
    }
}

impl Op for LinearQ8Q4 {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Frame { x, bias, out } = self.frame;
        let (scales, joined) = self.weights.scales_bind();
        let [x, scale, zero_point, weight, out] = [x, self.scale, self.zero_point, self.weights.weight, out].map(Bind::from);
        let binds = [x, scale, zero_point, weight, scales, bias.map_or(scales, Bind::from), out];
        let gemv = if self.weights.vectors_of_weights() { &GEMV_WIDE } else { &GEMV };
        let [gemv, gemm] = [gemv, &GEMM].map(|kernel| {
            let variant = Variant::new(kernel).with("MULTIPLIERS", self.sums.is_none().into());
            matmul::reading(variant, self.weights.vectors_of_x())
        });
        Ok(Recipes { joined, ..Recipes::of(matmul::recipes(&gemv, &gemm, &binds)) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params, _) = self.sizes(cx)?;
        Ok(Plan::new(self.frame.out, out, matmul::dispatch(cx.caps(), 0, &params)?))
    }

    /// By groups, with the file's sums: Σ weight scale · row scale · (Σ q · w − zero point · Σ w).
    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params, layout) = self.sizes(cx)?;
        let (m, n, k, group) = (params.m as usize, params.n as usize, params.k as usize, params.group as usize);
        let sum_stride = self.sums.map_or(0, |sums| cx.dims(sums).last() as usize);
        let mut data = Vec::with_capacity(m * n);
        for row in 0..m {
            let given = tensors.f32(self.scale)[row];
            let (scale, multiplier) = if self.sums.is_some() { (given, given.recip()) } else { (given.recip(), given) };
            let zero = f64::from(tensors.u8(self.zero_point)[row].cast_signed());
            let rounded = |x: &f32| (f64::from((x * multiplier).round_ties_even()) + zero).clamp(-128.0, 127.0);
            let q: Vec<f64> = tensors.f32(self.frame.x)[row * k..][..k].iter().map(rounded).collect();
            for column in 0..n {
                let mut total = self.frame.bias.map_or(0.0, |bias| tensors.f32(bias)[column].into());
                for start in (0..k).step_by(group) {
                    let weights = |i| self.weights.value(&layout, tensors, column, i);
                    let dot: f64 = (start..start + group).map(|i| q[i] * weights(i)).sum();
                    let sum = self.sums.map_or_else(
                        || (start..start + group).map(weights).sum(),
                        |sums| f64::from(tensors.i32(sums)[start / group * sum_stride + column]),
                    );
                    let weight_scale = self.weights.scale(&layout, tensors, column, start);
                    total += weight_scale * f64::from(scale) * (dot - zero * sum);
                }
                data.push(matmul::to_f32(total));
            }
        }
        tensors.set(self.frame.out, out, HostData::F32(data));
        Ok(())
    }
}
