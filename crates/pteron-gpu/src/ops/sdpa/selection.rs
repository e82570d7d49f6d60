//! The kernels that sweep over the context, and which of them a device and a call get.

use super::flash::{FEW, FEWEST, Heads, Tile};
use super::flash_coop_matrix;
use super::flash_decode::Team;
use crate::kernel::Variant;
use crate::plan::Caps;

/// A kernel that sweeps over the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sweep {
    Portable(Tile),
    Subgroups(Team),
    Matrices(flash_coop_matrix::Tile),
}

/// When the context is cut into parts, whose sums another dispatch adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Workgroups that fill a large GPU: where rows and heads give fewer, there are parts.
    pub(super) grid: u32,
    /// The least positions of a part: less is not worth a workgroup.
    pub(super) least: u32,
    /// Up to so many positions there is one part: less is not worth a dispatch.
    pub(super) alone: u32,
}

/// Up to so many rows of a KV head, workgroups hold few of them.
const FEW_ROWS: u32 = 32;

/// The same where matrices take more.
const FEW_ROWS_WITH_MATRICES: u32 = 16;

/// How many kernels hold few rows: those at the front of a device's list.
const FEW_SWEEPS: usize = 2;

/// From so many workgroups on, each counted as often as there are positions, a large GPU is better off with fewer that hold more.
const MUCH: u64 = 1 << 18;

impl Sweep {
    /// The kernels that a device has for heads of so many vectors, fewer rows first.
    pub(super) fn all(caps: Caps, lanes: u32) -> Vec<Self> {
        let few = |tile: Tile| Team::of(caps, lanes, tile.rows).map_or(Self::Portable(tile), Self::Subgroups);
        let matrices = flash_coop_matrix::Tile::of(caps, lanes);
        let many = matrices.iter().map(|&tile| Self::Matrices(tile));
        let portable = matrices.is_empty().then(|| Self::Portable(Tile::many(lanes)));
        [few(FEWEST), few(FEW)].into_iter().chain(many).chain(portable).collect()
    }

    /// Which of a device's kernels takes so many rows of each KV head.
    pub(super) fn choose(sweeps: &[Self], heads: u32, rows: u32, context: u32) -> usize {
        let few = if matches!(sweeps.last(), Some(Self::Matrices(_))) { FEW_ROWS_WITH_MATRICES } else { FEW_ROWS };
        match rows {
            rows if rows <= FEWEST.rows => 0,
            rows if rows <= few => 1,
            _ => {
                let groups = |sweep: &Self| u64::from(heads) * u64::from(rows / sweep.rows());
                let much = |sweep: &Self| groups(sweep).saturating_mul(context.into()) >= MUCH;
                sweeps.iter().rposition(much).unwrap_or(0).max(FEW_SWEEPS)
            }
        }
    }

    /// Rows that a workgroup holds.
    pub(super) fn rows(&self) -> u32 {
        match self {
            Self::Portable(tile) => tile.rows,
            Self::Subgroups(team) => team.rows,
            Self::Matrices(tile) => tile.rows(),
        }
    }

    pub(super) fn spread(&self, caps: Caps) -> Spread {
        let spread = match self {
            Self::Portable(_) => Tile::SPREAD,
            Self::Subgroups(_) => Team::SPREAD,
            Self::Matrices(_) => flash_coop_matrix::Tile::SPREAD,
        };
        Spread { grid: caps.filled(spread.grid), ..spread }
    }

    /// Whether workgroups write new keys and values themselves. Where many read them they are turned and written once, before.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::Portable(tile) => tile.writes(),
            Self::Subgroups(_) => true,
            Self::Matrices(_) => false,
        }
    }

    /// Its kernel for heads of as many vectors as it was made for.
    pub(super) fn variant(&self, heads: Heads) -> Variant {
        match self {
            Self::Portable(tile) => tile.variant(heads),
            Self::Subgroups(team) => team.variant(heads),
            Self::Matrices(tile) => tile.variant(heads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The label of the kernel that a call gets, and the rows it holds.
    fn chosen(caps: Caps, lanes: u32, rows: u32, context: u32) -> (&'static str, u32) {
        let sweeps = Sweep::all(caps, lanes);
        let sweep = sweeps[Sweep::choose(&sweeps, 8, rows, context)];
        (sweep.variant(Heads { lanes, rotated: false, halves: false }).label, sweep.rows())
    }

    #[test]
    fn devices_get_the_best_they_have() {
        let subgroups = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
        let matrices = Caps { cooperative_matrix: true, ..subgroups };
        for (caps, rows, context, expected) in [
            (Caps::PORTABLE, 4, 9000, ("sdpa_flash", 4)),
            (Caps::PORTABLE, 32, 9000, ("sdpa_flash", 8)),
            (Caps::PORTABLE, 33, 9, ("sdpa_flash", 32)),
            (subgroups, 4, 9000, ("sdpa_flash_decode_subgroups", 4)),
            (subgroups, 32, 9000, ("sdpa_flash_decode_subgroups", 8)),
            (subgroups, 33, 9, ("sdpa_flash", 32)),
            (matrices, 4, 9000, ("sdpa_flash_decode_subgroups", 4)),
            (matrices, 16, 9000, ("sdpa_flash_decode_subgroups", 8)),
            (matrices, 17, 9000, ("sdpa_flash_coop_matrix", 64)),
            (matrices, 2048, 512, ("sdpa_flash_coop_matrix", 64)),
            (matrices, 2048, 4096, ("sdpa_flash_coop_matrix", 128)),
            (matrices, 4096, 1024, ("sdpa_flash_coop_matrix", 128)),
        ] {
            assert_eq!(chosen(caps, 16, rows, context), expected, "{rows} rows over {context} on {caps:?}");
        }
        assert_eq!(chosen(matrices, 32, 8192, 2048), ("sdpa_flash_coop_matrix", 64));
        assert_eq!(chosen(matrices, 64, 8192, 2048), ("sdpa_flash", 8));
    }
}
