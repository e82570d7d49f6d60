//! The program loaded in two ways, which are measured in turns: for those who must choose between them.

use pteron::{Gpu, KvCache, LoadOptions, Tuning};

use super::args::SubjectArgs;
use super::cases::Case;
use super::check;
use super::drive::Driver;
use super::measure::{self, Paths};
use super::progress::Progress;
use super::source::{self, Subject};
use crate::failure::Failure;

/// Tokens of the prompt and of the answer that are measured, or as many as fit.
const PROMPT: u32 = 128;
const ANSWER: u32 = 32;

/// A program as it is loaded usually, for others to be compared with.
pub(crate) struct Contest<'a> {
    gpu: &'a Gpu,
    subject: &'a Subject,
    usual: Driver,
    cases: [Case; 2],
    repeat: u32,
    quiet: bool,
}

impl<'a> Contest<'a> {
    /// Finds the program; one that is made up has room for what is measured, and for a token behind it.
    pub(crate) fn subject(args: &SubjectArgs) -> Result<Subject, Failure> {
        source::open(args, PROMPT + 1)
    }

    pub(crate) fn new(gpu: &'a Gpu, subject: &'a Subject, repeat: u32, quiet: bool) -> Result<Self, Failure> {
        let (usual, _) = Driver::load(gpu, subject, check::fast(KvCache::default()), quiet)?;
        let room = usual.metadata.context_length;
        let cases = [Case::Prefill { tokens: PROMPT.min(room) }, Case::Decode { tokens: ANSWER.min(room), depth: 0 }];
        Ok(Self { gpu, subject, usual, cases, repeat, quiet })
    }

    /// How many times as fast a prompt and an answer are with a tuning, in the median of pairs.
    pub(crate) fn speed_ups(&self, tuning: Tuning) -> Result<[f64; 2], Failure> {
        let options = LoadOptions { tuning, ..check::fast(KvCache::default()) };
        let (own, _) = Driver::load(self.gpu, self.subject, options, self.quiet)?;
        let paths = Paths { own: &own, other: Some(&self.usual) };
        let progress = Progress::new(self.quiet);
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
