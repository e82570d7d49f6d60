//! Whether the answers are right: the logits of the path that is measured against those of an exact one.

use pteron::{Gpu, LoadOptions, Method, Precision, State, Tensor, block_on};
use pteron_llm::Metadata;
use serde::Serialize;

use super::cases;
use super::drive::{METHOD, failed};
use super::progress::Progress;
use super::source::Subject;
use crate::failure::Failure;
use crate::talk;

/// How the program is loaded for figures and for `pteron run`: with all that makes it fast.
pub(super) fn fast() -> LoadOptions {
    LoadOptions { choose_tokens: true, precision: Precision::Fast, ..LoadOptions::default() }
}

/// How it is loaded for comparison: each operator of the file by itself, in 32-bit floats. Nothing else exists yet, so that this is
/// how [`fast`] computes logits, too, and `DIFFERENCE` says so.
fn exact() -> LoadOptions {
    LoadOptions::exact()
}

/// What the exact path leaves out, for people who wonder what a comparison is worth.
const DIFFERENCE: &str = "nothing: in this version both run the same kernels";

/// Prompts, each of another length, and the positions of each at which logits are compared: behind the prompt, then one token at
/// a time.
const PROMPTS: u32 = 16;
const POSITIONS: u32 = 32;
/// The longest prompt.
const LONGEST: u32 = 512;
/// Of a hundred likeliest tokens, so many must be the same.
const LEAST: u64 = 99;

/// How far two paths agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) positions: u64,
    /// Positions at which both find the same token likeliest.
    pub(super) agreed: u64,
    pub(super) largest_absolute_error: f32,
    /// In parts of the exact path's largest logit at the same position.
    pub(super) largest_relative_error: f32,
    /// What the exact path leaves out.
    pub(super) difference: &'static str,
}

impl Verdict {
    /// Compares the logits of a position. Those that are no numbers agree with nothing.
    fn add(&mut self, fast: &[f32], exact: &[f32]) {
        self.positions += 1;
        let same = likeliest(fast).is_some_and(|token| likeliest(exact) == Some(token));
        self.agreed += u64::from(same && fast.len() == exact.len());
        let error =
            |(fast, exact): (&f32, &f32)| Some((fast - exact).abs()).filter(|e| e.is_finite()).unwrap_or(f32::INFINITY);
        let absolute = fast.iter().zip(exact).map(error).fold(0.0, f32::max);
        let scale = exact.iter().fold(f32::MIN_POSITIVE, |largest, logit| largest.max(logit.abs()));
        self.largest_absolute_error = self.largest_absolute_error.max(absolute);
        self.largest_relative_error = self.largest_relative_error.max(absolute / scale);
    }

    /// An error where too few agree.
    pub(super) fn demand(&self) -> Result<(), Failure> {
        if self.positions > 0 && self.agreed * 100 >= self.positions * LEAST {
            return Ok(());
        }
        Err(Failure::Disagreement { agreed: self.agreed, positions: self.positions, least: LEAST })
    }
}

/// The token with the greatest logit; `None` where one is no number, or there are none.
fn likeliest(logits: &[f32]) -> Option<u32> {
    if logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let (first, _) = logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    u32::try_from(first).ok()
}

/// The lengths of the prompts, from the longest down: each second is half of one before.
fn lengths(longest: u32) -> impl Iterator<Item = u32> {
    (0..PROMPTS).map(move |prompt| {
        let length = longest.checked_shr(prompt / 2).unwrap_or(0);
        let shorter = if prompt.is_multiple_of(2) { length } else { length * 3 / 4 };
        shorter.max(1)
    })
}

