//! The flash attention kernels of a device, and the selection among them for a call.

use super::flash::{DECODE_4, DECODE_8, HeadConfig, Tile};
use super::flash_coop_matrix;
use super::flash_decode::SubgroupTile;
use crate::coop_matrix::Matrices;
use crate::kernel::Variant;
use crate::plan::{Caps, GridKind};

/// A flash attention kernel with its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashKernel {
    Portable(Tile),
    Subgroups(SubgroupTile),
    CoopMatrix(flash_coop_matrix::Tile, Matrices),
}

/// When the context is split over workgroups, whose partial results another dispatch combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitPolicy {
    /// Workgroups that occupy a large GPU: if rows and heads give fewer, the context is split.
    pub(super) full_grid: u32,
    /// The fewest keys per split: fewer are not worth a workgroup.
    pub(super) min_keys: u32,
    /// Up to this many keys the context is not split: a second dispatch would cost more.
    pub(super) unsplit_keys: u32,
}

impl SplitPolicy {
    /// The splits of a context and the keys of each, where a split has `groups` workgroups.
    pub(super) fn split(self, groups: u32, context: u32) -> (u32, u32) {
        let blocks = context.div_ceil(self.min_keys).max(1);
        let most = if context <= self.unsplit_keys { 1 } else { self.full_grid.div_ceil(groups.max(1)).min(blocks) };
        let split_keys = blocks.div_ceil(most) * self.min_keys;
        (context.div_ceil(split_keys).max(1), split_keys)
    }
}

/// Up to this many query rows per KV head, the decode tiles run.
const MAX_DECODE_ROWS: u32 = 32;

/// The same where cooperative matrix kernels take more rows.
const MAX_DECODE_ROWS_COOP_MATRIX: u32 = 16;

/// From this product of workgroups and keys on, a large GPU is faster with fewer workgroups of larger tiles.
const LARGE_GRID_WORK: u64 = 1 << 18;

impl FlashKernel {
    /// The kernels of a device for heads of `head_vectors` vectors, in order of rows per tile. Those with decode tiles come first.
    pub(super) fn available(caps: Caps, head_vectors: u32, f16_cache: bool) -> Vec<Self> {
        let subgroups = |rows| SubgroupTile::of(caps, head_vectors, f16_cache, rows).map(Self::Subgroups);
        let decode = |tile: Tile| subgroups(tile.rows).unwrap_or(Self::Portable(tile));
        let one_row = SubgroupTile::one_row(caps, head_vectors, f16_cache).map(Self::Subgroups);
        let coop_matrix = flash_coop_matrix::Tile::of(caps, head_vectors);
        let prefill = coop_matrix.iter().map(|&(tile, matrices)| Self::CoopMatrix(tile, matrices));
        let portable = coop_matrix.is_empty().then(|| Self::Portable(Tile::prefill(head_vectors)));
        one_row.into_iter().chain([decode(DECODE_4), decode(DECODE_8)]).chain(prefill).chain(portable).collect()
    }

    /// Selects the kernel for `rows` rows per KV head; returns its index among the device's.
    pub(super) fn select(kernels: &[Self], heads: u32, rows: u32, context: u32) -> usize {
        // The last two with decode tiles take four and eight rows.
        let decode_kernels = kernels.iter().take_while(|kernel| kernel.appends_kv()).count();
        let decode =
            if matches!(kernels.last(), Some(Self::CoopMatrix(..))) { MAX_DECODE_ROWS_COOP_MATRIX } else { MAX_DECODE_ROWS };
        match rows {
            rows if rows <= DECODE_4.rows => match kernels.first() {
                Some(Self::Subgroups(tile)) if tile.short_context.is_some_and(|longest| context <= longest) => 0,
                _ => decode_kernels - 2,
            },
            rows if rows <= decode => decode_kernels - 1,
            _ => {
                let groups = |kernel: &Self| u64::from(heads) * u64::from(rows / kernel.rows());
                let large = |kernel: &Self| groups(kernel).saturating_mul(context.into()) >= LARGE_GRID_WORK;
                kernels.iter().rposition(large).unwrap_or(0).max(decode_kernels)
            }
        }
    }

