//! The sampler of one generation.

use super::candidates::{Candidate, keep_min_p, keep_top_k, keep_top_p, pick};
use super::rng::uniform;
use super::{Sampling, SamplingError};
use crate::tokenizer::TokenId;

/// The tokens before the sampled one, for penalties.
#[derive(Clone, Copy, Debug, Default)]
pub struct History<'a> {
    /// The tokens of the prompt.
    pub prompt: &'a [TokenId],
    /// The generated tokens.
    pub generated: &'a [TokenId],
}

/// A sampled token.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The token.
    pub token: TokenId,
    /// Its log probability, if requested: that of the model, before any option.
    pub logprob: Option<f32>,
    /// The most likely tokens with their log probabilities, best first, as many as requested.
    pub top_logprobs: Vec<(TokenId, f32)>,
}

/// Samples tokens. Reuses its buffers between calls.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: Sampling,
    draws: u64,
    /// Logits after penalties and bias.
    pub(super) logits: Vec<f64>,
    candidates: Vec<Candidate>,
    /// How often each token was generated; zeros between calls.
    counts: Vec<u32>,
    /// Whether each token was seen; false between calls.
    seen: Vec<bool>,
}

impl Sampler {
    /// Creates a sampler at its first draw.
    ///
    /// # Errors
    /// An option outside of its range.
    pub fn new(options: Sampling) -> Result<Self, SamplingError> {
        options.validate()?;
        let (logits, candidates, counts, seen) = Default::default();
        Ok(Self { options, draws: 0, logits, candidates, counts, seen })
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &Sampling {
        &self.options
    }

    /// The number of draws so far. Greedy sampling draws none.
    #[must_use]
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// Continues with this draw, as if those after it had not happened.
    pub fn rewind(&mut self, draws: u64) {
        self.draws = draws;
    }

    /// Starts anew with other options at this draw, and keeps the buffers.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn restart(&mut self, options: Sampling, draws: u64) -> Result<(), SamplingError> {
        options.validate()?;
        self.options = options;
        self.draws = draws;
        Ok(())
    }

    /// Samples a token.
    ///
    /// # Errors
    /// Logits that are not numbers, a bias for a token outside the vocabulary, or no token that can be sampled. Draws nothing then.
    pub fn sample(&mut self, logits: &[f32], history: &History<'_>) -> Result<SampledToken, SamplingError> {
        self.sample_allowed(logits, history, None)
    }

    /// Samples one of the tokens that a mask allows: a bit per token, least significant bit of the first word first.
    pub(crate) fn sample_allowed(
        &mut self,
        logits: &[f32],
        history: &History<'_>,
        allowed: Option<&[u32]>,
    ) -> Result<SampledToken, SamplingError> {
        check(logits)?;
        let plain = !self.options.has_penalties() && self.options.logit_bias.is_empty();
        if self.options.is_greedy() && plain && allowed.is_none() {
            return self.argmax(logits);
        }
        self.logits.clear();
        self.logits.extend(logits.iter().copied().map(f64::from));
        self.penalise(history);
        self.add_bias()?;
        if let Some(allowed) = allowed {
            self.forbid_others(allowed);
        }
        let best = argmax(&self.logits).filter(|(_, logit)| logit.is_finite());
        let (best, max) =
            best.ok_or(SamplingError::NoToken("all are forbidden, by the model, by logit_bias or by a constraint"))?;
        let token = if self.options.is_greedy() { best } else { self.draw(max)? };
        let (logprob, top_logprobs) = self.logprobs(logits, token);
        Ok(SampledToken { token, logprob, top_logprobs })
    }

    /// Takes the argmax of the logits.
    fn argmax(&mut self, logits: &[f32]) -> Result<SampledToken, SamplingError> {
        let best = argmax(logits).filter(|(_, logit)| logit.is_finite());
        let (token, _) = best.ok_or(SamplingError::NoToken("the model forbids all of them"))?;
        let (logprob, top_logprobs) = self.logprobs(logits, token);
        Ok(SampledToken { token, logprob, top_logprobs })
    }

