//! Tuning: selects among kernels with the same results, where only a measurement can show which is fastest.

use crate::plan::{Caps, GridKind};

/// A selection among kernels with the same results. The default suits large GPUs; `pteron tune` measures others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Subgroup kernels, where the device has subgroups.
    pub subgroups: bool,
    /// Cooperative matrix kernels, where the device has them and [`Precision`](crate::engine::Precision) allows them.
    pub cooperative_matrix: bool,
    /// 8-bit dot products of few rows, where the device has subgroups and instructions for them.
    pub int8_dot: bool,
    /// The number of workgroups that occupy the device.
    pub fill: Fill,
    /// The same for products of few rows alone, relative to `fill`: more workgroups compute fewer columns each, or have more threads.
    pub gemv: Fill,
    /// For products of many rows: more workgroups have smaller tiles.
    pub tiles: Fill,
    /// For products that share k: more workgroups or subgroups take part.
    pub split_k: Fill,
    /// For attention: more workgroups share the context.
    pub split_kv: Fill,
}

impl Default for Tuning {
    fn default() -> Self {
        let [fill, gemv, tiles, split_k, split_kv] = [Fill::default(); 5];
        Self { subgroups: true, cooperative_matrix: true, int8_dot: true, fill, gemv, tiles, split_k, split_kv }
    }
}

impl Tuning {
    /// The capabilities of a device that may be used.
    pub(crate) fn of(self, caps: Caps) -> Caps {
        let percent = |kind: GridKind| {
            let fill = match kind {
                GridKind::Gemv => self.gemv,
                GridKind::Tiles => self.tiles,
                GridKind::SplitK => self.split_k,
                GridKind::SplitKv => self.split_kv,
            };
            caps.grid_percent[kind as usize] * fill.percent() / 100
        };
        Caps {
            subgroups: caps.subgroups && self.subgroups,
            cooperative_matrix: caps.cooperative_matrix && self.cooperative_matrix,
            int8_dot: caps.int8_dot && self.int8_dot,
            fill_percent: caps.fill_percent * self.fill.percent() / 100,
            grid_percent: GridKind::ALL.map(percent),
            ..caps
        }
    }
}

/// Workgroups that occupy a device, relative to a large GPU: with more, work is split finer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// A quarter.
    Quarter,
    /// As many.
    #[default]
    Same,
    /// Four times as many.
    Fourfold,
}

impl Fill {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Quarter, Self::Same, Self::Fourfold];

    /// As a percentage.
    #[must_use]
    pub fn percent(self) -> u32 {
        match self {
            Self::Quarter => 25,
            Self::Same => 100,
            Self::Fourfold => 400,
        }
    }

    /// The value of a percentage, if there is one.
    #[must_use]
    pub fn from_percent(percent: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|fill| fill.percent() == percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_takes_away_and_never_gives() {
        let able =
            Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, int8_dot: true, ..Caps::PORTABLE };
        let usual = Tuning::default();
        assert_eq!((usual.of(able), usual.of(Caps::PORTABLE)), (able, Caps::PORTABLE));
        let without = Tuning { subgroups: false, ..usual };
        assert_eq!(without.of(able), Caps { subgroups: false, ..able });
        let exact = Tuning { cooperative_matrix: false, ..usual };
        assert_eq!(exact.of(able), Caps { cooperative_matrix: false, ..able });
        assert_eq!(exact.of(Caps::PORTABLE), Caps::PORTABLE);
        let floats = Tuning { int8_dot: false, ..usual };
        assert_eq!(floats.of(able), Caps { int8_dot: false, ..able });
    }

    #[test]
    fn grids_are_scaled_and_never_empty() {
        for (fill, expected) in [(Fill::Quarter, 256), (Fill::Same, 1024), (Fill::Fourfold, 4096)] {
            let caps = Tuning { fill, ..Tuning::default() }.of(Caps::PORTABLE);
            for kind in GridKind::ALL {
                assert_eq!((caps.filled(kind, 1024), caps.filled(kind, u32::MAX) > 1 << 29), (expected, true));
                assert!(caps.filled(kind, 1) >= 1 && caps.filled(kind, 0) >= 1);
            }
            assert_eq!(Fill::from_percent(fill.percent()), Some(fill));
        }
        assert_eq!(Fill::from_percent(50), None);
    }

    #[test]
    fn kinds_of_grids_are_tuned_apart() {
        let usual = Tuning::default();
        let tunings = [
            Tuning { gemv: Fill::Quarter, ..usual },
            Tuning { tiles: Fill::Quarter, ..usual },
            Tuning { split_k: Fill::Quarter, ..usual },
            Tuning { split_kv: Fill::Quarter, ..usual },
        ];
        for (tuning, tuned) in tunings.into_iter().zip(GridKind::ALL) {
            let caps = Tuning { fill: Fill::Fourfold, ..tuning }.of(Caps::PORTABLE);
            for kind in GridKind::ALL {
                assert_eq!(caps.fill(kind), if kind == tuned { 100 } else { 400 }, "{kind:?}");
            }
        }
    }
}