    /// Query rows per workgroup.
    pub(super) fn rows(&self) -> u32 {
        match self {
            Self::Portable(tile) => tile.rows,
            Self::Subgroups(tile) => tile.rows,
            Self::CoopMatrix(tile, _) => tile.rows(),
        }
    }

    pub(super) fn split_policy(&self, caps: Caps) -> SplitPolicy {
        let policy = match self {
            Self::Portable(_) => Tile::SPLIT,
            Self::Subgroups(tile) => tile.split_policy(),
            Self::CoopMatrix(..) => flash_coop_matrix::Tile::SPLIT,
        };
        SplitPolicy { full_grid: caps.filled(GridKind::SplitKv, policy.full_grid), ..policy }
    }

    /// Whether workgroups append new keys and values to the caches themselves. Prefill kernels find them in the caches: a dispatch
    /// before them rotates and appends each once.
    pub(super) fn appends_kv(&self) -> bool {
        match self {
            Self::Portable(tile) => tile.appends_kv(),
            Self::Subgroups(_) => true,
            Self::CoopMatrix(..) => false,
        }
    }

    /// The variant for heads of as many vectors as the kernel was created for.
    pub(super) fn variant(&self, heads: HeadConfig) -> Variant {
        match self {
            Self::Portable(tile) => tile.variant(heads),
            Self::Subgroups(tile) => tile.variant(heads),
            Self::CoopMatrix(tile, matrices) => tile.variant(*matrices, heads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flash::Rotation;
    use super::*;

    /// The label of the kernel selected for a call, and its rows per workgroup.
    fn selected(caps: Caps, head_vectors: u32, rows: u32, context: u32) -> (&'static str, u32) {
        let kernels = FlashKernel::available(caps, head_vectors, false);
        let kernel = kernels[FlashKernel::select(&kernels, 8, rows, context)];
        (kernel.variant(HeadConfig { head_vectors, rotation: Rotation::None, f16_cache: false }).label, kernel.rows())
    }

    #[test]
    fn the_fastest_kernel_of_the_device_is_selected() {
        let subgroups = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
        let coop_matrix = Caps { cooperative_matrix: true, workgroup_memory: 48 * 1024, ..subgroups };
        for (caps, rows, context, expected) in [
            (Caps::PORTABLE, 4, 9000, ("sdpa_flash", 4)),
            (Caps::PORTABLE, 32, 9000, ("sdpa_flash", 8)),
            (Caps::PORTABLE, 33, 9, ("sdpa_flash", 32)),
            (subgroups, 4, 384, ("sdpa_flash_decode_subgroups", 1)),
            (subgroups, 4, 385, ("sdpa_flash_decode_subgroups", 4)),
            (subgroups, 5, 9, ("sdpa_flash_decode_subgroups", 8)),
            (Caps { software: true, ..subgroups }, 4, 9, ("sdpa_flash_decode_subgroups", 4)),
            (subgroups, 32, 9000, ("sdpa_flash_decode_subgroups", 8)),
            (subgroups, 33, 9, ("sdpa_flash", 32)),
            (coop_matrix, 4, 9000, ("sdpa_flash_decode_subgroups", 4)),
            (coop_matrix, 16, 9000, ("sdpa_flash_decode_subgroups", 8)),
            (coop_matrix, 17, 9000, ("sdpa_flash_coop_matrix", 64)),
            (coop_matrix, 2048, 512, ("sdpa_flash_coop_matrix", 64)),
            (coop_matrix, 2048, 4096, ("sdpa_flash_coop_matrix", 128)),
            (coop_matrix, 4096, 1024, ("sdpa_flash_coop_matrix", 128)),
        ] {
            assert_eq!(selected(caps, 16, rows, context), expected, "{rows} rows over {context} on {caps:?}");
        }
        assert_eq!(selected(coop_matrix, 32, 8192, 2048), ("sdpa_flash_coop_matrix", 64));
        assert_eq!(selected(coop_matrix, 64, 8192, 2048), ("sdpa_flash", 8));
    }
}
