//! `pteron.q8_linear_rows`: linear with int8 weights `[n, k]` or `[k, n, 1]`, one scale per row of weights, of rows of floats that are quantised by a
//! multiplier and a zero point of their own. Front ends call it; no file does.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::{self, Factor, LINEAR_ROWS, LINEAR_ROWS_GEMV, MAX_K, Params, take_constant, weight_constants};
use crate::kernel::Variant;
use crate::live::TensorId;
use crate::matmul::{self, Frame};
use crate::ops::OpDef;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

/// The operator's name.
pub(crate) const NAME: &str = "pteron.q8_linear_rows";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[NAME], kernels: &[&LINEAR_ROWS, &LINEAR_ROWS_GEMV], decode };

/// Rows of activations per workgroup of the kernel for few rows, one recipe each; its columns, and the most rows it takes.
const GEMV_ROWS: [u32; 3] = [1, 2, 4];
const GEMV_COLUMNS: u32 = 8;
const GEMV_MAX_ROWS: u32 = 8;

#[derive(Debug)]
pub(crate) struct LinearRows {
    frame: Frame,
    multipliers: TensorId,
    zero_points: TensorId,
    weight: TensorId,
    scales: TensorId,
    /// Columns of the output, and of the weight.
    n: u32,
    k: u32,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("x", &[Elem::F32])?;
    let multipliers = args.tensor_of("multipliers", &[Elem::F32])?;
    let zero_points = args.tensor_of("zero_points", &[Elem::I8])?;
    let weight = take_constant(args, "weights", Elem::I8)?;
    let scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let out = args.output_of("out", Elem::F32)?;
    let dims = args.info(weight).bound;
    match int8::matrix(&dims) {
        Some([n, k]) if n > 0 && (1..=MAX_K).contains(&k) => {
            Ok(Box::new(LinearRows { frame: Frame { x, bias, out }, multipliers, zero_points, weight, scales, n, k }))
        }
        _ => Err(OpError::new("weights", format!("is {dims}, expected rows of 1 to {MAX_K} values"))),
    }
}

impl LinearRows {
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (out, frame) = self.frame.sizes(cx, self.n, self.k)?;
        for (name, tensor) in [("multipliers", self.multipliers), ("zero_points", self.zero_points)] {
            matmul::check_rows(name, cx.dims(tensor), frame.m)?;
        }
        let scales = cx.dims(self.scales);
        if scales.count() != u64::from(self.n) {
            return Err(OpError::new("weight_scales", format!("is {scales}, but the output has {} columns", self.n)));
        }
        let words = Elem::I8.bytes(u64::from(self.n) * u64::from(self.k)) / 4;
        let params = Params {
            fast: self.n,
            slow: frame.m,
            k: self.k,
            batches: 1,
            groups: 1,
            weight_stride: self.k,
            last_weight: u32::try_from(words.saturating_sub(1)).unwrap_or(u32::MAX),
            flags: u32::from(self.frame.bias.is_some()),
            ..Params::default()
        };
        Ok((out, params))
    }
}

impl Op for LinearRows {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Frame { x, bias, out } = self.frame;
        let bias = bias.unwrap_or(self.scales);
        let [x, multipliers, zero_points, weight, scales, bias, out] =
            [x, self.multipliers, self.zero_points, self.weight, self.scales, bias, out].map(Bind::from);
        let joined = weight_constants(self.weight, &cx.bound(self.weight));
        let weight = if joined.len() > 1 { Bind::Joined(1) } else { weight };
        let binds = [x, multipliers, zero_points, weight, Bind::Joined(0), scales, bias, out];
        let variant = Factor::rows(Variant::new(&LINEAR_ROWS)).with("WORD_ROWS", self.k.is_multiple_of(4).into());
        let list = matmul::GEMM_TILES.iter().map(|&tile| Recipe::new(variant.clone().with("TILE", tile), binds));
        let gemv = Variant::new(&LINEAR_ROWS_GEMV).with_type("Y", "f32").with("FLOAT_OUT", 1);
        let gemv = GEMV_ROWS.iter().map(|&rows| Recipe::new(gemv.clone().with("ROWS", rows), binds));
        Ok(Recipes { joined, ..Recipes::of(list.chain(gemv)) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        let step = if params.slow <= GEMV_MAX_ROWS && self.k.is_multiple_of(4) {
            let held = GEMV_ROWS.iter().position(|&rows| params.slow <= rows).unwrap_or(GEMV_ROWS.len() - 1);
            let rows = u64::from(params.slow.div_ceil(GEMV_ROWS[held]));
            let groups = rows * u64::from(self.n.div_ceil(GEMV_COLUMNS));
            Dispatch::groups(matmul::GEMM_TILES.len() + held, &params, groups)?
        } else {
            int8::dispatch(cx.caps(), &params)?
        };
        Ok(Plan::new(self.frame.out, out, step))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        let [m, n, k] = [params.slow, self.n, self.k].map(|size| size as usize);
        let (weights, transposed) = (tensors.u8(self.weight), cx.dims(self.weight).len() == 3);
        let mut data = Vec::with_capacity(m * n);
        for row in 0..m {
            let multiplier = tensors.f32(self.multipliers)[row];
            let zero = f32::from(tensors.u8(self.zero_points)[row].cast_signed());
            let steps = |x: &f32| ((x * multiplier).round_ties_even() + zero).clamp(-128.0, 127.0) - zero;
            let row: Vec<f64> = tensors.f32(self.frame.x)[row * k..][..k].iter().map(|x| steps(x).into()).collect();
            for column in 0..n {
                let weight = |at: usize| weights[if transposed { at * n + column } else { column * k + at }].cast_signed();
                let sum: f64 = row.iter().enumerate().map(|(at, x)| x * f64::from(weight(at))).sum();
                #[allow(clippy::cast_possible_truncation, reason = "programs compute in 32 bits")]
                let real = sum as f32 * (1.0 / multiplier) * tensors.f32(self.scales)[column];
                data.push(real + self.frame.bias.map_or(0.0, |bias| tensors.f32(bias)[column]));
            }
        }
        tensors.set(self.frame.out, out, HostData::F32(data));
        Ok(())
    }
}
