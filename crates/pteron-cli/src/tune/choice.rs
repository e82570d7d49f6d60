//! Alternatives to the default tuning, and the choice among them: one setting after another, each on top of those that won before.

use pteron::{Fill, Tuning};
use pteron_gpu::plan::Caps;
use serde::Serialize;

use crate::bench::Workload;

/// The speed-up an alternative needs in the geometric mean, and in each test: less may be noise.
const LEAST_MEAN: f64 = 1.03;
const LEAST_EACH: f64 = 0.97;

/// Speed relative to the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct SpeedUps {
    pub(super) prefill: f64,
    pub(super) decode: f64,
}

impl SpeedUps {
    fn mean(self) -> f64 {
        (self.prefill * self.decode).sqrt()
    }

    fn loses(self) -> bool {
        // A speed-up that is no number loses, too.
        [self.prefill, self.decode].iter().any(|&each| each.is_nan() || each < LEAST_EACH)
    }

    /// Whether it beats the baseline.
    pub(super) fn wins(self) -> bool {
        self.mean() >= LEAST_MEAN && !self.loses()
    }
}

/// Whether a tuning beats the defaults: in one workload, and it loses in none.
pub(super) fn wins_together(speed_ups: &[SpeedUps]) -> bool {
    speed_ups.iter().any(|each| each.wins()) && !speed_ups.iter().any(|each| each.loses())
}

/// A setting, in the order in which they are tried: the first ones select kernels, the others their grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    Subgroups,
    CooperativeMatrix,
    Int8Dot,
    Fill,
    Gemv,
    Tiles,
    SplitK,
    SplitKv,
}

impl Knob {
    const ALL: [Self; 8] = [
        Self::Subgroups,
        Self::CooperativeMatrix,
        Self::Int8Dot,
        Self::Fill,
        Self::Gemv,
        Self::Tiles,
        Self::SplitK,
        Self::SplitKv,
    ];

    /// The settings that make a difference on a device.
    pub(super) fn of(caps: Caps) -> impl Iterator<Item = Self> {
        let applies = move |knob: &Self| match knob {
            Self::Subgroups => caps.lanes().is_some(),
            Self::CooperativeMatrix => caps.cooperative_matrix,
            Self::Int8Dot => caps.lanes().is_some() && caps.int8_dot && !caps.software,
            Self::Fill | Self::SplitKv => true,
            // Software adapters run linears serially, whatever the grid.
            Self::Gemv | Self::Tiles => !caps.software,
            Self::SplitK => caps.cooperative_matrix,
        };
        Self::ALL.into_iter().filter(applies)
    }

    /// The calls that show its effect.
    pub(super) fn workload(self) -> Workload {
        match self {
            Self::SplitK => Workload::FEW_ROWS,
            Self::SplitKv => Workload::LONG_CONTEXT,
            _ => Workload::USUAL,
        }
    }

    /// The tunings that differ from the best one so far in this setting.
    pub(super) fn alternatives(self, best: Tuning) -> Vec<Tuning> {
        let usual = Tuning::default();
        let fills = |set: fn(Tuning, Fill) -> Tuning| {
            let other = Fill::ALL.into_iter().filter(|&fill| fill != Fill::default());
            other.map(|fill| set(best, fill)).filter(|tuning| *tuning != best).collect()
        };
        // Without subgroups there are no kernels with matrices or 8-bit dot products to switch off.
        match self {
            Self::Subgroups => vec![Tuning { subgroups: false, ..best }],
            Self::CooperativeMatrix => vec![Tuning { cooperative_matrix: false, ..best }],
            Self::Int8Dot if best.subgroups == usual.subgroups => vec![Tuning { int8_dot: false, ..best }],
            Self::Int8Dot => Vec::new(),
            Self::Fill => fills(|best, fill| Tuning { fill, ..best }),
            Self::Gemv => fills(|best, gemv| Tuning { gemv, ..best }),
            Self::Tiles => fills(|best, tiles| Tuning { tiles, ..best }),
            Self::SplitK if best.cooperative_matrix => fills(|best, split_k| Tuning { split_k, ..best }),
            Self::SplitK => Vec::new(),
            Self::SplitKv => fills(|best, split_kv| Tuning { split_kv, ..best }),
        }
    }

    /// Describes the value that a tuning has, if it differs from the default.
    pub(super) fn describe(self, tuning: Tuning) -> Option<String> {
        let off = |used: bool, text: &str| (!used).then(|| text.to_owned());
        let fill = |fill: Fill, name: &str| (fill != Fill::default()).then(|| format!("{name} {} %", fill.percent()));
        match self {
            Self::Subgroups => off(tuning.subgroups, "no subgroups"),
            Self::CooperativeMatrix => off(tuning.cooperative_matrix, "no cooperative matrix"),
            Self::Int8Dot => off(tuning.int8_dot, "no 8-bit dot products"),
            Self::Fill => fill(tuning.fill, "fill"),
            Self::Gemv => fill(tuning.gemv, "GEMV"),
            Self::Tiles => fill(tuning.tiles, "tiles"),
            Self::SplitK => fill(tuning.split_k, "split-K"),
            Self::SplitKv => fill(tuning.split_kv, "split-KV"),
        }
    }
}

