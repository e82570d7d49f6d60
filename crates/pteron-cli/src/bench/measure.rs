//! From cases to runs: a warm-up each, then as many runs as are asked for. Where another way to load the program is measured as well,
//! the two take turns, so that what drifts meets both alike.

use pteron::Counts;

use super::cases::Case;
use super::report::{Outcome, Test, Work};
use super::runner::{Run, Runner};
use super::spinner::Spinner;
use super::stats::Summary;
use crate::failure::Failure;
use crate::units;

/// The program as it is measured, and as it is compared with, if it is.
pub(super) struct Paths<'a> {
    pub(super) own: &'a Runner,
    pub(super) other: Option<&'a Runner>,
}

impl Outcome {
    /// How long the other way takes, in parts of what this one takes, run by run.
    pub(super) fn ratio(&self) -> Option<Summary> {
        let Self::Measured { runs, other_runs, .. } = self else { return None };
        Summary::of(other_runs.iter().zip(runs).map(|(other, own)| other.wall_seconds / own.wall_seconds))
    }
}

/// Measures every case that fits. What was measured before an interruption or a failure stays in `tests`.
pub(super) fn measure(
    paths: &Paths<'_>,
    cases: &[Case],
    repeat: u32,
    progress: &Spinner,
    tests: &mut Vec<Test>,
) -> Result<(), Failure> {
    for &case in cases {
        let outcome = match case.too_long(paths.own.metadata.context_length) {
            Some(reason) => Outcome::Skipped { skipped: reason },
            None => runs(paths, case, repeat, progress)?,
        };
        tests.push(Test { case, outcome });
    }
    Ok(())
}

fn runs(paths: &Paths<'_>, case: Case, repeat: u32, progress: &Spinner) -> Result<Outcome, Failure> {
    let at = if case.depth() > 0 { format!(" at depth {}", units::count(case.depth().into())) } else { String::new() };
    progress.say(format!("{}{at}: warming up", case.name()));
    for runner in std::iter::once(paths.own).chain(paths.other) {
        if case.depth() > 0 {
            runner.prefill(case.depth())?;
        }
        once(runner, case)?;
    }
    let (mut runs, mut other_runs, mut work) = (Vec::new(), Vec::new(), Work::default());
    for number in 1..=repeat {
        progress.say(format!("{}{at}: {number} of {repeat}", case.name()));
        let mut own = || {
            let run = timed(paths.own, case)?;
            work = run.1;
            runs.push(run.0);
            Ok::<(), Failure>(())
        };
        // Neither is always the first of its pair.
        let own_first = !number.is_multiple_of(2);
        if own_first {
            own()?;
        }
        if let Some(other) = paths.other {
            other_runs.push(timed(other, case)?.0);
        }
        if !own_first {
            own()?;
        }
    }
    Ok(Outcome::Measured { runs, other_runs, work })
}

/// A run that counts, and what it had the device do.
fn timed(runner: &Runner, case: Case) -> Result<(Run, Work), Failure> {
    if let Case::Decode { depth, .. } = case {
        // The shape of a step is planned when it changes; here it is the same for every token that is timed.
        runner.decode(depth, 1)?;
    }
    let before = counts(runner);
    let run = once(runner, case)?;
    Ok((run, Work::between(before, counts(runner), calls(runner, case))))
}

fn once(runner: &Runner, case: Case) -> Result<Run, Failure> {
    match case {
        Case::Prefill { tokens } => runner.prefill(tokens),
        Case::Decode { tokens, depth } => runner.decode(depth, tokens),
    }
}

fn calls(runner: &Runner, case: Case) -> u32 {
    match case {
        Case::Prefill { tokens } => runner.calls(tokens),
        Case::Decode { tokens, .. } => tokens,
    }
}

fn counts(runner: &Runner) -> Counts {
    runner.method.gpu().map(pteron::Gpu::counts).unwrap_or_default()
}
