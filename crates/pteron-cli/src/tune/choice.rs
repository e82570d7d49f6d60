//! Alternatives to the default tuning, and the choice among them.

use pteron::{Fill, Tuning};
use pteron_gpu::plan::Caps;
use serde::Serialize;

/// The speed-up an alternative needs in the geometric mean, and in each test: less may be noise.
const LEAST_MEAN: f64 = 1.03;
const LEAST_EACH: f64 = 0.97;

/// Speed relative to the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct SpeedUps {
    pub(super) prefill: f64,
    pub(super) decode: f64,
}

impl SpeedUps {
    fn mean(self) -> f64 {
        (self.prefill * self.decode).sqrt()
    }

    /// Whether it beats the defaults.
    pub(super) fn wins(self) -> bool {
        self.mean() >= LEAST_MEAN && self.prefill.min(self.decode) >= LEAST_EACH
    }
}

/// Returns the tunings that differ from the defaults in one setting that applies to this device.
pub(super) fn alternatives(caps: Caps) -> Vec<Tuning> {
    let usual = Tuning::default();
    let subgroups = caps.subgroups.then_some(Tuning { subgroups: false, ..usual });
    let cooperative_matrix = caps.cooperative_matrix.then_some(Tuning { cooperative_matrix: false, ..usual });
    let fills = Fill::ALL.into_iter().filter(|&fill| fill != usual.fill).map(|fill| Tuning { fill, ..usual });
    subgroups.into_iter().chain(cooperative_matrix).chain(fills).collect()
}

/// Describes how a tuning differs from the defaults.
pub(super) fn describe(tuning: Tuning) -> String {
    let usual = Tuning::default();
    let fill = (tuning.fill != usual.fill).then(|| format!("fill {} %", tuning.fill.percent()));
    let off = [(tuning.subgroups, "no subgroups"), (tuning.cooperative_matrix, "no cooperative matrix")];
    let off = off.into_iter().filter(|(used, _)| !used).map(|(_, word)| word.to_owned());
    let all: Vec<String> = off.chain(fill).collect();
    if all.is_empty() { "the defaults".to_owned() } else { all.join(", ") }
}

/// A measured alternative.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) tuning: Tuning,
    pub(super) speed_ups: SpeedUps,
    pub(super) taken: bool,
}

impl Trial {
    pub(super) fn new(tuning: Tuning, speed_ups: SpeedUps) -> Self {
        Self { tuning, speed_ups, taken: false }
    }
}

/// Marks every alternative that wins, of several fills the best, and returns their combination.
pub(super) fn take(trials: &mut [Trial]) -> Tuning {
    let usual = Tuning::default();
    let mean = |trial: &Trial| trial.speed_ups.mean();
    let fills = trials.iter().filter(|trial| trial.tuning.fill != usual.fill && trial.speed_ups.wins());
    let fill = fills.max_by(|one, other| mean(one).total_cmp(&mean(other))).map_or(usual.fill, |trial| trial.tuning.fill);
    for trial in &mut *trials {
        trial.taken = trial.speed_ups.wins() && [usual.fill, fill].contains(&trial.tuning.fill);
    }
    let taken = || trials.iter().filter(|trial| trial.taken).map(|trial| trial.tuning);
    Tuning {
        subgroups: taken().all(|tuning| tuning.subgroups),
        cooperative_matrix: taken().all(|tuning| tuning.cooperative_matrix),
        fill,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABLE: Caps = Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, ..Caps::PORTABLE };

    #[test]
    fn only_supported_settings_are_tried() {
        let tried = |caps| alternatives(caps).into_iter().map(describe).collect::<Vec<_>>();
        assert_eq!(tried(ABLE), ["no subgroups", "no cooperative matrix", "fill 25 %", "fill 400 %"]);
        assert_eq!(tried(Caps::PORTABLE), ["fill 25 %", "fill 400 %"]);
        assert_eq!(describe(Tuning::default()), "the defaults");
        assert_eq!(
            describe(Tuning { subgroups: false, cooperative_matrix: false, fill: Fill::Quarter }),
            "no subgroups, no cooperative matrix, fill 25 %"
        );
    }

    #[test]
    fn an_alternative_wins_by_its_mean_and_loses_by_its_worst() {
        let wins = |prefill, decode| SpeedUps { prefill, decode }.wins();
        assert!(wins(1.03, 1.031) && wins(0.98, 1.1) && wins(1.2, 0.97));
        assert!(!wins(1.02, 1.03) && !wins(0.96, 2.0) && !wins(2.0, 0.96));
        assert!(!wins(f64::NAN, 2.0) && !wins(2.0, f64::NAN));
    }

    /// The marks and the combination, with speed-ups in the order of the alternatives.
    fn taken(speed_ups: [(f64, f64); 4]) -> (Vec<bool>, Tuning) {
        let trial = |(tuning, (prefill, decode))| Trial::new(tuning, SpeedUps { prefill, decode });
        let mut trials: Vec<Trial> = alternatives(ABLE).into_iter().zip(speed_ups).map(trial).collect();
        let tuning = take(&mut trials);
        (trials.iter().map(|trial| trial.taken).collect(), tuning)
    }

    #[test]
    fn winners_are_combined_with_the_best_fill() {
        let (lost, usual) = ((0.9, 0.9), Tuning::default());
        assert_eq!(taken([lost; 4]), (vec![false; 4], usual));
        let both = taken([(1.1, 1.1), lost, lost, (1.0, 1.2)]);
        assert_eq!(both, (vec![true, false, false, true], Tuning { subgroups: false, fill: Fill::Fourfold, ..usual }));
        let fills = taken([lost, (1.3, 1.0), (1.2, 1.2), (1.1, 1.1)]);
        assert_eq!(
            fills,
            (vec![false, true, true, false], Tuning { cooperative_matrix: false, fill: Fill::Quarter, ..usual })
        );
    }
}
