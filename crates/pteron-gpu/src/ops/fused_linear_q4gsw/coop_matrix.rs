//! Several rows and more with cooperative matrices: rows are packed as `f16`, with the norm, then one product over the columns of
//! all weights stores the outputs, with SwiGLU and addend. Workgroups share k among their subgroups where rows are few
//! (`fused_linear_q4gsw_split_k.wgsl`), else rows and columns.

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
        .with_variants(coop_matrix_variants)
        .proven(reach::coop_matrix);
pub(super) static SPLIT_K: KernelDef =
    KernelDef::new("fused_linear_q4gsw_split_k", include_str!("fused_linear_q4gsw_split_k.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .with_variants(split_k_variants)
        .proven(reach::coop_matrix);
pub(super) static PACK: KernelDef =
    KernelDef::new("fused_linear_q4gsw_pack_f16", include_str!("fused_linear_q4gsw_pack_f16.wgsl"), PackParams::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .with_cooperative_matrix()
        .proven(reach::pack_f16);

params! {
    /// Of `fused_linear_q4gsw_pack_f16.wgsl`.
    pub(super) struct PackParams { rows: u32, vectors: u32, eps: f32, packed_vectors: u32 }
}

/// Scratch by index: the packed rows, and their factors.
const PACKED: usize = 0;
const FACTORS: usize = 1;

/// Rows and columns of a matrix, and of a slice along k.
pub(super) const SIDE: u32 = 16;
pub(super) const DEPTH: u32 = 64;

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
    /// Matrices of 16 rows, and of 16 columns, per subgroup.
    blocks: u32,
    tiles: u32,
    /// Picoseconds per slice of 64 along k, measured on an H200: of a workgroup on a GPU that is not fully occupied, and of one more
    /// workgroup on a busy GPU.
    alone: u64,
    each: u64,
}

const fn split_k(subgroups: u32, [blocks, tiles]: [u32; 2], alone: u64, each: u64) -> Tile {
    Tile { share: Share::K(subgroups), blocks, tiles, alone, each }
}

const fn tiled(down: u32, [blocks, tiles]: [u32; 2], alone: u64, each: u64) -> Tile {
    Tile { share: Share::Rows(down), blocks, tiles, alone, each }
}

/// Large tiles load least; small ones, and those that split k, keep more processors busy.
const TILES: [Tile; 9] = [
    tiled(4, [4, 4], 1_450_000, 6_900),
    tiled(2, [4, 4], 1_300_000, 3_900),
    tiled(2, [2, 4], 900_000, 2_400),
    split_k(8, [4, 2], 1_310_000, 1_500),
    split_k(4, [2, 4], 1_170_000, 1_430),
    split_k(8, [2, 2], 860_000, 950),
    split_k(4, [1, 4], 980_000, 1_200),
    split_k(8, [1, 2], 720_000, 750),
    split_k(8, [1, 1], 430_000, 480),
];

/// Picoseconds of the two dispatches apart from slices, and slices that take as long as the start and the end of a workgroup that
/// splits k.
const DISPATCHES: u64 = 7_500_000;
const SPLIT_K_ENDS: u32 = 10;

/// The size of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    rows: u32,
    /// Tiles of 16 columns of all weights.
    tiles: u32,
    /// Slices along k.
    slices: u32,
}

impl Work {
    fn new(op: &FusedLinearOp, rows: u32) -> Self {
        Self { rows, tiles: op.params().tiles, slices: slices(op) }
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
        let alone = u64::from(work.slices.div_ceil(shares)) * self.alone;
        let slices = self.groups(work).saturating_mul(u64::from(work.slices + ends));
        let busy = slices.saturating_mul(self.each * 100) / u64::from(caps.fill_percent.max(1));
        DISPATCHES + alone.max(busy)
    }

    /// Whether it has both factors of its outputs.
    fn serves(&self, swiglu: bool) -> bool {
        !swiglu || self.tiles.is_multiple_of(2)
    }

    fn variant(&self) -> Variant {
        let variant = match self.share {
            Share::Rows(down) => Variant::new(&COOP_MATRIX).with("SUBGROUPS", down).with_count("LOADS", self.tiles / down),
            Share::K(subgroups) => Variant::new(&SPLIT_K).with("SUBGROUPS", subgroups),
        };
        variant.with_count("BLOCKS", self.blocks).with_count("TILES", self.tiles)
    }
}

/// The variants of each kernel.
fn coop_matrix_variants() -> Vec<Variant> {
    TILES.iter().filter(|tile| matches!(tile.share, Share::Rows(_))).map(Tile::variant).collect()
}

fn split_k_variants() -> Vec<Variant> {
    TILES.iter().filter(|tile| matches!(tile.share, Share::K(_))).map(Tile::variant).collect()
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
    select_tile(caps, op.swiglu, &Work::new(op, rows)).1
}

/// Slices along k, the last padded with zeros.
fn slices(op: &FusedLinearOp) -> u32 {
    op.weights.k.div_ceil(DEPTH)
}

/// Whether the device has cooperative matrices.
pub(super) fn serves(caps: Caps) -> bool {
    caps.cooperative_matrix
}

/// The recipes of the tiles, then that of the packing kernel.
pub(super) fn recipes(op: &FusedLinearOp, binds: &Binds) -> Vec<Recipe> {
    let read = [Bind::Scratch(PACKED), Bind::Scratch(FACTORS), binds.weights, binds.scales, binds.addend];
    let variant = |tile: &Tile| tile.variant().with("GATED", op.swiglu.into());
    let product = |tile: &Tile| Recipe::new(variant(tile), read.into_iter().chain(binds.outputs));
    let pack = Variant::new(&PACK).with("NORM", op.norm.is_some().into());
    let pack = Recipe::new(pack, [binds.x, binds.norm, Bind::Scratch(PACKED), Bind::Scratch(FACTORS)]);
    tiles(op.swiglu).map(product).chain([pack]).collect()
}

/// Bytes of scratch for `rows` rows: packed rows, in whole matrices, and factors.
pub(super) fn scratch(op: &FusedLinearOp, rows: u64) -> [u64; 3] {
    let row = 2 * u64::from(slices(op)) * u64::from(DEPTH);
    [rows.next_multiple_of(SIDE.into()).saturating_mul(row), rows.saturating_mul(4), 0]
}

/// The dispatches for `m` rows, with the recipes that start at `first`.
pub(super) fn dispatches(op: &FusedLinearOp, caps: Caps, first: usize, m: u32) -> Result<Vec<Dispatch>, OpError> {
    let params = Params { m, has_addend: op.addend.is_some().into(), ..op.params() };
    let packed_vectors = slices(op) * (DEPTH / 4);
    let pack = PackParams { rows: m, vectors: params.k / 4, eps: params.eps, packed_vectors };
    let pack = Dispatch::groups(first + tiles(op.swiglu).count(), &pack, m.into())?;
    let work = Work::new(op, m);
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
        let work = Work { rows, tiles: tiles_of_columns, slices };
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
            let (caps, work) = (Caps { fill_percent, ..Caps::PORTABLE }, Work { rows, tiles: 14, slices: 6 });
            assert_eq!(select_tile(caps, false, &work).0, tile);
            assert!(!TILES[tile].serves(true) || select_tile(caps, true, &work).0 == tile, "SwiGLU, tile {tile}");
        }
    }

    #[test]
    fn no_row_count_is_slower_than_a_larger_one() {
        for (tiles_of_columns, slices, swiglu) in SHAPES {
            let time = |rows| select_tile(Caps::PORTABLE, swiglu, &Work { rows, tiles: tiles_of_columns, slices }).1;
            for rows in 1..2100 {
                assert!(time(rows + 1) >= time(rows), "{rows} rows, {tiles_of_columns} tiles, {slices} slices");
                assert!(time(rows + 1) <= time(rows) * 2, "{rows} rows, {tiles_of_columns} tiles, {slices} slices");
            }
        }
    }

    #[test]
    fn naga_writes_spirv_for_every_tile() {
        use naga::valid::{Capabilities, ValidationFlags, Validator};
        let subgroups = Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER;
        let f16 = Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let allowed = subgroups | f16 | Capabilities::COOPERATIVE_MATRIX;
        for variant in coop_matrix_variants().into_iter().chain(split_k_variants()) {
            let module = naga::front::wgsl::parse_str(&variant.source(crate::kernel::Target::Native)).unwrap();
            let info = Validator::new(ValidationFlags::all(), allowed).validate(&module).unwrap();
            let constants = variant.constants.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
            let entry = Some((naga::ShaderStage::Compute, "main"));
            let (module, info) =
                naga::back::pipeline_constants::process_overrides(&module, &info, entry, &constants).unwrap();
            let words = naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
            assert!(words.len() > 1000, "{} words", words.len());
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
            assert!(subgroups * 32 <= 256 && subgroups * 32 >= 64, "{tile:?}");
            // Subgroups share the loads of columns evenly.
            assert!(matches!(tile.share, Share::K(_)) || tile.tiles.is_multiple_of(subgroups), "{tile:?}");
        }
    }
}
