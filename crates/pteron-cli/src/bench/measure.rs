//! Runs each case: a warm-up, then the timed runs. In an A/B comparison the two variants take turns, and so do peers, so that drift affects
//! all alike.

use std::path::Path;

use pteron::Counts;

use super::cases::Case;
use super::peers::Peer;
use super::report::{Outcome, Test, Work};
use super::runner::{Run, Runner};
use super::spinner::Spinner;
use super::stats::Summary;
use crate::failure::Failure;
use crate::{interrupts, units};

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

/// Measures the cases in rounds: each round runs every case once, and then every peer on the same cases. Tests finished before an
/// interrupt or a failure stay in `tests`.
pub(super) fn in_turns(
    variants: &Variants<'_>,
    cases: &[Case],
    repeat: u32,
    (peers, model): (&mut [Peer], &Path),
    progress: &Spinner,
    tests: &mut Vec<Test>,
) -> Result<(), Failure> {
    measure(variants, cases, 1, progress, tests)?;
    let fits = |test: &&Test| matches!(test.outcome, Outcome::Measured { .. });
    let fitting: Vec<Case> = tests.iter().filter(fits).map(|test| test.case).collect();
    for round in 1..=repeat {
        for peer in &mut *peers {
            if interrupts::interrupted() {
                return Err(Failure::Interrupted);
            }
            progress.say(format!("{}: {round} of {repeat}", peer.name));
            peer.run(model, &fitting)?;
        }
        if round < repeat {
            let mut again = Vec::new();
            measure(variants, &fitting, 1, progress, &mut again)?;
            again.into_iter().for_each(|test| append(tests, test));
        }
    }
    Ok(())
}

/// Adds the runs of a test to those of the same case.
fn append(tests: &mut [Test], next: Test) {
    let Some(test) = tests.iter_mut().find(|test| test.case == next.case) else { return };
    if let (
        Outcome::Measured { runs, other_runs, work },
        Outcome::Measured { runs: more, other_runs: more_other, work: last },
    ) = (&mut test.outcome, next.outcome)
    {
        runs.extend(more);
        other_runs.extend(more_other);
        *work = last;
    }
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
