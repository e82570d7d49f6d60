//! Flash attention for prefill with cooperative matrices of `f16`, accumulated in `f32`: on devices whose subgroups have one size of 16
//! lanes or more.

use super::flash::{HeadConfig, Params, Rotation};
use super::selection::SplitPolicy;
use super::{INCLUDES, reach};
use crate::coop_matrix::{self, Matrices};
use crate::kernel::{KernelDef, Variant};
use crate::plan::{COOPERATIVE_MATRIX_MEMORY, Caps};

pub(super) static COOP_MATRIX: KernelDef =
    KernelDef::new("sdpa_flash_coop_matrix", include_str!("sdpa_flash_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, coop_matrix::INCLUDES])
        .with_variants(variants)
        .with_cooperative_matrix()
        .proven(reach::flash_coop_matrix);

/// Vectors of a row that are staged in workgroup memory at a time.
const CHUNK: u32 = 16;

/// Tile of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    head_vectors: u32,
    subgroups: u32,
    /// Blocks of 16 query rows per subgroup.
    blocks: u32,
    keys: u32,
}

const fn tile(head_vectors: u32, [subgroups, blocks]: [u32; 2], keys: u32) -> Tile {
    Tile { head_vectors, subgroups, blocks, keys }
}

/// The tiles by vectors per head: the smallest first, and one with more rows where registers suffice. Devices with little workgroup
/// memory have the second list.
const TILES: [&[Tile]; 4] = [
    &[tile(16, [4, 1], 64), tile(16, [4, 2], 64)],
    &[tile(32, [4, 1], 32)],
    &[tile(16, [2, 1], 64), tile(16, [2, 2], 64)],
    &[tile(32, [2, 1], 32)],
];

impl Tile {
    /// The tiles of a device for a head of `head_vectors` vectors; none where other kernels run.
    pub(super) fn of(caps: Caps, head_vectors: u32) -> Vec<(Self, Matrices)> {
        let Some(matrices) = Matrices::by_rows(caps) else { return Vec::new() };
        let fits = |tile: &Self| tile.head_vectors == head_vectors && tile.memory() <= caps.workgroup_memory;
        let tiles = TILES.iter().find(|tiles| tiles.iter().all(fits));
        tiles.into_iter().flat_map(|tiles| tiles.iter()).map(|&tile| (tile, matrices)).collect()
    }

    pub(super) fn rows(self) -> u32 {
        self.subgroups * self.blocks * 16
    }

    /// When the context is split. Rows are many, so a split must be long enough to pay for the combine dispatch.
    pub(super) const SPLIT: SplitPolicy = SplitPolicy { full_grid: 256, min_keys: 256, unsplit_keys: 256 };

    /// Bytes of workgroup memory: keys, values, scores and weights, with rows padded by two vectors against bank conflicts.
    const fn memory(self) -> u32 {
        let rows = self.subgroups * 16 * (CHUNK + 2);
        2 * self.keys * (self.head_vectors + 2) * 8 + rows * (16 + 8)
    }

    pub(super) fn variant(self, matrices: Matrices, heads: HeadConfig) -> Variant {
        let per_row = matrices.lanes.count / 16;
        let variant = heads
            .with_caches(matrices.with(Variant::new(&COOP_MATRIX)))
            .with_count("SUBGROUPS", self.subgroups)
            .with_count("BLOCKS", self.blocks)
            .with_count("CHUNKS", self.head_vectors / CHUNK)
            .with_count("KEYS", self.keys)
            .with_count("TILES", self.keys / 16);
        // A thread's vectors of a chunk, and of a row of scores, and the exchanges between those that share a row.
        variant
            .with_count("HELD", CHUNK / per_row)
            .with_count("SCORES", self.keys / 4 / per_row)
            .with_count("EXCHANGES", per_row.ilog2())
    }
}

/// Every tile fits workgroup memory.
const _: () = {
    let mut i = 0;
    while i < TILES.len() {
        let mut j = 0;
        while j < TILES[i].len() {
            let most = if TILES[i][j].subgroups == 4 { COOPERATIVE_MATRIX_MEMORY } else { 32 * 1024 };
            assert!(TILES[i][j].memory() <= most, "a tile is larger than workgroup memory");
            j += 1;
        }
        i += 1;
    }
};

fn variants() -> Vec<Variant> {
    Matrices::SAMPLES.into_iter().filter(|matrices| matrices.lanes.are_whole()).flat_map(variants_of).collect()
}

fn variants_of(matrices: Matrices) -> Vec<Variant> {
    let tiles = TILES.iter().flat_map(|tiles| tiles.iter());
    let heads = |head_vectors| {
        HeadConfig::rotated(head_vectors).into_iter().chain([HeadConfig {
            head_vectors,
            rotation: Rotation::None,
            f16_cache: false,
        }])
    };
    tiles.flat_map(|tile| heads(tile.head_vectors).map(|heads| tile.variant(matrices, heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_dims_64_and_128_have_tiles() {
        let caps = Caps { cooperative_matrix: true, workgroup_memory: 48 * 1024, ..Caps::PORTABLE };
        let rows = |caps, head_vectors| Tile::of(caps, head_vectors).iter().map(|(tile, _)| tile.rows()).collect::<Vec<_>>();
        assert_eq!((rows(caps, 16), rows(caps, 32)), (vec![64, 128], vec![64]));
        let small = Caps { workgroup_memory: 32 * 1024, ..caps };
        assert_eq!((rows(small, 16), rows(small, 32)), (vec![32, 64], vec![32]));
        for head_vectors in [1, 8, 15, 17, 20, 64] {
            assert!(Tile::of(caps, head_vectors).is_empty(), "{head_vectors} vectors");
        }
        for (matrix_subgroup_size, served) in [((16, 16), true), ((64, 64), true), ((8, 8), false), ((32, 64), false)] {
            let caps = Caps { matrix_subgroup_size, ..caps };
            assert_eq!(Tile::of(caps, 16).is_empty(), !served, "{matrix_subgroup_size:?}");
        }
        for without in [Caps { cooperative_matrix: false, ..caps }, Caps { workgroup_memory: 16 * 1024, ..caps }] {
            assert!(Tile::of(without, 16).is_empty(), "{without:?}");
        }
    }

    #[test]
    fn naga_writes_every_tile_for_every_device() {
        let served = |matrices: &Matrices| matrices.lanes.are_whole() && matrices.lanes.count >= 16;
        for matrices in coop_matrix::every().into_iter().filter(served) {
            variants_of(matrices).iter().for_each(|variant| coop_matrix::check_shaders(matrices, variant));
        }
    }
}
