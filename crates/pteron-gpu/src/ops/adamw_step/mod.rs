//! `et_vk.adamw_step`: one step of `AdamW` for a parameter and its two moments. The outputs are their new values; a buffer that holds one
//! of them becomes state.

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
use crate::shape::Dims;

static KERNEL: KernelDef = KernelDef::new("adamw_step", include_str!("adamw_step.wgsl"), Params::FIELDS).proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.adamw_step.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `adamw_step.wgsl`.
    struct Params {
        kept: f32, rate: f32, beta1: f32, beta2: f32, rest1: f32, rest2: f32, eps: f32, correction1: f32,
        correction2: f32, count: u32, pad: [u32; 2],
    }
}

/// A thread updates four elements.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = count(call.params::<Params>()?.count);
    Some((0..7).fold(Reached::new(), |reached, _| reached.fours(elements, 16)))
}

/// The tensors that are read, by name.
const READ: [&str; 4] = ["param", "m", "v", "grad"];
/// The numbers.
const NUMBERS: [&str; 7] = ["lr", "beta1", "beta2", "eps", "weight_decay", "bias_correction1", "bias_correction2"];

#[derive(Debug)]
struct AdamwStep {
    read: [TensorId; 4],
    /// Learning rate, decay of both moments, eps, weight decay, bias corrections.
    numbers: [f64; 7],
    outputs: [TensorId; 3],
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let mut read = [TensorId(0); 4];
    for (tensor, name) in read.iter_mut().zip(READ) {
        *tensor = args.tensor_of(name, &[Elem::F32])?;
    }
    let mut numbers = [0.0; 7];
    for (number, name) in numbers.iter_mut().zip(NUMBERS) {
        *number = args.float(name)?;
        if !number.is_finite() {
            return Err(OpError::new(name, format!("is {number}, it must be finite")));
        }
    }
    let mut divisors = NUMBERS.into_iter().zip(&numbers).skip(5);
    if let Some((name, number)) = divisors.find(|(_, number)| **number == 0.0) {
        return Err(OpError::new(name, format!("is {number}, which divides")));
    }
    let outputs = args.outputs("out", 3)?;
    if let Some(&other) = outputs.iter().find(|&&output| args.info(output).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, but the result's are F32", args.info(other).elem)));
    }
    let [param, m, v] = outputs[..] else { return Err(OpError::new("out", "is not three tensors")) };
    Ok(Box::new(AdamwStep { read, numbers, outputs: [param, m, v] }))
}

impl AdamwStep {
    fn dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let dims = cx.dims(self.read[0]);
        for (name, &tensor) in READ.into_iter().zip(&self.read) {
            let found = cx.dims(tensor);
            if found != dims {
                return Err(OpError::new(name, format!("is {found}, but `param` is {dims}")));
            }
        }
        Ok(dims)
    }
}

impl Op for AdamwStep {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = self.read.iter().chain(&self.outputs).map(|&tensor| tensor.into());
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = self.dims(cx)?;
        let [rate, beta1, beta2, eps, decay, correction1, correction2] = self.numbers;
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let [kept, rate, beta1, beta2, rest1, rest2, eps, correction1, correction2] =
            [1.0 - rate * decay, rate, beta1, beta2, 1.0 - beta1, 1.0 - beta2, eps, correction1, correction2]
                .map(|number| number as f32);
        let count = dims.count_u32();
        let params = Params { kept, rate, beta1, beta2, rest1, rest2, eps, correction1, correction2, count, pad: [0; 2] };
        let steps = Dispatch::items(0, &params, dims.count(), 1024)?.into_iter().collect();
        Ok(Plan { outputs: self.outputs.map(|output| (output, dims)).to_vec(), steps, ..Plan::default() })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = self.dims(cx)?;
        let [rate, beta1, beta2, eps, decay, correction1, correction2] = self.numbers;
        let read = self.read.map(|tensor| tensors.f32(tensor).to_vec());
        let mut results = [(); 3].map(|()| Vec::new());
        let [params, first, second, gradients] = read;
        for (((param, m), v), grad) in params.into_iter().zip(first).zip(second).zip(gradients) {
            let [param, m, v, grad] = [param, m, v, grad].map(f64::from);
            let m = beta1 * m + (1.0 - beta1) * grad;
            let v = beta2 * v + (1.0 - beta2) * grad * grad;
            let step = m / correction1 / ((v / correction2).sqrt() + eps);
            let values = [param * (1.0 - rate * decay) - rate * step, m, v];
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            results.iter_mut().zip(values).for_each(|(result, value)| result.push(value as f32));
        }
        for (output, result) in self.outputs.into_iter().zip(results) {
            tensors.set(output, dims, HostData::F32(result));
        }
        Ok(())
    }
}
