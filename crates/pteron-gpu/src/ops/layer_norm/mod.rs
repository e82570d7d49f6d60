//! `aten.native_layer_norm`: layer normalisation over the last dimensions, with a weight and a bias per element. The mean and the
//! reciprocal standard deviation (`rstd`) are outputs too.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reduction::reducer::MOMENTS;
use crate::reduction::{INCLUDES, Params, REDUCE, ReducePass, RowShape, TYPES, normalise};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static LAYER_NORM: KernelDef = KernelDef::new("layer_norm", include_str!("layer_norm.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_types(TYPES)
    .with_variants(variants);

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &["aten.native_layer_norm.default"], internal: &[], kernels: &[&LAYER_NORM, &REDUCE], decode };

fn variants() -> Vec<Variant> {
    normalise::variants(&LAYER_NORM, &MOMENTS).to_vec()
}

#[derive(Debug)]
struct LayerNorm {
    x: TensorId,
    normalized_shape: Vec<Scalar>,
    weight: Option<TensorId>,
    bias: Option<TensorId>,
    eps: f64,
    out: TensorId,
    mean: TensorId,
    rstd: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let normalized_shape = args.scalars("normalized_shape")?;
    let rank = args.info(x).bound.len();
    if normalized_shape.is_empty() || normalized_shape.len() > rank {
        let count = normalized_shape.len();
        return Err(OpError::new("normalized_shape", format!("has {count} dimensions, `input` has {rank}")));
    }
    let weight = args.optional_tensor_of("weight", &[Elem::F32])?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let eps = args.float("eps")?;
    if !eps.is_finite() || eps < 0.0 {
        return Err(OpError::new("eps", format!("is {eps}, it must be a number of at least 0")));
    }
    let outputs = args.outputs("out", 3)?;
    if let Some(&other) = outputs.iter().find(|&&output| args.info(output).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, but the result's are F32", args.info(other).elem)));
    }
    let [out, mean, rstd] = outputs[..] else { return Err(OpError::new("out", "is not three tensors")) };
    Ok(Box::new(LayerNorm { x, normalized_shape, weight, bias, eps, out, mean, rstd }))
}

impl LayerNorm {
    /// The number of leading dimensions that are not normalised.
    fn kept(&self, x: &Dims) -> usize {
        x.len().saturating_sub(self.normalized_shape.len())
    }

    /// The rows, and the dims of `mean` and `rstd`.
    fn rows(&self, cx: &PlanCx<'_>) -> Result<(RowShape, Dims), OpError> {
        let x = cx.dims(self.x);
        let kept = self.kept(&x);
        let sizes = self.normalized_shape.iter().map(|&size| cx.scalar(size));
        let normalized = Dims::from_sizes(sizes.clone()).filter(|dims| **dims == x[kept..]);
        let Some(normalized) = normalized else {
            let sizes: Vec<i64> = sizes.collect();
            return Err(OpError::new("normalized_shape", format!("is {sizes:?}, but `input` is {x}")));
        };
        for (name, tensor) in [("weight", self.weight), ("bias", self.bias)] {
            if let Some(dims) = tensor.map(|tensor| cx.dims(tensor)).filter(|dims| *dims != normalized) {
                return Err(OpError::new(name, format!("is {dims}, expected {normalized}")));
            }
        }
        Ok((RowShape::along(&x, kept..x.len()), (kept..x.len()).fold(x, |dims, axis| dims.with(axis, 1))))
    }
}

impl Op for LayerNorm {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.outer(self.x, self.normalized_shape.len())
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let finish = |variant: Variant| {
            let (weight, bias) = (self.weight.is_some().into(), self.bias.is_some().into());
            variant.with("HAS_WEIGHT", weight).with("HAS_BIAS", bias)
        };
        let (weight, bias) = (self.weight.unwrap_or(self.x), self.bias.unwrap_or(self.x));
        let binds = [self.x, weight, bias, self.out, self.mean, self.rstd].map(Into::into);
        let bound = cx.bound(self.x);
        let rows = RowShape::along(&bound, self.kept(&bound)..bound.len());
        Ok(normalise::recipes(&LAYER_NORM, &MOMENTS, (self.x, rows), finish, &binds))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (rows, moments) = self.rows(cx)?;
        // As in PyTorch, a row without elements has a mean of 0 and an rstd of NaN.
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let eps = if rows.length == 0 { f32::NAN } else { self.eps as f32 };
        let (steps, scratch) = normalise::steps(&ReducePass::over_elements(rows), &MOMENTS, eps)?;
        let outputs = vec![(self.out, cx.dims(self.x)), (self.mean, moments), (self.rstd, moments)];
        Ok(Plan { outputs, steps, scratch, ..Plan::default() })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (rows, moments) = self.rows(cx)?;
        let parameter = |tensor: Option<TensorId>| tensor.map(|tensor| tensors.f32(tensor).to_vec());
        let (weight, bias) = (parameter(self.weight), parameter(self.bias));
        let [mut out, mut means, mut rstds] = [(); 3].map(|()| Vec::new());
        for row in 0..rows.outer as usize {
            let length = rows.length as usize;
            let row = &tensors.f32(self.x)[row * length..][..length];
            let count = f64::from(rows.length);
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count.max(1.0);
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
            let rstd = (variance + self.eps).sqrt().recip();
            for (k, &x) in row.iter().enumerate() {
                let weight = weight.as_ref().map_or(1.0, |weight| f64::from(weight[k]));
                let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[k]));
                out.push((f64::from(x) - mean) * rstd * weight + bias);
            }
            means.push(mean);
            rstds.push(rstd);
        }
        for (tensor, dims, values) in
            [(self.out, cx.dims(self.x), out), (self.mean, moments, means), (self.rstd, moments, rstds)]
        {
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            tensors.set(tensor, dims, HostData::F32(values.into_iter().map(|value| value as f32).collect()));
        }
        Ok(())
    }
}
