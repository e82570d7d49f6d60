//! `et_vk.fused_ce`: the cross entropy of rows of logits with labels, and its gradient. Rows with a negative label are ignored; the loss and
//! the gradient are divided by a given number of valid rows.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

// Labels index logits, so it keeps its bounds checks.
static ROWS: KernelDef = KernelDef::new("fused_ce", include_str!("fused_ce.wgsl"), Params::FIELDS);
static SUM: KernelDef = KernelDef::new("fused_ce_sum", include_str!("fused_ce_sum.wgsl"), Params::FIELDS);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.fused_ce.default"], internal: &[], kernels: &[&ROWS, &SUM], decode };

params! {
    /// Of `fused_ce.wgsl` and `fused_ce_sum.wgsl`.
    struct Params { rows: u32, columns: u32, share: f32, pad: u32 }
}

#[derive(Debug)]
struct FusedCe {
    logits: TensorId,
    labels: TensorId,
    valid: f64,
    loss: TensorId,
    gradient: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let logits = args.tensor_of("logits", &[Elem::F32])?;
    let labels = args.tensor_of("labels", &[Elem::I32])?;
    let valid = args.float("n_valid")?;
    if !(valid.is_finite() && valid > 0.0) {
        return Err(OpError::new("n_valid", format!("is {valid}, it must be above 0")));
    }
    let outputs = args.outputs("out", 2)?;
    if let Some(&other) = outputs.iter().find(|&&output| args.info(output).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, but the result's are F32", args.info(other).elem)));
    }
    let [loss, gradient] = outputs[..] else { return Err(OpError::new("out", "is not two tensors")) };
    Ok(Box::new(FusedCe { logits, labels, valid, loss, gradient }))
}

impl FusedCe {
    fn dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (logits, labels) = (cx.dims(self.logits), cx.dims(self.labels));
        if logits.len() != 2 || labels.len() != 1 || labels[0] != logits[0] {
            return Err(OpError::new("labels", format!("is {labels}, expected one for each row of the logits, {logits}")));
        }
        if logits[0] > 0 && logits[1] == 0 {
            return Err(OpError::new("logits", format!("is {logits}, with rows of no logits for the labels, {labels}")));
        }
        Ok(logits)
    }
}

impl Op for FusedCe {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let losses = Bind::Scratch(0);
        let rows = Recipe::new(Variant::new(&ROWS), [self.logits.into(), self.labels.into(), losses, self.gradient.into()]);
        let sum = Recipe::new(Variant::new(&SUM), [losses, self.loss.into()]);
        let scratch = u64::from(cx.bound(self.logits).first().copied().unwrap_or(0)) * 4;
        Ok(Recipes { scratch: vec![scratch.max(4)], ..Recipes::of([rows, sum]) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = self.dims(cx)?;
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let params = Params { rows: dims[0], columns: dims[1], share: self.valid.recip() as f32, pad: 0 };
        let steps = [Dispatch::groups(0, &params, dims[0].into())?, Dispatch::groups(1, &params, 1)?];
        let outputs = vec![(self.loss, Dims::SCALAR), (self.gradient, dims)];
        let scratch = vec![u64::from(dims[0]) * 4];
        Ok(Plan { outputs, steps: steps.into_iter().flatten().collect(), scratch, ..Plan::default() })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = self.dims(cx)?;
        let (mut loss, mut gradient) = (0.0, Vec::new());
        for (row, &label) in tensors.i32(self.labels).iter().enumerate() {
            let columns = dims[1] as usize;
            let logits: Vec<f64> = tensors.f32(self.logits)[row * columns..][..columns].iter().map(|&x| x.into()).collect();
            let Ok(label) = usize::try_from(label) else {
                gradient.extend(std::iter::repeat_n(0.0, columns));
                continue;
            };
            let label = label.min(columns - 1);
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
            loss += (largest + sum.ln() - logits[label]) / self.valid;
            let each = logits.iter().enumerate().map(|(at, x)| {
                #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
                let value = (((x - largest).exp() / sum - f64::from(u8::from(at == label))) / self.valid) as f32;
                value
            });
            gradient.extend(each);
        }
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        tensors.set(self.loss, Dims::SCALAR, HostData::F32(vec![loss as f32]));
        tensors.set(self.gradient, dims, HostData::F32(gradient));
        Ok(())
    }
}
