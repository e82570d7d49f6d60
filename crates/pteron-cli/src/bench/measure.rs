//! From cases to runs: a warm-up each, then as many runs as are asked for.

use pteron::Counts;

use super::cases::Case;
use super::drive::{Driver, Run};
use super::progress::Progress;
use super::report::{Outcome, Test, Work};
use crate::failure::Failure;
use crate::units;

/// Measures every case that fits. What was measured before an interruption or a failure stays in `tests`.
pub(super) fn measure(
    driver: &Driver,
    cases: &[Case],
    repeat: u32,
    progress: &Progress,
    tests: &mut Vec<Test>,
) -> Result<(), Failure> {
    for &case in cases {
        let outcome = match case.too_long(driver.metadata.context_length) {
            Some(reason) => Outcome::Skipped { skipped: reason },
            None => {
                let (runs, work) = runs(driver, case, repeat, progress)?;
                Outcome::Measured { runs, work }
            }
        };
        tests.push(Test { case, outcome });
    }
    Ok(())
}

fn runs(driver: &Driver, case: Case, repeat: u32, progress: &Progress) -> Result<(Vec<Run>, Work), Failure> {
    let at = if case.depth() > 0 { format!(" at depth {}", units::count(case.depth().into())) } else { String::new() };
    progress.say(format!("{}{at}: warming up", case.name()));
    if case.depth() > 0 {
        driver.prefill(case.depth())?;
    }
    once(driver, case)?;
    let mut runs = Vec::new();
    let mut work = Work::default();
    for number in 1..=repeat {
        progress.say(format!("{}{at}: {number} of {repeat}", case.name()));
        if let Case::Decode { depth, .. } = case {
            // The shape of a step is planned when it changes; here it is the same for every token that is timed.
            driver.decode(depth, 1)?;
        }
        let before = counts(driver);
        runs.push(once(driver, case)?);
        work = Work::between(before, counts(driver), calls(driver, case));
    }
    Ok((runs, work))
}

fn once(driver: &Driver, case: Case) -> Result<Run, Failure> {
    match case {
        Case::Prefill { tokens } => driver.prefill(tokens),
        Case::Decode { tokens, depth } => driver.decode(depth, tokens),
    }
}

fn calls(driver: &Driver, case: Case) -> u32 {
    match case {
        Case::Prefill { tokens } => driver.calls(tokens),
        Case::Decode { tokens, .. } => tokens,
    }
}

fn counts(driver: &Driver) -> Counts {
    driver.method.gpu().map(pteron::Gpu::counts).unwrap_or_default()
}
