//! A/B comparison of two tunings: the program loaded with both, measured in turns.

use pteron::{Gpu, StateDtype, Tuning};

use super::args::TargetArgs;
use super::cases::Case;
use super::check;
use super::measure::{self, Variants};
use super::runner::Runner;
use super::spinner::Spinner;
use super::target::{self, Target};
use crate::failure::Failure;

/// Tokens of decode, or as many as the context has room for.
const DECODE: u32 = 32;

/// Calls to compare two tunings by: prefill of a prompt, and decode after a context of some depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Workload {
    #[serde(rename = "prefill_tokens")]
    pub(crate) prefill: u32,
    pub(crate) depth: u32,
}

impl Workload {
    /// A prompt of some length, and decode from an empty context.
    pub(crate) const USUAL: Self = Self { prefill: 128, depth: 0 };
    /// A few rows: a short prompt, a batch, or tokens to verify.
    pub(crate) const FEW_ROWS: Self = Self { prefill: 16, depth: 0 };
    /// Decode after a long context.
    pub(crate) const LONG_CONTEXT: Self = Self { prefill: 128, depth: 2048 };

    /// The same with no more tokens than a context has room for.
    fn within(self, context: u32) -> Self {
        let most = context.saturating_sub(DECODE.min(context));
        Self { prefill: self.prefill.min(context), depth: self.depth.min(most) }
    }

    fn cases(self, context: u32) -> [Case; 2] {
        let Self { prefill, depth } = self;
        [Case::Prefill { tokens: prefill }, Case::Decode { tokens: DECODE.min(context), depth }]
    }
}

/// A program loaded with a tuning, the baseline of comparisons.
pub(crate) struct AbComparison<'a> {
    gpu: &'a Gpu,
    target: &'a Target,
    baseline: Runner,
    repeat: u32,
    quiet: bool,
}

impl<'a> AbComparison<'a> {
    /// Opens the program; a synthetic one has a context that fits the tests and one more token.
    pub(crate) fn target(args: &TargetArgs) -> Result<Target, Failure> {
        target::open(args, Workload::LONG_CONTEXT.depth + DECODE + 1)
    }

    /// Loads the program with the default tuning.
    pub(crate) fn new(gpu: &'a Gpu, target: &'a Target, repeat: u32, quiet: bool) -> Result<Self, Failure> {
        let baseline = load(gpu, target, Tuning::default(), quiet)?;
        Ok(Self { gpu, target, baseline, repeat, quiet })
    }

    /// Replaces the baseline.
    pub(crate) fn rebase(&mut self, tuning: Tuning) -> Result<(), Failure> {
        self.baseline = load(self.gpu, self.target, tuning, self.quiet)?;
        Ok(())
    }

    /// The workload with no more tokens than the program's context has room for.
    pub(crate) fn fitting(&self, workload: Workload) -> Workload {
        workload.within(self.baseline.metadata.context_length)
    }

    /// Returns the speed of prefill and decode with a tuning relative to the baseline, the median of pairs of runs.
    pub(crate) fn speed_ups(&self, tuning: Tuning, workload: Workload) -> Result<[f64; 2], Failure> {
        let own = load(self.gpu, self.target, tuning, self.quiet)?;
        let variants = Variants { measured: &own, baseline: Some(&self.baseline) };
        let progress = Spinner::new(self.quiet);
        let speed_up = |case: Case| {
            let mut tests = Vec::new();
            measure::measure(&variants, &[case], self.repeat, &progress, &mut tests)?;
            // Without a measurement there is no reason to change the baseline.
            Ok::<f64, Failure>(tests.iter().find_map(|test| test.outcome.ratio()).map_or(1.0, |ratio| ratio.median))
        };
        // In order: an interrupt of the first skips the second.
        let [prefill, decode] = workload.cases(own.metadata.context_length);
        Ok([speed_up(prefill)?, speed_up(decode)?])
    }
}

fn load(gpu: &Gpu, target: &Target, tuning: Tuning, quiet: bool) -> Result<Runner, Failure> {
    Ok(Runner::load(gpu, target, check::fast(StateDtype::default()).with_tuning(tuning), quiet)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_fit_short_contexts() {
        let [usual, long] = [Workload::USUAL, Workload::LONG_CONTEXT];
        assert_eq!((usual.within(4096), long.within(4096)), (usual, long));
        assert_eq!(long.within(512), Workload { prefill: 128, depth: 480 });
        for context in [1, 16, 33] {
            let [prefill, decode] = long.within(context).cases(context);
            assert!(prefill.too_long(context).is_none() && decode.too_long(context).is_none(), "{context}");
        }
    }
}
