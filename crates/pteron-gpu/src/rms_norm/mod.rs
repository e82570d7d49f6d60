//! RMS norm of rows: the kernel, its recipe and dispatch, shared by the operator and by operators with a fused norm.

use crate::error::OpError;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::{Bind, Dispatch, Recipe};

/// One workgroup per row.
pub(crate) static KERNEL: KernelDef = KernelDef::new("rms_norm", include_str!("rms_norm.wgsl"), Params::FIELDS)
    .with_types(&[("T", &["vec4<f32>", "f32"])])
    .proven(reach);

params! {
    /// Of `rms_norm.wgsl`.
    struct Params { rows: u32, items: u32, eps: f32, pad: u32 }
}

/// Whole rows, and one weight per column.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let (all, bytes) = (count(params.rows) * count(params.items), call.type_bytes("T")?);
    Some(Reached::new().array(all, bytes).array(count(params.items), bytes).array(all, bytes))
}

/// The recipes by index: the type of an item, and the elements in it.
pub(crate) const ITEMS: [(&str, u32); 2] = [("vec4<f32>", 4), ("f32", 1)];

/// The recipe for rows of whole vectors, for operators with a fused norm.
pub(crate) fn vector_recipe(x: Bind, weight: Bind, out: Bind) -> Recipe {
    recipe(ITEMS[0].0, x, weight, out)
}

/// The recipe for an item type.
pub(crate) fn recipe(item: &'static str, x: Bind, weight: Bind, out: Bind) -> Recipe {
    Recipe::new(Variant::new(&KERNEL).with_type("T", item), [x, weight, out])
}

/// The dispatch of that recipe.
pub(crate) fn vector_dispatch(recipe: usize, (rows, width): (u32, u32), eps: f64) -> Result<Option<Dispatch>, OpError> {
    dispatch(recipe, (rows, width / ITEMS[0].1), eps)
}

/// The dispatch of a recipe for rows of `items` items.
pub(crate) fn dispatch(recipe: usize, (rows, items): (u32, u32), eps: f64) -> Result<Option<Dispatch>, OpError> {
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let eps = eps as f32;
    Dispatch::groups(recipe, &Params { rows, items, eps, pad: 0 }, rows.into())
}

/// Checks the epsilon: finite and not negative.
pub(crate) fn check_eps(eps: f64) -> Result<f64, OpError> {
    if eps.is_finite() && eps >= 0.0 {
        return Ok(eps);
    }
    Err(OpError::new("eps", format!("is {eps}, expected a finite number of at least 0")))
}

/// The RMS norm of a row times the weights, in double precision.
#[cfg(any(test, feature = "reference"))]
pub(crate) fn normalised(row: &[f32], weight: &[f32], eps: f64) -> Vec<f64> {
    let squares: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
    #[allow(clippy::cast_precision_loss, reason = "a row's length")]
    let root = (squares / row.len() as f64 + eps).sqrt();
    row.iter().zip(weight).map(|(&x, &w)| f64::from(x) / root * f64::from(w)).collect()
}
