//! Many rows, portable: the norm or quantisation, one tiled GEMM over the columns of all weights, then SwiGLU.

use super::weights::Stored;
use super::{Binds, FusedLinearOp, GATE, INCLUDES, NORMED, Params, UP, prologue, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{self, GEMM_TILES, gemm_tiles};
use crate::params;
use crate::plan::{Bind, Caps, Dispatch, Recipe};

pub(super) static GEMM: KernelDef =
    KernelDef::new("fused_linear_q4gsw_gemm", include_str!("fused_linear_q4gsw_gemm.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .proven(reach::gemm);
pub(super) static FLOAT_GEMM: KernelDef =
    KernelDef::new("fused_linear_float_gemm", include_str!("fused_linear_float_gemm.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .proven(reach::float_gemm);
pub(super) static SWIGLU: KernelDef =
    KernelDef::new("fused_linear_q4gsw_swiglu", include_str!("fused_linear_q4gsw_swiglu.wgsl"), SwigluParams::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .proven(reach::swiglu);

params! {
    /// Of `fused_linear_q4gsw_swiglu.wgsl`.
    pub(super) struct SwigluParams { count: u32, has_addend: u32, pad: [u32; 2] }
}

/// The recipes of the tiles, then those of the prologue and of SwiGLU if present.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let [out0, out1, out2] = binds.outputs;
    let outputs = if op.swiglu { [Bind::Scratch(GATE), Bind::Scratch(UP), out1] } else { [out0, out1, out2] };
    let x = if prologue::is_needed(op) { Bind::Scratch(NORMED) } else { binds.x };
    let variant = match op.weights.stored(caps) {
        Stored::Q4 => Variant::new(&GEMM),
        stored => Variant::new(&FLOAT_GEMM).with("HALF", (stored == Stored::F16).into()),
    };
    let tile = |&side: &u32| {
        let variant = variant.clone().with("TILE", side);
        Recipe::new(variant, [x, binds.weights, binds.scales, binds.addend].into_iter().chain(outputs))
    };
    let mut list: Vec<Recipe> = GEMM_TILES.iter().map(tile).collect();
    list.extend(prologue::recipe(op, binds));
    if op.swiglu {
        let addend = if op.addend.is_some() { binds.addend } else { Bind::Scratch(UP) };
        list.push(Recipe::new(Variant::new(&SWIGLU), [Bind::Scratch(GATE), Bind::Scratch(UP), addend, out0]));
    }
    list
}

/// Bytes of scratch for `rows` rows: those of the prologue, and both factors of SwiGLU.
pub(super) fn scratch(op: &FusedLinearOp, rows: u64) -> [u64; 3] {
    let gate = if op.swiglu { rows.saturating_mul(4 * u64::from(op.columns())) } else { 0 };
    [prologue::scratch(op, rows), gate, gate]
}

/// The dispatches for `m` rows, with the recipes that start at `first`.
pub(super) fn dispatches(op: &FusedLinearOp, caps: Caps, first: usize, m: u32) -> Result<Vec<Dispatch>, OpError> {
    let after_tiles = first + GEMM_TILES.len();
    let mut steps: Vec<Dispatch> = prologue::dispatch(op, after_tiles, m, 0)?.into_iter().collect();
    let params = Params { m, has_addend: (op.addend.is_some() && !op.swiglu).into(), ..op.params(caps) };
    let (tile, groups) = gemm_tiles(caps, m, params.n);
    steps.extend(Dispatch::groups(first + tile, &params, groups)?);
    if op.swiglu {
        let count = u64::from(m) * u64::from(op.columns() / 4);
        let vectors = u32::try_from(count).unwrap_or(u32::MAX);
        let gate = SwigluParams { count: vectors, has_addend: op.addend.is_some().into(), pad: [0; 2] };
        steps.extend(Dispatch::items(after_tiles + usize::from(prologue::is_needed(op)), &gate, count, 256)?);
    }
    Ok(steps)
}
