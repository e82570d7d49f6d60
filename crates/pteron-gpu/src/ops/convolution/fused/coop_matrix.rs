//! Convolution with cooperative matrices.

use super::{FusedConvolutionOp, INCLUDES, Params, dispatches, partial_bytes, reach, share, variants};
use crate::coop_matrix::Matrices;
use crate::elementwise;
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::plan::{Bind, COOPERATIVE_MATRIX_MEMORY, Caps, Dispatch, GridKind, Recipe, Recipes};

/// Whether a device has the matrices that the kernels here are written for: 16 × 16, by subgroups of 32.
pub(super) fn are_usual(caps: Caps) -> bool {
    Matrices::of(caps).is_some_and(Matrices::are_usual) && caps.workgroup_memory >= COOPERATIVE_MATRIX_MEMORY
}

pub(super) static COOP_MATRIX: KernelDef =
    KernelDef::new("fused_convolution_coop_matrix", include_str!("fused_convolution_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, elementwise::INCLUDES])
        .with_cooperative_matrix()
        .with_variants(|| variants(&TILES.map(|tile| tile.variant())[1..]))
        .proven(reach::gemm);
pub(super) static SQUARE: KernelDef = KernelDef::new(
    "fused_convolution_coop_matrix_square",
    include_str!("fused_convolution_coop_matrix_square.wgsl"),
    Params::FIELDS,
)
.with_includes(&[INCLUDES, elementwise::INCLUDES])
.with_cooperative_matrix()
.with_variants(|| variants(&[TILES[0].variant()]))
.proven(reach::gemm);

/// Rows and columns of a matrix.
const SIDE: u32 = 16;

/// The tile of a workgroup, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    /// Subgroups below each other, and beside.
    subgroups: [u32; 2],
    /// Matrices of 16 pixels, and of 16 channels, per subgroup.
    blocks: u32,
    tiles: u32,
    /// Picoseconds per slice of 32 rows: of a workgroup alone, and of one more on a busy GPU.
    alone: u64,
    each: u64,
}

/// The first is that of [`SQUARE`], the others are those of [`COOP_MATRIX`].
const TILES: [Tile; 4] = [
    Tile { subgroups: [2, 4], blocks: 4, tiles: 2, alone: 1_180_000, each: 9_000 },
    Tile { subgroups: [4, 1], blocks: 2, tiles: 4, alone: 900_000, each: 6_500 },
    Tile { subgroups: [4, 1], blocks: 2, tiles: 2, alone: 750_000, each: 4_200 },
    Tile { subgroups: [4, 1], blocks: 1, tiles: 2, alone: 600_000, each: 2_800 },
];

/// Numbers of workgroups that share the products of an output.
const SPLITS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The fewest rows of weights that a workgroup of several multiplies.
const MIN_ROWS: u32 = 64;
/// With fewer workgroups, products are shared among them.
const FULL_GRID: u32 = 512;
/// Picoseconds of the dispatch that adds partial sums, and per byte of them.
const SUM_DISPATCH: u64 = 3_500_000;
const SUM_BYTES_PER_NANOSECOND: u64 = 1_500;

impl Tile {
    fn variant(&self) -> Variant {
        let kernel = if *self == TILES[0] { &SQUARE } else { &COOP_MATRIX };
        let variant = Variant::new(kernel).with_count("BLOCKS", self.blocks).with_count("TILES", self.tiles);
        // Vectors of a slice per thread: the threads of subgroups beside each other share its pixels.
        variant.with_count("LOADS", self.blocks * 4 / self.subgroups[1])
    }

    /// Pixels, and channels, of a workgroup.
    fn size(&self) -> [u32; 2] {
        [self.subgroups[0] * self.blocks * SIDE, self.subgroups[1] * self.tiles * SIDE]
    }

    /// Workgroups of a group of channels.
    fn groups(&self, params: &Params) -> u64 {
        let [pixels, channels] = self.size();
        u64::from(params.pixels.div_ceil(pixels)) * u64::from(params.channels_out.div_ceil(channels))
    }

    /// Whether so many workgroups may share an output's products: partial sums have bounded scratch.
    fn may_split(&self, caps: Caps, params: &Params) -> bool {
        let groups = self.groups(params).saturating_mul(params.groups.into()).saturating_mul(params.splits.into());
        params.splits == 1 || (groups <= caps.filled(GridKind::SplitK, FULL_GRID).into() && params.split_rows >= MIN_ROWS)
    }

    /// Predicted picoseconds.
    fn time(&self, caps: Caps, params: &Params) -> u64 {
        let slices = u64::from(params.split_rows.div_ceil(crate::packing::CONVOLUTION_SLICE));
        let groups = self.groups(params).saturating_mul(params.groups.into()).saturating_mul(params.splits.into());
        let busy = groups.saturating_mul(slices).saturating_mul(self.each * 100) / u64::from(caps.fill(GridKind::Tiles));
        let sums = partial_bytes(params).saturating_mul(2000) / SUM_BYTES_PER_NANOSECOND;
        let sums = if params.splits > 1 { SUM_DISPATCH + sums } else { 0 };
        (slices * self.alone).max(busy) + sums
    }
}

/// The recipe of each tile for whole sums, then that for partial ones; at the end that of their sum.
pub(super) fn recipes(op: &FusedConvolutionOp, caps: Caps) -> Recipes {
    let recipe = |tile: &Tile, partial: bool| {
        let variant = op.variant(tile.variant()).with("PARTIAL", partial.into());
        let out = if partial { Bind::Scratch(0) } else { op.out.into() };
        Recipe::new(variant, op.binds().into_iter().chain([out]))
    };
    let products = TILES.iter().flat_map(|tile| [false, true].map(|partial| recipe(tile, partial)));
    let mut recipes = Recipes::of(products.chain([op.sum_recipe()]));
    let [pixels, channels] = TILES[0].size();
    recipes.scratch.push(u64::from(caps.filled(GridKind::SplitK, FULL_GRID)) * u64::from(pixels * channels) * 4);
    recipes
}

/// Selects the fastest tile and the number of workgroups that share products.
fn select(params: Params, caps: Caps) -> (usize, Params) {
    let shared = |splits| {
        let (split_rows, splits) = share(params.rows, splits);
        Params { splits, split_rows, ..params }
    };
    let ways = (0..TILES.len()).flat_map(|tile| SPLITS.map(|splits| (tile, shared(splits))));
    let allowed = ways.filter(|(tile, params)| TILES[*tile].may_split(caps, params));
    allowed.min_by_key(|(tile, params)| TILES[*tile].time(caps, params)).unwrap_or((0, params))
}

pub(super) fn steps(params: Params, caps: Caps) -> Result<(Vec<Dispatch>, u64), OpError> {
    let (tile, params) = select(params, caps);
    let steps = dispatches(&params, 2 * tile, 2 * TILES.len(), TILES[tile].groups(&params))?;
    Ok((steps, partial_bytes(&params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(pixels: u32, channels_out: u32, rows: u32) -> ([u32; 2], u32) {
        let params = Params {
            pixels,
            channels_out,
            rows,
            split_rows: rows,
            splits: 1,
            groups: 1,
            all_out: channels_out,
            ..Params::default()
        };
        let (tile, params) = select(params, Caps::PORTABLE);
        (TILES[tile].size(), params.splits)
    }

    #[test]
    fn few_outputs_share_their_products_and_many_take_large_tiles() {
        assert_eq!(selected(32 * 56 * 56, 64, 576), ([128, 64], 1));
        assert_eq!(selected(256 * 256, 128, 1152), ([128, 128], 1));
        assert!(selected(49, 512, 4608).1 > 4);
        assert_eq!(selected(32 * 112 * 112, 32, 288), ([128, 32], 1));
    }

    #[test]
    fn naga_writes_spirv_for_every_tile() {
        use naga::valid::Capabilities;
        let subgroups = Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER;
        let f16 = Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let allowed = subgroups | f16 | Capabilities::COOPERATIVE_MATRIX;
        for variant in variants(&TILES.map(|tile| tile.variant())) {
            crate::testing::check_spirv(&variant, allowed);
        }
    }

    #[test]
    fn tiles_fit_workgroup_memory() {
        for tile in TILES {
            // The square tile has two slices, and two blocks of sums per subgroup.
            let buffers = if tile == TILES[0] { 2 } else { 1 };
            let [down, across] = tile.subgroups;
            let staged = buffers * (down * tile.blocks * SIDE * 10 * 8 + down * across * SIDE * SIDE * 4);
            assert!(staged <= COOPERATIVE_MATRIX_MEMORY, "{tile:?}");
        }
    }
}