    fn penalise(&mut self, history: &History<'_>) {
        if !self.options.has_penalties() {
            return;
        }
        let index = |token: &TokenId| usize::try_from(*token).ok();
        let penalty = f64::from(self.options.repetition_penalty);
        self.seen.resize(self.logits.len(), false);
        for token in history.prompt.iter().chain(history.generated).filter_map(index) {
            if let Some(seen) = self.seen.get_mut(token).filter(|seen| !**seen) {
                *seen = true;
                let logit = &mut self.logits[token];
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
        self.seen.fill(false);
        self.counts.resize(self.logits.len(), 0);
        for token in history.generated.iter().filter_map(index) {
            if let Some(count) = self.counts.get_mut(token) {
                *count = count.saturating_add(1);
            }
        }
        let (presence, frequency) = (f64::from(self.options.presence_penalty), f64::from(self.options.frequency_penalty));
        for (logit, count) in self.logits.iter_mut().zip(&mut self.counts).filter(|(_, count)| **count > 0) {
            *logit -= presence + frequency * f64::from(std::mem::take(count));
        }
    }

    fn add_bias(&mut self) -> Result<(), SamplingError> {
        let vocabulary = self.logits.len();
        for &(token, bias) in &self.options.logit_bias {
            let logit = usize::try_from(token).ok().and_then(|index| self.logits.get_mut(index));
            *logit.ok_or(SamplingError::BiasToken { token, vocabulary })? += f64::from(bias);
        }
        Ok(())
    }

    fn forbid_others(&mut self, allowed: &[u32]) {
        for (index, logit) in self.logits.iter_mut().enumerate() {
            if allowed.get(index / 32).is_none_or(|word| word >> (index % 32) & 1 == 0) {
                *logit = f64::NEG_INFINITY;
            }
        }
    }

    fn draw(&mut self, max: f64) -> Result<TokenId, SamplingError> {
        let Sampling { temperature, top_k, top_p, min_p, seed, .. } = self.options;
        let temperature = f64::from(temperature);
        let candidates = (0..).zip(&self.logits).filter(|(_, logit)| logit.is_finite()).map(|(token, logit)| {
            let logit = (logit - max) / temperature;
            Candidate { token, logit, weight: libm::exp(logit) }
        });
        self.candidates.clear();
        self.candidates.extend(candidates);
        if let Some(count) = usize::try_from(top_k).ok().filter(|&count| count > 0) {
            keep_top_k(&mut self.candidates, count);
        }
        keep_top_p(&mut self.candidates, f64::from(top_p));
        keep_min_p(&mut self.candidates, f64::from(min_p));
        let picked = pick(&self.candidates, uniform(seed, self.draws));
        self.draws += 1;
        picked.map(|candidate| candidate.token).ok_or(SamplingError::NoToken("none is left"))
    }

    /// The log probability of a token, and the most likely tokens with theirs.
    fn logprobs(&mut self, logits: &[f32], token: TokenId) -> (Option<f32>, Vec<(TokenId, f32)>) {
        let Some(wanted) = self.options.logprobs else { return (None, Vec::new()) };
        let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit) - max)).sum();
        let base = max + libm::log(sum);
        let logprob = |logit: f64| to_f32(logit - base);
        let own = usize::try_from(token).ok().and_then(|index| logits.get(index)).map(|&logit| logprob(f64::from(logit)));
        let all = (0..).zip(logits).map(|(token, &logit)| Candidate { token, logit: f64::from(logit), weight: 0.0 });
        self.candidates.clear();
        self.candidates.extend(all);
        keep_top_k(&mut self.candidates, usize::try_from(wanted).unwrap_or(usize::MAX));
        let top = self.candidates.iter().map(|candidate| (candidate.token, logprob(candidate.logit))).collect();
        (own, top)
    }
}

fn check(logits: &[f32]) -> Result<(), SamplingError> {
    if logits.is_empty() || u32::try_from(logits.len()).is_err() {
        return Err(SamplingError::NoToken("the model gave no logits, or more than 32 bits can count"));
    }
    // Negative infinity forbids a token.
    match logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        Some(token) => Err(SamplingError::Logit { token, value: logits[token] }),
        None => Ok(()),
    }
}

/// The largest value and the first index where it is.
fn argmax<T: Copy + PartialOrd>(logits: &[T]) -> Option<(TokenId, T)> {
    let larger = |best: (TokenId, T), next: (TokenId, T)| if next.1 > best.1 { next } else { best };
    (0..).zip(logits.iter().copied()).reduce(larger)
}

#[expect(clippy::cast_possible_truncation, reason = "a log probability needs no more than single precision")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
