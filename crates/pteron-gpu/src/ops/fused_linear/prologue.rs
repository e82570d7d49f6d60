//! The prologue of kernels that multiply floats, one dispatch over the rows: a norm, or 8-bit quantisation with a norm.

use super::{Binds, FusedLinearOp, INCLUDES, NORMED, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::{Bind, Dispatch, Recipe};
use crate::rms_norm;

pub(super) static QUANTISE: KernelDef =
    KernelDef::new("fused_linear_q4gsw_quantise", include_str!("fused_linear_q4gsw_quantise.wgsl"), QuantiseParams::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::quantise);

params! {
    /// Of `fused_linear_q4gsw_quantise.wgsl`.
    pub(super) struct QuantiseParams { rows: u32, vectors: u32, eps: f32, int8_eps: f32, x_row: u32, pad: [u32; 3] }
}

/// Whether rows are changed before they are multiplied.
pub(super) fn is_needed(op: &FusedLinearOp) -> bool {
    op.norm.is_some() || op.int8_eps.is_some()
}

/// Bytes of the changed rows.
pub(super) fn scratch(op: &FusedLinearOp, rows: u64) -> u64 {
    if is_needed(op) { rows.saturating_mul(4 * u64::from(op.weights.k)) } else { 0 }
}

/// The recipe, which stores the rows in scratch.
pub(super) fn recipe(op: &FusedLinearOp, binds: &Binds) -> Option<Recipe> {
    let out = Bind::Scratch(NORMED);
    match (op.int8_eps, &op.norm) {
        (Some(_), norm) => {
            let variant = Variant::new(&QUANTISE).with("NORM", norm.is_some().into());
            Some(Recipe::new(variant, [binds.x, binds.norm, out]))
        }
        (None, Some(_)) => Some(rms_norm::vector_recipe(binds.x, binds.norm, out)),
        (None, None) => None,
    }
}

/// The dispatch of the recipe for `m` rows from `x_row` on; a norm alone starts with the first row.
pub(super) fn dispatch(op: &FusedLinearOp, recipe: usize, m: u32, x_row: u32) -> Result<Option<Dispatch>, OpError> {
    match (op.int8_eps, &op.norm) {
        (Some(int8_eps), _) => {
            let (vectors, eps) = (op.weights.k / 4, op.norm_eps());
            let params = QuantiseParams { rows: m, vectors, eps, int8_eps, x_row, pad: [0; 3] };
            Dispatch::groups(recipe, &params, m.into())
        }
        (None, Some(norm)) => rms_norm::vector_dispatch(recipe, (m, op.weights.k), norm.eps),
        (None, None) => Ok(None),
    }
}
