//! `et_vk.rms_norm`: rows divided by the root of the mean of their squares, times a weight for each column.

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
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

pub(super) static ROWS: KernelDef = KernelDef::new("rms_norm", include_str!("rms_norm.wgsl"), Params::FIELDS)
    .with_types(&[("T", &["vec4<f32>", "f32"])])
    .proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.rms_norm.default"], internal: &[], kernels: &[&ROWS], decode };

params! {
    /// Of `rms_norm.wgsl`.
    struct Params { rows: u32, items: u32, eps: f32, pad: u32 }
}

/// Whole rows, and a weight for each column.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let (all, bytes) = (count(params.rows) * count(params.items), call.type_bytes("T")?);
    Some(Reached::new().array(all, bytes).array(count(params.items), bytes).array(all, bytes))
}

/// The recipes: the type of an item, and the numbers in it.
const ITEMS: [(&str, u32); 2] = [("vec4<f32>", 4), ("f32", 1)];

/// The recipe for rows of whole vectors, for operators that normalise on their way.
pub(super) fn vector_recipe(x: Bind, weight: Bind, out: Bind) -> Recipe {
    recipe(ITEMS[0].0, x, weight, out)
}

fn recipe(item: &'static str, x: Bind, weight: Bind, out: Bind) -> Recipe {
    Recipe::new(Variant::new(&ROWS).with_type("T", item), [x, weight, out])
}

/// What normalises rows of whole vectors with such a recipe.
pub(super) fn vector_step(recipe: usize, (rows, width): (u32, u32), eps: f64) -> Result<Option<Dispatch>, OpError> {
    step(recipe, (rows, width / ITEMS[0].1), eps)
}

fn step(recipe: usize, (rows, items): (u32, u32), eps: f64) -> Result<Option<Dispatch>, OpError> {
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let eps = eps as f32;
    Dispatch::groups(recipe, &Params { rows, items, eps, pad: 0 }, rows.into())
}

/// The number that is added under the root, which keeps rows of zeroes from dividing by zero.
pub(super) fn check_eps(eps: f64) -> Result<f64, OpError> {
    if eps.is_finite() && eps >= 0.0 {
        return Ok(eps);
    }
    Err(OpError::new("eps", format!("is {eps}, it must be a number of at least 0")))
}

/// A row divided by the root of the mean of its squares, times the weights, in plain Rust.
pub(super) fn normalised(row: &[f32], weight: &[f32], eps: f64) -> Vec<f64> {
    let squares: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
    #[allow(clippy::cast_precision_loss, reason = "a row's length")]
    let root = (squares / row.len() as f64 + eps).sqrt();
    row.iter().zip(weight).map(|(&x, &w)| f64::from(x) / root * f64::from(w)).collect()
}

#[derive(Debug)]
struct RmsNorm {
    x: TensorId,
    weight: TensorId,
    eps: f64,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let eps = check_eps(args.float("eps")?)?;
    Ok(Box::new(RmsNorm { x, weight, eps, out: args.output_of("out", Elem::F32)? }))
}

impl RmsNorm {
    fn dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (x, weight) = (cx.dims(self.x), cx.dims(self.weight));
        if x.is_empty() {
            return Err(OpError::new("input", "is a single number, but rows are needed"));
        }
        if *weight != [x.last()] {
            return Err(OpError::new("weight", format!("is {weight}, expected [{}] for rows of {x}", x.last())));
        }
        Ok(x)
    }
}

impl Op for RmsNorm {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let recipe = |(item, _)| recipe(item, self.x.into(), self.weight.into(), self.out.into());
        Ok(Recipes::of(ITEMS.map(recipe)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = self.dims(cx)?;
        if dims.count() == 0 {
            return Ok(Plan::new(self.out, dims, None));
        }
        let recipe = usize::from(dims.last() % ITEMS[0].1 != 0);
        let rows = u32::try_from(dims.rows()).unwrap_or(u32::MAX);
        Ok(Plan::new(self.out, dims, step(recipe, (rows, dims.last() / ITEMS[recipe].1), self.eps)?))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = self.dims(cx)?;
        let weight = tensors.f32(self.weight);
        let rows = tensors.f32(self.x).chunks_exact((dims.last() as usize).max(1));
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let out = rows.flat_map(|row| normalised(row, weight, self.eps)).map(|x| x as f32).collect();
        tensors.set(self.out, dims, HostData::F32(out));
        Ok(())
    }
}
