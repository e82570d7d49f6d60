//! Several rows and more with cooperative matrices: rows are packed as `f16`, with the norm or quantised, then one product over the columns of
//! all weights stores the outputs, with SwiGLU and addend. Workgroups share k among their subgroups where rows are few
//! (`fused_linear_q4gsw_split_k.wgsl`), else rows and columns. Float weights have one kernel for both. Kernels take matrices of any size
//! and subgroups of any number of lanes that [`Matrices`] has; costs were measured with 16 × 16 by 32 lanes.

use super::weights::Stored;
use super::{Binds, FusedLinearOp, INCLUDES, Params, reach};
use crate::coop_matrix::{self, BLOCK_VECTORS, Matrices, SIDE};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul;
use crate::params;
use crate::plan::{Bind, Caps, Dispatch, GridKind, Recipe};

pub(super) static COOP_MATRIX: KernelDef =
    KernelDef::new("fused_linear_q4gsw_coop_matrix", include_str!("fused_linear_q4gsw_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, coop_matrix::INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .with_variants(coop_matrix_variants)
        .proven(reach::coop_matrix);
pub(super) static SPLIT_K: KernelDef =
    KernelDef::new("fused_linear_q4gsw_split_k", include_str!("fused_linear_q4gsw_split_k.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, coop_matrix::INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .with_variants(split_k_variants)
        .proven(reach::coop_matrix);
pub(super) static FLOATS: KernelDef =
    KernelDef::new("fused_linear_float_coop_matrix", include_str!("fused_linear_float_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, coop_matrix::INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .with_variants(float_variants)
        .proven(reach::float_coop_matrix);
pub(super) static PACK: KernelDef =
    KernelDef::new("fused_linear_q4gsw_pack_f16", include_str!("fused_linear_q4gsw_pack_f16.wgsl"), PackParams::FIELDS)
        .with_includes(&[INCLUDES, coop_matrix::INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::pack_f16);

params! {
    /// Of `fused_linear_q4gsw_pack_f16.wgsl`.
    pub(super) struct PackParams { rows: u32, vectors: u32, eps: f32, packed_vectors: u32, int8_eps: f32, pad: [u32; 3] }
}

/// Scratch by index: the packed rows, and their factors.
const PACKED: usize = 0;
const FACTORS: usize = 1;

/// Values of a slice along k, and units of 16 bytes that a tile of columns has of it.
pub(super) const DEPTH: u32 = 64;
const SLICE_UNITS: u32 = 32;

/// How the subgroups of a workgroup share its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// So many along the rows.
    Rows(u32),
    /// So many along k.
    K(u32),
}

/// Tile of a workgroup, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    share: Share,
    /// Blocks of 16 rows, and of 16 columns, per subgroup.
    blocks: u32,
    tiles: u32,
    /// Picoseconds per slice of 64 along k, measured on an H200: of a workgroup on a GPU that is not fully occupied, and of one more
    /// workgroup on a busy GPU.
    q4: Cost,
    floats: Cost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    alone: u64,
    each: u64,
}

const fn tile(share: Share, [blocks, tiles]: [u32; 2], q4: [u64; 2], floats: [u64; 2]) -> Tile {
    let [q4, floats] = [Cost { alone: q4[0], each: q4[1] }, Cost { alone: floats[0], each: floats[1] }];
    Tile { share, blocks, tiles, q4, floats }
}

/// Large tiles load least; small ones, and those that split k, keep more processors busy.
const TILES: [Tile; 9] = [
    tile(Share::Rows(4), [4, 4], [1_450_000, 6_900], [3_200_000, 12_560]),
    tile(Share::Rows(2), [4, 4], [1_300_000, 3_900], [3_000_000, 6_150]),
    tile(Share::Rows(2), [2, 4], [900_000, 2_400], [1_900_000, 3_050]),
    tile(Share::K(8), [4, 2], [1_310_000, 1_500], [1_700_000, 2_050]),
    tile(Share::K(4), [2, 4], [1_170_000, 1_430], [1_710_000, 1_350]),
    tile(Share::K(8), [2, 2], [860_000, 950], [1_970_000, 1_150]),
    tile(Share::K(4), [1, 4], [980_000, 1_200], [3_000_000, 1_550]),
    tile(Share::K(8), [1, 2], [720_000, 750], [3_000_000, 740]),
    tile(Share::K(8), [1, 1], [430_000, 480], [1_210_000, 400]),
];

/// Picoseconds of the two dispatches apart from slices, and slices that take as long as the start and the end of a workgroup that
/// splits k.
const DISPATCHES: u64 = 7_500_000;
const SPLIT_K_ENDS: u32 = 10;
/// Picoseconds in which a GPU loads 16 columns of a slice of float weights, 2 KiB.
const FLOAT_LOAD: u64 = 560;

/// The size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    rows: u32,
    /// Tiles of 16 columns of all weights.
    tiles: u32,
    /// Slices along k.
    slices: u32,
    floats: bool,
}

impl Work {
    fn new(op: &FusedLinearOp, caps: Caps, rows: u32) -> Self {
        Self { rows, tiles: op.weights.tiles(), slices: slices(op, caps), floats: op.weights.are_floats() }
    }
}

impl Tile {
    /// Rows, and tiles of 16 columns, of a workgroup.
    fn size(&self) -> (u32, u32) {
        let down = if let Share::Rows(down) = self.share { down } else { 1 };
        (down * self.blocks * SIDE, self.tiles)
    }

    fn groups(&self, work: &Work) -> u64 {
        let (rows, tiles) = self.size();
        u64::from(work.rows.div_ceil(rows)) * u64::from(work.tiles.div_ceil(tiles))
    }

    /// Predicted picoseconds. A device that needs more workgroups for full occupancy finishes each of them proportionally sooner.
    fn time(&self, caps: Caps, work: &Work) -> u64 {
        let (shares, ends) = if let Share::K(subgroups) = self.share { (subgroups, SPLIT_K_ENDS) } else { (1, 0) };
        let cost = if work.floats { self.floats } else { self.q4 };
        let alone = u64::from(work.slices.div_ceil(shares)) * cost.alone;
        let slices = self.groups(work).saturating_mul(u64::from(work.slices + ends));
        let loads = if work.floats { u64::from(work.tiles) * u64::from(work.slices) * FLOAT_LOAD } else { 0 };
        let kind = if let Share::K(_) = self.share { GridKind::SplitK } else { GridKind::Tiles };
        let busy = slices.saturating_mul(cost.each).max(loads).saturating_mul(100) / u64::from(caps.fill(kind));
        DISPATCHES + alone.max(busy)
    }

    /// Whether it has both factors of its outputs.
    fn serves(&self, swiglu: bool) -> bool {
        !swiglu || self.tiles.is_multiple_of(2)
    }

    /// The variant for float weights.
    fn float_variant(&self, matrices: Matrices) -> Variant {
        let (down, shares) = match self.share {
            Share::Rows(down) => (down, 1),
            Share::K(subgroups) => (1, subgroups),
        };
        let outputs = Matrices::shares(BLOCK_VECTORS, shares * matrices.lanes.count);
        let variant = Variant::new(&FLOATS).with("DOWN", down).with("SHARES", shares).with_count("OUTPUTS", outputs);
        matrices.with(variant).with_count("BLOCKS", self.blocks).with_count("TILES", self.tiles)
    }

    fn variant(&self, matrices: Matrices) -> Variant {
        let lanes = matrices.lanes.count;
        let variant = match self.share {
            Share::Rows(down) => matrices
                .with(Variant::new(&COOP_MATRIX).with("SUBGROUPS", down))
                .with_count("LOADS", Matrices::shares(self.tiles * SLICE_UNITS, down * lanes))
                .with_count("OUTPUTS", matrices.vectors_per_lane()),
            Share::K(subgroups) => matrices
                .with_own_staging(Variant::new(&SPLIT_K).with("SUBGROUPS", subgroups))
                .with_count("LOADS", Matrices::shares(SLICE_UNITS, lanes))
                .with_count("OUTPUTS", Matrices::shares(BLOCK_VECTORS, subgroups * lanes)),
        };
        variant.with_count("BLOCKS", self.blocks).with_count("TILES", self.tiles)
    }
}

/// The variants of each kernel, with the usual matrices, and 8 × 8 with subgroups whose size varies.
fn variants_of(variant: impl Fn(&Tile, Matrices) -> Variant, serves: impl Fn(Share) -> bool) -> Vec<Variant> {
    let tiles = || TILES.iter().filter(|tile| serves(tile.share));
    Matrices::SAMPLES.iter().flat_map(|&matrices| tiles().map(|tile| variant(tile, matrices)).collect::<Vec<_>>()).collect()
}

fn coop_matrix_variants() -> Vec<Variant> {
    variants_of(Tile::variant, |share| matches!(share, Share::Rows(_)))
}

fn float_variants() -> Vec<Variant> {
    variants_of(Tile::float_variant, |_| true)
}

fn split_k_variants() -> Vec<Variant> {
    variants_of(Tile::variant, |share| matches!(share, Share::K(_)))
}

/// The tiles that a call can take, the largest first.
fn tiles(swiglu: bool) -> impl Iterator<Item = &'static Tile> {
    TILES.iter().filter(move |tile| tile.serves(swiglu))
}

/// Selects the fastest tile; returns its index and its predicted picoseconds.
fn select_tile(caps: Caps, swiglu: bool, work: &Work) -> (usize, u64) {
    let times = tiles(swiglu).map(|tile| tile.time(caps, work)).enumerate();
    times.min_by_key(|&(_, time)| time).unwrap_or_default()
}

/// Predicted picoseconds of a call with `rows` rows, of which only ratios to other predictions for the same GPU matter.
pub(super) fn time(op: &FusedLinearOp, caps: Caps, rows: u32) -> u64 {
    select_tile(caps, op.swiglu, &Work::new(op, caps, rows)).1
}

/// Slices along k, the last padded with zeros.
fn slices(op: &FusedLinearOp, caps: Caps) -> u32 {
    op.weights.units(caps) * op.weights.stored(caps).unit_values() / DEPTH
}

/// Whether the device has cooperative matrices for the weights.
pub(super) fn serves(op: &FusedLinearOp, caps: Caps) -> bool {
    Matrices::of(caps).is_some() && op.weights.stored(caps) != Stored::F32
}

/// The recipes of the tiles, then that of the packing kernel.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let Some(matrices) = Matrices::of(caps) else { return Vec::new() };
    let read = [Bind::Scratch(PACKED), Bind::Scratch(FACTORS), binds.weights, binds.scales, binds.addend];
    let floats = op.weights.are_floats();
    let variant = |tile: &Tile| if floats { tile.float_variant(matrices) } else { tile.variant(matrices) };
    let variant = |tile: &Tile| variant(tile).with("GATED", op.swiglu.into());
    let product = |tile: &Tile| Recipe::new(variant(tile), read.into_iter().chain(binds.outputs));
    let pack = Variant::new(&PACK).with("NORM", op.norm.is_some().into()).with("INT8", op.int8_eps.is_some().into());
    let pack = pack.with("ORDERED", floats.into());
    // Devices with matrices have subgroups.
    let lanes = caps.lanes().unwrap_or(matrices.lanes);
    let pack = pack.with("LANES", lanes.count).with("WHOLE", lanes.are_whole().into());
    let pack = Recipe::new(pack, [binds.x, binds.norm, Bind::Scratch(PACKED), Bind::Scratch(FACTORS)]);
    tiles(op.swiglu).map(product).chain([pack]).collect()
}

/// Bytes of scratch for `rows` rows: packed rows, in whole matrices, and factors.
pub(super) fn scratch(op: &FusedLinearOp, caps: Caps, rows: u64) -> [u64; 3] {
    let row = 2 * u64::from(slices(op, caps)) * u64::from(DEPTH);
    [rows.next_multiple_of(SIDE.into()).saturating_mul(row), rows.saturating_mul(4), 0]
}

/// The dispatches for `m` rows, with the recipes that start at `first`.
pub(super) fn dispatches(op: &FusedLinearOp, caps: Caps, first: usize, m: u32) -> Result<Vec<Dispatch>, OpError> {
    let params = Params { m, has_addend: op.addend.is_some().into(), ..op.params(caps) };
    let packed_vectors = slices(op, caps) * (DEPTH / 4);
    let Params { k, eps, int8_eps, .. } = params;
    let pack = PackParams { rows: m, vectors: k / 4, eps, packed_vectors, int8_eps, pad: [0; 3] };
    let pack = Dispatch::groups(first + tiles(op.swiglu).count(), &pack, m.into())?;
    let work = Work::new(op, caps, m);
    let (tile, _) = select_tile(caps, op.swiglu, &work);
    let groups = tiles(op.swiglu).nth(tile).map_or(0, |tile| tile.groups(&work));
    Ok(pack.into_iter().chain(Dispatch::groups(first + tile, &params, groups)?).collect())
}

/// Percentages of workgroups and rows that select each tile in turn, for 14 tiles of columns and 6 slices.
#[cfg(test)]
pub(super) const EVERY_TILE: [(u32, u32); TILES.len()] =
    [(1, 200), (1, 100), (1, 40), (8, 40), (2, 20), (8, 20), (2, 9), (8, 9), (20, 9)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::GEMV_MAX_ROWS;
    use crate::ops::fused_linear::gemv;
    use crate::plan::Lanes;

    /// The products of a layer: tiles of columns, slices along k, and whether it is SwiGLU.
    const SHAPES: [(u32, u32, bool); 8] = [
        (192, 32, false),
        (128, 32, false),
        (1024, 32, true),
        (128, 128, false),
        (384, 64, false),
        (256, 64, false),
        (1792, 64, true),
        (256, 224, false),
    ];

    /// The tile of a call, as rows and tiles of columns of a workgroup, and subgroups that share k.
    fn selected(caps: Caps, rows: u32, (tiles_of_columns, slices, swiglu): (u32, u32, bool)) -> (u32, u32, u32) {
        let work = Work { rows, tiles: tiles_of_columns, slices, floats: false };
        let tile = tiles(swiglu).nth(select_tile(caps, swiglu, &work).0).unwrap();
        let (rows, columns) = tile.size();
        (rows, columns, if let Share::K(subgroups) = tile.share { subgroups } else { 1 })
    }

    #[test]
    fn few_rows_split_k_and_many_take_large_tiles() {
        let usual = |rows, shape| selected(Caps::PORTABLE, rows, SHAPES[shape]);
        // Output projections of models of 2,048 and of 4,096 columns, and SwiGLU of the latter.
        assert_eq!([8, 32, 128].map(|rows| usual(rows, 1)), [(16, 1, 8), (32, 2, 8), (64, 2, 8)]);
        assert_eq!([8, 32, 64].map(|rows| usual(rows, 5)), [(16, 2, 8), (32, 2, 8), (64, 2, 8)]);
        assert_eq!([8, 32, 2048].map(|rows| usual(rows, 6)), [(16, 4, 4), (32, 4, 4), (256, 4, 1)]);
        assert_eq!([512, 2048].map(|rows| usual(rows, 5)), [(64, 4, 1), (256, 4, 1)]);
        // A GPU that needs fewer workgroups takes larger tiles, one that needs more smaller ones.
        let [small, large] = [25, 400].map(|fill_percent| Caps { fill_percent, ..Caps::PORTABLE });
        assert_eq!(selected(small, 512, SHAPES[5]).0, 256);
        assert!(selected(large, 2048, SHAPES[5]).0 < 256);
    }

    #[test]
    fn every_tile_can_be_selected() {
        for (tile, (fill_percent, rows)) in EVERY_TILE.into_iter().enumerate() {
            let (caps, work) = (Caps { fill_percent, ..Caps::PORTABLE }, Work { rows, tiles: 14, slices: 6, floats: false });
            assert_eq!(select_tile(caps, false, &work).0, tile);
            assert!(!TILES[tile].serves(true) || select_tile(caps, true, &work).0 == tile, "SwiGLU, tile {tile}");
        }
    }

    #[test]
    fn no_row_count_is_slower_than_a_larger_one() {
        for ((tiles_of_columns, slices, swiglu), floats) in
            SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)])
        {
            let work = |rows| Work { rows, tiles: tiles_of_columns, slices, floats };
            // Few rows take the faster of both kinds of kernels.
            let time = |rows| {
                let matrices = select_tile(Caps::PORTABLE, swiglu, &work(rows)).1;
                let few = gemv::time_of(Caps::PORTABLE, (tiles_of_columns, slices), floats, rows);
                if rows <= GEMV_MAX_ROWS { matrices.min(few) } else { matrices }
            };
            for rows in 1..2100 {
                assert!(time(rows + 1) >= time(rows), "{rows} rows, {tiles_of_columns} tiles, {slices} slices");
                let most = if rows < 4 { 4 } else { 2 };
                assert!(time(rows + 1) <= time(rows) * most, "{rows} rows, {tiles_of_columns} tiles, {slices} slices");
            }
        }
    }

    #[test]
    fn naga_writes_every_tile_for_every_device() {
        for matrices in coop_matrix::every() {
            for tile in TILES {
                coop_matrix::check_shaders(matrices, &tile.variant(matrices));
                coop_matrix::check_shaders(matrices, &tile.float_variant(matrices));
            }
        }
    }

    #[test]
    fn tiles_fit_workgroup_memory() {
        for tile in TILES {
            let (subgroups, staged) = match tile.share {
                Share::Rows(down) => (down, tile.tiles),
                Share::K(subgroups) => (subgroups, subgroups),
            };
            // Staged columns are padded by an eighth; a block of sums per subgroup.
            let bytes = staged * SIDE * DEPTH * 2 / 8 * 9 + subgroups * SIDE * SIDE * 4;
            assert!(bytes <= crate::plan::COOPERATIVE_MATRIX_MEMORY, "{tile:?}");
            assert!(subgroups.is_power_of_two() && subgroups * Lanes::MOST <= 512, "{tile:?}");
            assert!(subgroups >= coop_matrix::LEAST_SUBGROUPS, "{tile:?}");
            // Threads share the loads of columns evenly, or there are more of them than loads.
            for lanes in [4, 8, 16, 32, 64] {
                let (threads, units) = (subgroups * lanes, tile.tiles * SLICE_UNITS);
                assert!(units.is_multiple_of(threads) || threads > units || matches!(tile.share, Share::K(_)), "{tile:?}");
            }
        }
    }
}
