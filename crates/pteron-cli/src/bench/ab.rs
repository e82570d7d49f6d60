//! A/B comparison of a tuning with the defaults: the program loaded both ways, measured in turns.

use pteron::{Gpu, StateDtype, Tuning};

use super::args::TargetArgs;
use super::cases::Case;
use super::check;
use super::measure::{self, Variants};
use super::runner::Runner;
use super::spinner::Spinner;
use super::target::{self, Target};
use crate::failure::Failure;

/// Tokens of prefill and decode, or as many as the context has room for.
const PREFILL: u32 = 128;
const DECODE: u32 = 32;

/// A program loaded with the default tuning, the baseline of comparisons.
pub(crate) struct AbComparison<'a> {
    gpu: &'a Gpu,
    target: &'a Target,
    baseline: Runner,
    cases: [Case; 2],
    repeat: u32,
    quiet: bool,
}

impl<'a> AbComparison<'a> {
    /// Opens the program; a synthetic one has a context that fits the tests and one more token.
    pub(crate) fn target(args: &TargetArgs) -> Result<Target, Failure> {
        target::open(args, PREFILL + 1)
    }

    pub(crate) fn new(gpu: &'a Gpu, target: &'a Target, repeat: u32, quiet: bool) -> Result<Self, Failure> {
        let (baseline, _) = Runner::load(gpu, target, check::fast(StateDtype::default()), quiet)?;
        let room = baseline.metadata.context_length;
        let cases = [Case::Prefill { tokens: PREFILL.min(room) }, Case::Decode { tokens: DECODE.min(room), depth: 0 }];
        Ok(Self { gpu, target, baseline, cases, repeat, quiet })
    }

    /// Returns the speed of prefill and decode with a tuning relative to the defaults, the median of pairs of runs.
    pub(crate) fn speed_ups(&self, tuning: Tuning) -> Result<[f64; 2], Failure> {
        let options = check::fast(StateDtype::default()).with_tuning(tuning);
        let (own, _) = Runner::load(self.gpu, self.target, options, self.quiet)?;
        let variants = Variants { measured: &own, baseline: Some(&self.baseline) };
        let progress = Spinner::new(self.quiet);
        let speed_up = |case: Case| {
            let mut tests = Vec::new();
            measure::measure(&variants, &[case], self.repeat, &progress, &mut tests)?;
            // Without a measurement there is no reason to change the defaults.
            Ok::<f64, Failure>(tests.iter().find_map(|test| test.outcome.ratio()).map_or(1.0, |ratio| ratio.median))
        };
        // In order: an interrupt of the first skips the second.
        let [prefill, decode] = self.cases;
        Ok([speed_up(prefill)?, speed_up(decode)?])
    }
}
