//! Many rows with cooperative matrices: rows are packed as `f16`, with the norm, then one product over the columns of all weights
//! stores the outputs, with SwiGLU and addend.

use super::{Binds, FusedLinearOp, INCLUDES, Params, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul;
use crate::params;
use crate::plan::{Bind, Caps, Dispatch, Recipe};

pub(super) static COOP_MATRIX: KernelDef =
    KernelDef::new("fused_linear_q4gsw_coop_matrix", include_str!("fused_linear_q4gsw_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::coop_matrix);
pub(super) static PACK: KernelDef =
    KernelDef::new("fused_linear_q4gsw_pack_f16", include_str!("fused_linear_q4gsw_pack_f16.wgsl"), PackParams::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::pack_f16);

params! {
    /// Of `fused_linear_q4gsw_pack_f16.wgsl`.
    pub(super) struct PackParams { rows: u32, vectors: u32, eps: f32, pad: u32 }
}

/// Scratch by index: the packed rows, and their factors.
const PACKED: usize = 0;
const FACTORS: usize = 1;

/// Depth of a slice along k.
const DEPTH: u32 = 64;

/// Tile of a workgroup: `down` × `across` subgroups of `blocks` blocks of 16 rows each, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    blocks: u32,
    down: u32,
    across: u32,
    /// Nanoseconds for 2,048 values along k: of a grid that leaves processors idle, and of one more tile on a busy GPU. Measured on an
    /// H200; only their ratios matter.
    alone: u64,
    each: u64,
}

/// Large tiles load least; small ones keep more processors busy.
const TILES: [Tile; 3] = [
    Tile { blocks: 4, down: 2, across: 4, alone: 46_800, each: 354 },
    Tile { blocks: 2, down: 2, across: 2, alone: 23_500, each: 103 },
    Tile { blocks: 1, down: 2, across: 2, alone: 20_400, each: 83 },
];

impl Tile {
    fn groups(&self, m: u32, n: u32) -> u64 {
        u64::from(m.div_ceil(self.down * self.blocks * 16)) * u64::from(n.div_ceil(self.across * 32))
    }

    fn variant(&self, swiglu: bool) -> Variant {
        Variant::new(&COOP_MATRIX)
            .with("BLOCKS", self.blocks)
            .with("DOWN", self.down)
            .with("ACROSS", self.across)
            .with("GATED", swiglu.into())
    }
}

/// Selects the fastest tile for `m` rows and `n` columns; returns its index and workgroups. A device that needs more
/// workgroups for full occupancy finishes each of them proportionally sooner.
fn select_tile(caps: Caps, m: u32, n: u32) -> (usize, u64) {
    let busy = |tile: &Tile| tile.groups(m, n) * tile.each * 100 / u64::from(caps.fill_percent.max(1));
    let time = |(_, tile): &(usize, &Tile)| tile.alone.max(busy(tile));
    TILES.iter().enumerate().min_by_key(time).map_or((0, 0), |(index, tile)| (index, tile.groups(m, n)))
}

/// Whether the device has cooperative matrices and k is a multiple of the tile depth.
pub(super) fn serves(op: &FusedLinearOp, caps: Caps) -> bool {
    caps.cooperative_matrix && op.weights.k.is_multiple_of(DEPTH)
}

/// The recipes of the tiles, then that of the packing kernel.
pub(super) fn recipes(op: &FusedLinearOp, binds: &Binds) -> Vec<Recipe> {
    let read = [Bind::Scratch(PACKED), Bind::Scratch(FACTORS), binds.weights, binds.scales, binds.addend];
    let product = |tile: &Tile| Recipe::new(tile.variant(op.swiglu), read.into_iter().chain(binds.outputs));
    let pack = Variant::new(&PACK).with("NORM", op.norm.is_some().into());
    let pack = Recipe::new(pack, [binds.x, binds.norm, Bind::Scratch(PACKED), Bind::Scratch(FACTORS)]);
    TILES.iter().map(product).chain([pack]).collect()
}

/// Bytes of scratch for `rows` rows.
pub(super) fn scratch(op: &FusedLinearOp, rows: u64) -> [u64; 3] {
    [rows.saturating_mul(2 * u64::from(op.weights.k)), rows.saturating_mul(4), 0]
}

/// The dispatches for `m` rows, with the recipes that start at `first`.
pub(super) fn dispatches(op: &FusedLinearOp, caps: Caps, first: usize, m: u32) -> Result<Vec<Dispatch>, OpError> {
    let params = Params { m, has_addend: op.addend.is_some().into(), ..op.params() };
    let pack = PackParams { rows: m, vectors: params.k / 4, eps: params.eps, pad: 0 };
    let pack = Dispatch::groups(first + TILES.len(), &pack, m.into())?;
    let (tile, groups) = select_tile(caps, m, params.n);
    Ok(pack.into_iter().chain(Dispatch::groups(first + tile, &params, groups)?).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tiles_are_selected_where_they_fill_a_gpu() {
        let select_tile = |m, n| super::select_tile(Caps::PORTABLE, m, n);
        assert_eq!(select_tile(2048, 16384), (0, 16 * 128));
        assert_eq!(select_tile(128, 16384), (0, 128));
        assert_eq!(select_tile(64, 16384), (1, 256));
        assert_eq!(select_tile(512, 2048), (1, 8 * 32));
        assert_eq!(select_tile(128, 2048), (2, 4 * 32));
        assert_eq!(select_tile(9, 96), (2, 2));
        let [small, large] = [25, 400].map(|fill_percent| Caps { fill_percent, ..Caps::PORTABLE });
        assert_eq!(super::select_tile(small, 128, 2048).0, 1);
        assert_eq!(super::select_tile(large, 128, 16384).0, 2);
    }

    #[test]
    fn more_rows_cost_little_more() {
        let time = |m, n| TILES.iter().map(|tile| tile.alone.max(tile.groups(m, n) * tile.each)).min().unwrap();
        for n in [1024, 2048, 3072, 16384] {
            for m in 9..2000 {
                assert!(time(m + 1, n) >= time(m, n), "{m} rows, {n} columns");
                assert!(time(m + 1, n) <= time(m, n) * 2, "{m} rows, {n} columns");
            }
        }
    }

    #[test]
    fn tiles_fit_registers_and_workgroup_memory() {
        for tile in TILES {
            let threads = tile.down * tile.across * 32;
            assert!(tile.down * tile.blocks * 16 * 16 / threads <= 8, "{tile:?}");
            assert!(tile.across * 32 * 4 / threads <= 4 && threads <= 256, "{tile:?}");
            let [rows, columns] = [tile.down * tile.blocks * 16, tile.across * 32];
            assert!((rows + columns) * 144 + threads / 32 * 1024 <= crate::plan::COOPERATIVE_MATRIX_MEMORY, "{tile:?}");
        }
    }
}