/// Describes how a tuning differs from the defaults.
pub(super) fn describe(tuning: Tuning) -> String {
    let all: Vec<String> = Knob::ALL.into_iter().filter_map(|knob| knob.describe(tuning)).collect();
    if all.is_empty() { "the defaults".to_owned() } else { all.join(", ") }
}

/// A measured alternative.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) knob: Knob,
    pub(super) tuning: Tuning,
    pub(super) workload: Workload,
    pub(super) speed_ups: SpeedUps,
    pub(super) taken: bool,
}

/// Marks the alternative of one setting that wins by most, if any wins, and returns it.
pub(super) fn take(trials: &mut [Trial]) -> Option<Tuning> {
    let winners = trials.iter_mut().filter(|trial| trial.speed_ups.wins());
    let best = winners.max_by(|one, other| one.speed_ups.mean().total_cmp(&other.speed_ups.mean()))?;
    best.taken = true;
    Some(best.tuning)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABLE: Caps =
        Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, int8_dot: true, ..Caps::PORTABLE };

    #[test]
    fn only_supported_settings_are_tried() {
        let tried = |caps| {
            let tunings = Knob::of(caps).flat_map(|knob| knob.alternatives(Tuning::default()));
            tunings.map(describe).collect::<Vec<_>>().join("; ")
        };
        let fills = "GEMV 25 %; GEMV 400 %; tiles 25 %; tiles 400 %";
        assert_eq!(
            tried(ABLE),
            format!(
                "no subgroups; no cooperative matrix; no 8-bit dot products; fill 25 %; fill 400 %; {fills}; \
                 split-K 25 %; split-K 400 %; split-KV 25 %; split-KV 400 %"
            )
        );
        assert_eq!(tried(Caps::PORTABLE), format!("fill 25 %; fill 400 %; {fills}; split-KV 25 %; split-KV 400 %"));
        let software = Caps { software: true, cooperative_matrix: false, subgroup_size: (8, 8), ..ABLE };
        assert_eq!(tried(software), "no subgroups; fill 25 %; fill 400 %; split-KV 25 %; split-KV 400 %");
        assert_eq!(describe(Tuning::default()), "the defaults");
        assert_eq!(
            describe(Tuning { subgroups: false, cooperative_matrix: false, fill: Fill::Quarter, ..Tuning::default() }),
            "no subgroups, no cooperative matrix, fill 25 %"
        );
    }

    #[test]
    fn settings_are_tried_on_top_of_those_that_won() {
        let best = Tuning { fill: Fill::Fourfold, ..Tuning::default() };
        assert!(Knob::ALL.into_iter().flat_map(|knob| knob.alternatives(best)).all(|tuning| tuning != best));
        assert_eq!(Knob::Tiles.alternatives(best).map_describe(), ["fill 400 %, tiles 25 %", "fill 400 %, tiles 400 %"]);
        // Kernels that no longer run are not tried.
        assert_eq!(Knob::Int8Dot.alternatives(Tuning { subgroups: false, ..best }), []);
        assert_eq!(Knob::SplitK.alternatives(Tuning { cooperative_matrix: false, ..best }), []);
    }

    trait Describe {
        fn map_describe(self) -> Vec<String>;
    }

    impl Describe for Vec<Tuning> {
        fn map_describe(self) -> Vec<String> {
            self.into_iter().map(describe).collect()
        }
    }

    #[test]
    fn an_alternative_wins_by_its_mean_and_loses_by_its_worst() {
        let wins = |prefill, decode| SpeedUps { prefill, decode }.wins();
        assert!(wins(1.03, 1.031) && wins(0.98, 1.1) && wins(1.2, 0.97));
        assert!(!wins(1.02, 1.03) && !wins(0.96, 2.0) && !wins(2.0, 0.96));
        assert!(!wins(f64::NAN, 2.0) && !wins(2.0, f64::NAN));
        let together = |all: &[(f64, f64)]| {
            wins_together(&all.iter().map(|&(prefill, decode)| SpeedUps { prefill, decode }).collect::<Vec<_>>())
        };
        assert!(together(&[(1.0, 1.0), (1.0, 1.2)]) && !together(&[(1.0, 1.0)]) && !together(&[]));
        assert!(!together(&[(1.5, 1.5), (1.0, 0.9)]) && !together(&[(1.5, 1.5), (1.0, f64::NAN)]));
    }

    #[test]
    fn the_best_value_of_a_setting_is_taken() {
        let trials = |all: [(f64, f64); 2]| {
            let tunings = Knob::Fill.alternatives(Tuning::default()).into_iter().zip(all);
            let trial = |(tuning, (prefill, decode))| Trial {
                knob: Knob::Fill,
                tuning,
                workload: Knob::Fill.workload(),
                speed_ups: SpeedUps { prefill, decode },
                taken: false,
            };
            tunings.map(trial).collect::<Vec<_>>()
        };
        let taken = |all| {
            let mut trials = trials(all);
            let best = take(&mut trials).map(|tuning| tuning.fill);
            (best, trials.iter().map(|trial| trial.taken).collect::<Vec<_>>())
        };
        assert_eq!(taken([(0.9, 0.9), (1.0, 1.0)]), (None, vec![false, false]));
        assert_eq!(taken([(1.1, 1.1), (1.0, 1.3)]), (Some(Fill::Fourfold), vec![false, true]));
        assert_eq!(taken([(1.1, 1.1), (0.9, 2.0)]), (Some(Fill::Quarter), vec![true, false]));
    }
}
