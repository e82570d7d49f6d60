//! Convolution as a register-tiled GEMM, on any device.

use super::{FusedConvolutionOp, INCLUDES, Params, dispatches, partial_bytes, reach, share, variants};
use crate::elementwise;
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::plan::{Bind, Caps, Dispatch, GridKind, Recipe, Recipes};

pub(super) static GEMM: KernelDef =
    KernelDef::new("fused_convolution_gemm", include_str!("fused_convolution_gemm.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, elementwise::INCLUDES])
        .with_variants(|| variants(&[Variant::new(&GEMM)]))
        .proven(reach::gemm);

/// Pixels and channels of a tile.
const SIDE: u32 = 64;
/// Workgroups that occupy a large GPU; with fewer, several share the products of an output.
const FULL_GRID: u32 = 256;
/// The fewest rows of weights that a workgroup of several multiplies.
const MIN_ROWS: u32 = 128;

/// The recipes: whole sums, partial sums, and their sum.
const WHOLE: usize = 0;
const SUM: usize = 2;

pub(super) fn recipes(op: &FusedConvolutionOp, caps: Caps) -> Recipes {
    let recipe = |partial: bool| {
        let variant = op.variant(Variant::new(&GEMM)).with("PARTIAL", partial.into());
        let out = if partial { Bind::Scratch(0) } else { op.out.into() };
        Recipe::new(variant, op.binds().into_iter().chain([out]))
    };
    let mut recipes = Recipes::of([recipe(false), recipe(true), op.sum_recipe()]);
    recipes.scratch.push(u64::from(caps.filled(GridKind::SplitK, FULL_GRID)) * u64::from(SIDE * SIDE) * 4);
    recipes
}

/// Tiles of all groups.
fn tiles(params: &Params) -> u64 {
    u64::from(params.pixels.div_ceil(SIDE)) * u64::from(params.channels_out.div_ceil(SIDE))
}

/// The workgroups that share an output's products.
fn splits(params: &Params, caps: Caps) -> u32 {
    let tiles = tiles(params).saturating_mul(params.groups.into()).max(1);
    let idle = u32::try_from(u64::from(caps.filled(GridKind::SplitK, FULL_GRID)) / tiles).unwrap_or(1);
    if caps.software { 1 } else { idle.min(params.rows / MIN_ROWS).max(1) }
}

pub(super) fn steps(params: Params, caps: Caps) -> Result<(Vec<Dispatch>, u64), OpError> {
    let (split_rows, splits) = share(params.rows, splits(&params, caps));
    let params = Params { splits, split_rows, ..params };
    Ok((dispatches(&params, WHOLE, SUM, tiles(&params))?, partial_bytes(&params)))
}
