//! Many rows on a device that multiplies whole matrices of 16-bit floats: the rows are packed, with a norm on the way if there is
//! one, then one product with the columns of all parts, and a gate, is written as it should be.

use super::{Binds, FusedLinearOp, INCLUDES, Params, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul;
use crate::params;
use crate::plan::{Bind, Caps, Dispatch, Recipe};

pub(super) static MATRIX: KernelDef =
    KernelDef::new("fused_linear_q4gsw_coop_matrix", include_str!("fused_linear_q4gsw_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::matrix);
pub(super) static PACK: KernelDef =
    KernelDef::new("fused_linear_q4gsw_pack_f16", include_str!("fused_linear_q4gsw_pack_f16.wgsl"), PackParams::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::pack);

params! {
    /// Of `fused_linear_q4gsw_pack_f16.wgsl`.
    pub(super) struct PackParams { rows: u32, vectors: u32, eps: f32, pad: u32 }
}

/// Scratch by index: the packed rows, and what each is multiplied by in the end.
const PACKED: usize = 0;
const FACTORS: usize = 1;

/// Values along k that a workgroup has in hand.
const DEPTH: u32 = 64;

/// A tile of a workgroup, in blocks of 16 rows for each of `down` × `across` subgroups, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    blocks: u32,
    down: u32,
    across: u32,
    /// Nanoseconds for 2,048 values along k: of a grid that leaves processors idle, and of one more tile where none is. Measured
    /// on an H200, but it is their ratios that count.
    alone: u64,
    each: u64,
}

/// The large tile loads least, small ones keep more processors busy.
const TILES: [Tile; 3] = [
    Tile { blocks: 4, down: 2, across: 4, alone: 46_800, each: 354 },
    Tile { blocks: 2, down: 2, across: 2, alone: 23_500, each: 103 },
    Tile { blocks: 1, down: 2, across: 2, alone: 20_400, each: 83 },
];

impl Tile {
    fn groups(&self, m: u32, n: u32) -> u64 {
        u64::from(m.div_ceil(self.down * self.blocks * 16)) * u64::from(n.div_ceil(self.across * 32))
    }

    fn variant(&self, gated: bool) -> Variant {
        Variant::new(&MATRIX)
            .with("BLOCKS", self.blocks)
            .with("DOWN", self.down)
            .with("ACROSS", self.across)
            .with("GATED", gated.into())
    }
}

/// Which tile takes least time for so many rows and columns, and its workgroups. A device that takes more workgroups to be busy
/// is done with each of them as much sooner.
fn choose(caps: Caps, m: u32, n: u32) -> (usize, u64) {
    let busy = |tile: &Tile| tile.groups(m, n) * tile.each * 100 / u64::from(caps.fill_percent.max(1));
    let time = |(_, tile): &(usize, &Tile)| tile.alone.max(busy(tile));
    TILES.iter().enumerate().min_by_key(time).map_or((0, 0), |(index, tile)| (index, tile.groups(m, n)))
}

/// Whether a device has what it takes, and whether k is whole slices of a tile.
pub(super) fn serves(op: &FusedLinearOp, caps: Caps) -> bool {
    caps.cooperative_matrix && op.weights.k.is_multiple_of(DEPTH)
}

/// The recipes of the tiles, then that of packing.
pub(super) fn recipes(op: &FusedLinearOp, binds: &Binds) -> Vec<Recipe> {
    let read = [Bind::Scratch(PACKED), Bind::Scratch(FACTORS), binds.weights, binds.scales, binds.addend];
    let product = |tile: &Tile| Recipe::new(tile.variant(op.swiglu), read.into_iter().chain(binds.outputs));
    let pack = Variant::new(&PACK).with("NORM", op.norm.is_some().into());
    let pack = Recipe::new(pack, [binds.x, binds.norm, Bind::Scratch(PACKED), Bind::Scratch(FACTORS)]);
    TILES.iter().map(product).chain([pack]).collect()
}

/// Bytes of the scratch that `rows` rows take.
pub(super) fn scratch(op: &FusedLinearOp, rows: u64) -> [u64; 3] {
    [rows.saturating_mul(2 * u64::from(op.weights.k)), rows.saturating_mul(4), 0]
}

/// What computes `m` rows, with the recipes that start at `first`.
pub(super) fn steps(op: &FusedLinearOp, caps: Caps, first: usize, m: u32) -> Result<Vec<Dispatch>, OpError> {
    let params = Params { m, has_addend: op.addend.is_some().into(), ..op.params() };
    let pack = PackParams { rows: m, vectors: params.k / 4, eps: params.eps, pad: 0 };
    let pack = Dispatch::groups(first + TILES.len(), &pack, m.into())?;
    let (tile, groups) = choose(caps, m, params.n);
    Ok(pack.into_iter().chain(Dispatch::groups(first + tile, &params, groups)?).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tiles_are_taken_where_they_fill_a_gpu() {
        let choose = |m, n| super::choose(Caps::PORTABLE, m, n);
        assert_eq!(choose(2048, 16384), (0, 16 * 128));
        assert_eq!(choose(128, 16384), (0, 128));
        assert_eq!(choose(64, 16384), (1, 256));
        assert_eq!(choose(512, 2048), (1, 8 * 32));
        assert_eq!(choose(128, 2048), (2, 4 * 32));
        assert_eq!(choose(9, 96), (2, 2));
        let [small, large] = [25, 400].map(|fill_percent| Caps { fill_percent, ..Caps::PORTABLE });
        assert_eq!(super::choose(small, 128, 2048).0, 1);
        assert_eq!(super::choose(large, 128, 16384).0, 2);
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
    fn a_thread_holds_its_share_of_a_tile() {
        for tile in TILES {
            let threads = tile.down * tile.across * 32;
            assert!(tile.down * tile.blocks * 16 * 16 / threads <= 8, "{tile:?}");
            assert!(tile.across * 32 * 4 / threads <= 4 && threads <= 256, "{tile:?}");
            let [rows, columns] = [tile.down * tile.blocks * 16, tile.across * 32];
            assert!((rows + columns) * 144 + threads / 32 * 1024 <= crate::plan::COOPERATIVE_MATRIX_MEMORY, "{tile:?}");
        }
    }
}
