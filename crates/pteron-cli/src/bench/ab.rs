//! The program loaded in two ways, which are measured in turns: for those who must choose between them.

use pteron::{Gpu, LoadOptions, StateDtype, Tuning};

use super::args::TargetArgs;
use super::cases::Case;
use super::check;
use super::measure::{self, Paths};
use super::runner::Runner;
use super::spinner::Spinner;
use super::target::{self, Target};
use crate::failure::Failure;

/// Tokens of the prompt and of the answer that are measured, or as many as fit.
const PROMPT: u32 = 128;
const ANSWER: u32 = 32;

/// A program as it is loaded usually, for others to be compared with.
pub(crate) struct AbComparison<'a> {
    gpu: &'a Gpu,
    target: &'a Target,
    usual: Runner,
    cases: [Case; 2],
    repeat: u32,
    quiet: bool,
}

impl<'a> AbComparison<'a> {
    /// Finds the program; one that is made up has room for what is measured, and for a token behind it.
    pub(crate) fn target(args: &TargetArgs) -> Result<Target, Failure> {
        target::open(args, PROMPT + 1)
    }

    pub(crate) fn new(gpu: &'a Gpu, target: &'a Target, repeat: u32, quiet: bool) -> Result<Self, Failure> {
        let (usual, _) = Runner::load(gpu, target, check::fast(StateDtype::default()), quiet)?;
        let room = usual.metadata.context_length;
        let cases = [Case::Prefill { tokens: PROMPT.min(room) }, Case::Decode { tokens: ANSWER.min(room), depth: 0 }];
        Ok(Self { gpu, target, usual, cases, repeat, quiet })
    }

    /// How many times as fast a prompt and an answer are with a tuning, in the median of pairs.
    pub(crate) fn speed_ups(&self, tuning: Tuning) -> Result<[f64; 2], Failure> {
        let options = LoadOptions { tuning, ..check::fast(StateDtype::default()) };
        let (own, _) = Runner::load(self.gpu, self.target, options, self.quiet)?;
        let paths = Paths { own: &own, other: Some(&self.usual) };
        let progress = Spinner::new(self.quiet);
        let speed_up = |case: Case| {
            let mut tests = Vec::new();
            measure::measure(&paths, &[case], self.repeat, &progress, &mut tests)?;
            // What could not be measured is no reason for a change.
            Ok::<f64, Failure>(tests.iter().find_map(|test| test.outcome.ratio()).map_or(1.0, |ratio| ratio.median))
        };
        // One after the other: what interrupts the first is not asked for again.
        let [prefill, decode] = self.cases;
        Ok([speed_up(prefill)?, speed_up(decode)?])
    }
}
