//! A few rows on a device whose subgroups have one size: their threads read keys and values together, and meet at the end.

use super::flash::{Heads, Params};
use super::selection::Spread;
use super::{INCLUDES, reach};
use crate::kernel::{KernelDef, Variant};
use crate::plan::Caps;

pub(super) static FEW_SUBGROUPS: KernelDef =
    KernelDef::new("sdpa_flash_decode_subgroups", include_str!("sdpa_flash_decode_subgroups.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(variants)
        .with_subgroups()
        .proven(reach::sweep);

/// Vectors of a key that a thread can hold: with more, other kernels do better.
const MOST_VECTORS: u32 = 4;

/// Vectors of keys, and as many of values, that a thread reads before it uses them.
const READ: u32 = 4;

/// How threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Team {
    lanes: u32,
    pub(super) rows: u32,
    subgroup: u32,
    threads: u32,
    /// Threads that have a position together.
    team: u32,
}

impl Team {
    /// For workgroups of so many rows of heads of so many vectors; none where the portable kernel must do.
    pub(super) fn of(caps: Caps, lanes: u32, rows: u32) -> Option<Self> {
        let subgroup = caps.subgroup().filter(|&lanes| lanes <= 64)?;
        // With more rows a thread holds more vectors: sums over few threads take fewer steps for each row.
        let (threads, wanted) = if rows <= 4 { (256, 1) } else { (128, 2) };
        let most = subgroup.min((lanes / wanted).max(1));
        let team = 1 << lanes.trailing_zeros().min(most.ilog2());
        let with = |threads| Self { lanes, rows, subgroup, threads, team };
        let fits = |team: &Self| team.vectors() <= MOST_VECTORS && team.memory() <= caps.workgroup_memory;
        [threads, threads / 2].into_iter().map(with).find(fits)
    }

    /// How workgroups spread over a GPU.
    pub(super) const SPREAD: Spread = Spread { grid: 256, least: 64, alone: 256 };

    fn vectors(self) -> u32 {
        self.lanes / self.team
    }

    /// Bytes of workgroup memory: what each subgroup has of each row in the end.
    fn memory(self) -> u32 {
        self.threads / self.subgroup * self.rows * (self.lanes * 16 + 8)
    }

    pub(super) fn variant(self, heads: Heads) -> Variant {
        heads
            .with_caches(Variant::new(&FEW_SUBGROUPS))
            .with_count("THREADS", self.threads)
            .with_count("SUBGROUP", self.subgroup)
            .with_count("TEAM", self.team)
            .with_count("VECTORS", self.vectors())
            .with_count("ROWS", self.rows)
            .with_count("UNROLL", (READ / self.vectors()).max(1))
    }
}

fn variants() -> Vec<Variant> {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    let teams = [16, 32, 12].into_iter().flat_map(|lanes| [4, 8].map(|rows| Team::of(caps, lanes, rows)));
    teams.flatten().flat_map(|team| Heads::rotated(team.lanes).map(|heads| team.variant(heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(subgroup: u32) -> Caps {
        Caps { subgroups: true, subgroup_size: (subgroup, subgroup), workgroup_memory: 32 * 1024, ..Caps::PORTABLE }
    }

    #[test]
    fn teams_divide_heads_and_subgroups() {
        let team = |subgroup, lanes, rows| Team::of(caps(subgroup), lanes, rows).map(|team| (team.threads, team.team));
        assert_eq!(team(32, 16, 4), Some((256, 16)));
        assert_eq!(team(32, 16, 8), Some((128, 8)));
        assert_eq!(team(32, 32, 4), Some((256, 32)));
        assert_eq!(team(32, 32, 8), Some((128, 16)));
        assert_eq!(team(32, 12, 8), Some((128, 4)));
        assert_eq!(team(32, 1, 8), Some((128, 1)));
        assert_eq!(team(64, 64, 4), Some((256, 64)));
        // Small subgroups leave more sums to add up than there is memory for.
        assert_eq!(team(8, 16, 4), Some((128, 8)));
        assert_eq!(team(8, 32, 8), None);
        // Vectors enough for a head of an odd length are too many for a thread.
        assert_eq!(team(32, 20, 4), None);
    }

    #[test]
    fn subgroups_of_any_size_are_left_to_the_portable_kernel() {
        assert_eq!(Team::of(Caps { subgroup_size: (8, 32), ..caps(8) }, 16, 4), None);
        assert_eq!(Team::of(Caps { subgroups: false, ..caps(32) }, 16, 4), None);
        assert_eq!(Team::of(caps(0), 16, 4), None);
        assert_eq!(Team::of(caps(128), 16, 4), None);
    }
}
