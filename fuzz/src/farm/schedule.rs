//! Chooses the next target.

use super::state::Totals;
use crate::target::Target;

/// The executions per second at which a target gets as much time as any other.
const ORDINARY: f64 = 5000.0;

/// A target with its totals and running slices.
pub(super) struct Candidate<'a> {
    pub(super) target: &'static Target,
    pub(super) totals: &'a Totals,
    /// Seconds that running slices were given.
    pub(super) running: f64,
}

impl Candidate<'_> {
    /// The part of the minimum that is done, counting running slices.
    fn share(&self) -> f64 {
        let rate = if self.totals.seconds > 0.0 { self.totals.rate() } else { ORDINARY };
        (self.totals.executions as f64 + rate * self.running) / self.target.minimum.max(1) as f64
    }

    /// Seconds, divided by how much a second is worth: fast targets add more executions.
    fn turn(&self) -> f64 {
        (self.totals.seconds + self.running) / (self.totals.rate() / ORDINARY).clamp(0.5, 4.0)
    }
}

/// The candidate that should run now. Every other round goes to those below their minimum, the one with the least time first, so
/// that a slow target does not keep all others waiting; the rest goes by turns.
pub(super) fn next(candidates: &[Candidate<'_>], round: u64) -> Option<usize> {
    let least = |indices: &[usize], key: &dyn Fn(&Candidate<'_>) -> f64| {
        indices.iter().copied().min_by(|&a, &b| key(&candidates[a]).total_cmp(&key(&candidates[b])))
    };
    let all: Vec<usize> = (0..candidates.len()).collect();
    let below: Vec<usize> = all.iter().copied().filter(|&index| candidates[index].share() < 1.0).collect();
    let needed =
        least(&below, &|candidate| candidate.totals.seconds + candidate.running).filter(|_| round.is_multiple_of(2));
    needed.or_else(|| least(&all, &|candidate| candidate.turn()))
}

#[cfg(test)]
mod tests {
    use super::*;

    static TARGET: Target = Target { minimum: 1000, ..Target::DEFAULT };

    fn candidate(totals: &Totals, running: f64) -> Candidate<'_> {
        Candidate { target: &TARGET, totals, running }
    }

    #[test]
    fn every_other_round_is_for_minimums_the_rest_by_turns_weighted_by_speed() {
        let few = Totals { executions: 500, seconds: 15.0, ..Totals::default() };
        let none = Totals { executions: 1, seconds: 40.0, ..Totals::default() };
        let many = Totals { executions: 50_000, seconds: 10.0, ..Totals::default() };
        let fast = Totals { executions: 900_000, seconds: 30.0, ..Totals::default() };
        assert_eq!(next(&[], 0), None);
        assert_eq!(next(&[candidate(&many, 0.0), candidate(&few, 0.0)], 0), Some(1));
        assert_eq!(next(&[candidate(&many, 0.0), candidate(&few, 0.0)], 1), Some(0));
        // Of those below their minimum, the one that had less time; what runs already counts.
        assert_eq!(next(&[candidate(&none, 0.0), candidate(&few, 0.0)], 0), Some(1));
        assert_eq!(next(&[candidate(&none, 0.0), candidate(&few, 10.0)], 0), Some(1));
        assert_eq!(next(&[candidate(&none, 0.0), candidate(&few, 30.0)], 0), Some(0));
        // A fast target gets more time.
        assert_eq!(next(&[candidate(&many, 0.0), candidate(&fast, 0.0)], 0), Some(1));
        assert_eq!(next(&[candidate(&many, 0.0), candidate(&fast, 60.0)], 0), Some(0));
    }
}
