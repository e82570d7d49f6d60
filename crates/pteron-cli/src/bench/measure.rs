//! Runs each case: a warm-up, then the timed runs. In an A/B comparison the two variants take turns, so that drift affects both alike.

use pteron::Counts;

use super::cases::Case;
use super::report::{Outcome, Test, Work};
use super::runner::{Run, Runner};
use super::spinner::Spinner;
use super::stats::Summary;
use crate::failure::Failure;
use crate::units;

/// The measured program, and the baseline of an A/B comparison.
pub(super) struct Variants<'a> {
    pub(super) measured: &'a Runner,
    pub(super) baseline: Option<&'a Runner>,
}

impl Outcome {
    /// Times of the baseline relative to the measured variant, pair by pair.
    pub(super) fn ratio(&self) -> Option<Summary> {
        let Self::Measured { runs, other_runs, .. } = self else { return None };
        Summary::of(other_runs.iter().zip(runs).map(|(other, own)| other.wall_seconds / own.wall_seconds))
    }
}

/// Measures every case that fits the context. Tests finished before an interrupt or a failure stay in `tests`.
pub(super) fn measure(
    variants: &Variants<'_>,
    cases: &[Case],
    repeat: u32,
    progress: &Spinner,
    tests: &mut Vec<Test>,
) -> Result<(), Failure> {
    for &case in cases {
        let outcome = match case.too_long(variants.measured.metadata.context_length) {
            Some(reason) => Outcome::Skipped { skipped: reason },
            None => runs(variants, case, repeat, progress)?,
        };
        tests.push(Test { case, outcome });
    }
    Ok(())
}

fn runs(variants: &Variants<'_>, case: Case, repeat: u32, progress: &Spinner) -> Result<Outcome, Failure> {
    let at = if case.depth() > 0 { format!(" at depth {}", units::count(case.depth().into())) } else { String::new() };
    progress.say(format!("{}{at}: warming up", case.name()));
    for runner in std::iter::once(variants.measured).chain(variants.baseline) {
        if case.depth() > 0 {
            runner.prefill(case.depth())?;
        }
        once(runner, case)?;
    }
    let (mut runs, mut other_runs, mut work) = (Vec::new(), Vec::new(), Work::default());
    for number in 1..=repeat {
        progress.say(format!("{}{at}: {number} of {repeat}", case.name()));
        let mut own = || {
            let run = timed(variants.measured, case)?;
            work = run.1;
            runs.push(run.0);
            Ok::<(), Failure>(())
        };
        // The two alternate in going first.
        let own_first = !number.is_multiple_of(2);
        if own_first {
            own()?;
        }
        if let Some(other) = variants.baseline {
            other_runs.push(timed(other, case)?.0);
        }
        if !own_first {
            own()?;
        }
    }
    Ok(Outcome::Measured { runs, other_runs, work })
}

/// Runs a case and counts what the device did.
fn timed(runner: &Runner, case: Case) -> Result<(Run, Work), Failure> {
    if let Case::Decode { depth, .. } = case {
        // The shape changes to one token here; planning that is not part of the timed steps.
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
    // A method without a delegate has no GPU and dispatches nothing.
    runner.method.gpu().map(pteron::Gpu::counts).unwrap_or_default()
}
