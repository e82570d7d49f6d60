//! Split-KV decode with subgroup operations: for one to eight query rows, on devices with one subgroup size.

use super::flash::{HeadConfig, Params};
use super::selection::SplitPolicy;
use super::{INCLUDES, reach};
use crate::kernel::{KernelDef, Variant};
use crate::plan::Caps;

pub(super) static SUBGROUPS_KERNEL: KernelDef =
    KernelDef::new("sdpa_flash_decode_subgroups", include_str!("sdpa_flash_decode_subgroups.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(variants)
        .with_subgroups()
        .proven(reach::flash);

/// The most vectors of a key per thread: with more, the portable kernel is faster.
const MAX_VECTORS: u32 = 4;

/// Vectors of keys, and as many of values, that a thread loads before it uses them.
const VECTORS_IN_FLIGHT: u32 = 4;

/// Tile of a workgroup, and how its threads share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubgroupTile {
    head_vectors: u32,
    pub(super) rows: u32,
    subgroup: u32,
    threads: u32,
    /// Threads that share a key.
    threads_per_key: u32,
}

impl SubgroupTile {
    /// The tile for these numbers of query rows and vectors per head; `None` where only the portable kernel runs.
    pub(super) fn of(caps: Caps, head_vectors: u32, rows: u32) -> Option<Self> {
        let subgroup = caps.subgroup().filter(|&head_vectors| head_vectors <= 64)?;
        // With more rows a thread holds more vectors: fewer shuffles per row and key.
        let (threads, wanted) = if rows <= 4 { (256, 1) } else { (128, 2) };
        let most = subgroup.min((head_vectors / wanted).max(1));
        let threads_per_key = 1 << head_vectors.trailing_zeros().min(most.ilog2());
        let with = |threads| Self { head_vectors, rows, subgroup, threads, threads_per_key };
        let fits = |tile: &Self| tile.vectors() <= MAX_VECTORS && tile.memory() <= caps.workgroup_memory;
        [threads, threads / 2].into_iter().map(with).find(fits)
    }

    /// When the context is split.
    pub(super) const SPLIT: SplitPolicy = SplitPolicy { full_grid: 256, min_keys: 64, unsplit_keys: 256 };

    fn vectors(self) -> u32 {
        self.head_vectors / self.threads_per_key
    }

    /// Bytes of workgroup memory: a partial result per row and subgroup.
    fn memory(self) -> u32 {
        self.threads / self.subgroup * self.rows * (self.head_vectors * 16 + 8)
    }

    pub(super) fn variant(self, heads: HeadConfig) -> Variant {
        heads
            .with_caches(Variant::new(&SUBGROUPS_KERNEL))
            .with_count("THREADS", self.threads)
            .with_count("SUBGROUP", self.subgroup)
            .with_count("THREADS_PER_KEY", self.threads_per_key)
            .with_count("VECTORS", self.vectors())
            .with_count("ROWS", self.rows)
            .with_count("UNROLL", (VECTORS_IN_FLIGHT / self.vectors()).max(1))
    }
}

fn variants() -> Vec<Variant> {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    let tiles =
        [16, 32, 12].into_iter().flat_map(|head_vectors| [4, 8].map(|rows| SubgroupTile::of(caps, head_vectors, rows)));
    tiles.flatten().flat_map(|tile| HeadConfig::rotated(tile.head_vectors).map(|heads| tile.variant(heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(subgroup: u32) -> Caps {
        Caps { subgroups: true, subgroup_size: (subgroup, subgroup), workgroup_memory: 32 * 1024, ..Caps::PORTABLE }
    }

    #[test]
    fn threads_per_key_divide_heads_and_subgroups() {
        let tile = |subgroup, head_vectors, rows| {
            SubgroupTile::of(caps(subgroup), head_vectors, rows).map(|tile| (tile.threads, tile.threads_per_key))
        };
        assert_eq!(tile(32, 16, 4), Some((256, 16)));
        assert_eq!(tile(32, 16, 8), Some((128, 8)));
        assert_eq!(tile(32, 32, 4), Some((256, 32)));
        assert_eq!(tile(32, 32, 8), Some((128, 16)));
        assert_eq!(tile(32, 12, 8), Some((128, 4)));
        assert_eq!(tile(32, 1, 8), Some((128, 1)));
        assert_eq!(tile(64, 64, 4), Some((256, 64)));
        // Small subgroups leave more partial results than workgroup memory holds.
        assert_eq!(tile(8, 16, 4), Some((128, 8)));
        assert_eq!(tile(8, 32, 8), None);
        // A head of 5 × 4 vectors leaves too many of them per thread.
        assert_eq!(tile(32, 20, 4), None);
    }

    #[test]
    fn varying_subgroup_sizes_get_the_portable_kernel() {
        assert_eq!(SubgroupTile::of(Caps { subgroup_size: (8, 32), ..caps(8) }, 16, 4), None);
        assert_eq!(SubgroupTile::of(Caps { subgroups: false, ..caps(32) }, 16, 4), None);
        assert_eq!(SubgroupTile::of(caps(0), 16, 4), None);
        assert_eq!(SubgroupTile::of(caps(128), 16, 4), None);
    }
}