/// Runs both paths on the same tokens, position by position: a prompt, then what the exact path finds likeliest.
pub(super) fn check(
    gpu: &Gpu,
    subject: &Subject,
    fast: &Method,
    metadata: &Metadata,
    progress: &Progress,
) -> Result<Verdict, Failure> {
    progress.say("loading the exact path");
    let exact = block_on(subject.program.load(gpu, METHOD, &exact())).map_err(failed)?;
    let mut fast = Path::new(fast, metadata)?;
    let mut exact = Path::new(&exact, metadata)?;
    let room = metadata.context_length.saturating_sub(POSITIONS - 1).max(1);
    let mut verdict = Verdict { difference: DIFFERENCE, ..Verdict::default() };
    for (number, length) in (1..).zip(lengths(metadata.max_prefill.min(LONGEST).min(room))) {
        let mut tokens = cases::tokens(length, metadata.vocab_size, 100 + number);
        let mut position = 0;
        for step in 0..POSITIONS.min(metadata.context_length - length + 1) {
            if talk::interrupted() {
                return Err(Failure::Interrupted);
            }
            progress.say(format!("comparing with the exact path: prompt {number} of {PROMPTS}, token {}", step + 1));
            let wanted = exact.logits(&tokens, position)?;
            verdict.add(&fast.logits(&tokens, position)?, &wanted);
            position += i64::try_from(tokens.len()).unwrap_or(i64::MAX);
            tokens = vec![likeliest(&wanted).unwrap_or(0)];
        }
    }
    Ok(verdict)
}

/// A loaded method with a cache of its own.
struct Path<'a> {
    method: &'a Method,
    state: State,
    vocab_size: usize,
}

impl<'a> Path<'a> {
    fn new(method: &'a Method, metadata: &Metadata) -> Result<Self, Failure> {
        let state = method.new_state().map_err(failed)?;
        Ok(Self { method, state, vocab_size: metadata.vocab_size as usize })
    }

    /// The logits behind the last of some tokens.
    fn logits(&mut self, tokens: &[u32], position: i64) -> Result<Vec<f32>, Failure> {
        let ids: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let inputs = [Tensor::from_i64(&[1, count], &ids), Tensor::from_i64(&[1], &[position])];
        let inputs = inputs.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let outputs = block_on(self.method.call(&mut self.state, &inputs)).map_err(failed)?;
        let mut logits = outputs.first().and_then(Tensor::to_f32).unwrap_or_default();
        // Some programs give logits for every token; the last row is the answer.
        Ok(logits.split_off(logits.len().saturating_sub(self.vocab_size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pairs: &[(&[f32], &[f32])]) -> Verdict {
        let mut verdict = Verdict::default();
        pairs.iter().for_each(|(fast, exact)| verdict.add(fast, exact));
        verdict
    }

    #[test]
    fn errors_are_the_largest_and_agreement_is_of_tokens() {
        let found = verdict(&[(&[1.0, 4.5, -2.0], &[1.0, 4.0, -2.0]), (&[3.0, 2.0], &[2.0, 3.0])]);
        assert_eq!((found.positions, found.agreed, found.largest_absolute_error), (2, 1, 1.0));
        assert_eq!(found.largest_relative_error, 1.0 / 3.0);
        assert_eq!(verdict(&[(&[5.0, 5.0], &[5.0, 5.0])]).agreed, 1, "ties go to the first on both sides");
    }

    #[test]
    fn what_is_no_number_agrees_with_nothing() {
        for (fast, exact) in [([f32::NAN, 1.0], [0.0, 1.0]), ([0.0, 1.0], [f32::NAN, 1.0]), ([f32::NAN; 2], [f32::NAN; 2])] {
            let found = verdict(&[(&fast, &exact)]);
            assert_eq!((found.agreed, found.largest_absolute_error), (0, f32::INFINITY), "{fast:?} {exact:?}");
        }
        assert_eq!(verdict(&[(&[], &[])]).agreed, 0);
    }

    #[test]
    fn one_of_a_hundred_may_differ_and_no_more() {
        let of = |agreed, positions| Verdict { agreed, positions, ..Verdict::default() }.demand();
        assert!(of(99, 100).is_ok() && of(512, 512).is_ok() && of(507, 512).is_ok());
        assert!(of(98, 100).is_err() && of(506, 512).is_err() && of(0, 0).is_err());
        assert_eq!(
            of(1, 2).unwrap_err().to_string(),
            "the exact path finds another token likeliest at 1 of 2 positions; 99 % must agree, so there are no figures"
        );
    }

    #[test]
    fn prompts_have_every_length_between_one_and_the_longest() {
        let found: Vec<u32> = lengths(512).collect();
        assert_eq!(found, [512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3]);
        assert_eq!(lengths(3).take(4).collect::<Vec<_>>(), [3, 2, 1, 1]);
        assert!(lengths(1).all(|length| length == 1));
    }
}
