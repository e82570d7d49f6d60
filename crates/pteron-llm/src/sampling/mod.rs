//! Samples the next token from logits.
//!
//! # Order and definitions
//!
//! The options of [`Sampling`] apply in this order, each to the result of the one before.
//!
//! 1. **Penalties.** For each token of the prompt or the generated text, once: a positive logit is divided by the *repetition
//!    penalty*, any other multiplied by it. For each generated token: the *presence penalty* is subtracted once, the *frequency
//!    penalty* as often as the token was generated.
//! 2. **Logit bias** is added.
//! 3. **Temperature** divides. At 0 the token with the largest logit is taken, and the rest of this list does not matter; of
//!    equal logits the smallest id wins.
//! 4. **Top-k** keeps the k tokens with the largest logits; of equal ones those with the smallest ids.
//! 5. **Top-p** keeps the fewest of the most likely tokens whose probabilities sum to at least p.
//! 6. **Min-p** keeps tokens that are at least min-p times as likely as the most likely one.
//!
//! One of the remaining tokens is drawn by its probability. Logits are changed and summed in double precision.
//!
//! # Repeatability
//!
//! A seed gives the same numbers on every platform: Philox4x32-10 computes number *n* from the seed and *n* alone, and the
//! exponential function comes from a dependency, not from the system. So the same logits give the same tokens, and a conversation
//! that is rewound to its *n*-th draw ([`Sampler::rewind`]) continues as it did before.

mod candidates;
mod rng;
mod sampler;
#[cfg(test)]
mod tests;

pub use sampler::{History, SampledToken, Sampler};
use serde::{Deserialize, Serialize};

use crate::tokenizer::TokenId;

/// How the next token is sampled. The default is greedy: the argmax of the logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sampling {
    /// Divides the logits: 0 for greedy, 1 for the model's own distribution; from 0 to 100.
    pub temperature: f32,
    /// Keeps this many of the most likely tokens; 0 for all.
    pub top_k: u32,
    /// Keeps the most likely tokens up to this cumulative probability; above 0, up to 1 for all.
    pub top_p: f32,
    /// Drops tokens less likely than this fraction of the most likely one; from 0 for none to 1.
    pub min_p: f32,
    /// Divides positive logits and multiplies negative ones of tokens in the prompt or the generated text; above 0, up to 100, 1 for
    /// no effect.
    pub repetition_penalty: f32,
    /// Subtracted once from the logits of generated tokens; from -100 to 100, 0 for no effect.
    pub presence_penalty: f32,
    /// Subtracted from the logits of generated tokens for each time they were generated; from -100 to 100, 0 for no effect.
    pub frequency_penalty: f32,
    /// Added to the logits of tokens. Negative infinity forbids a token.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// The seed of the random draws.
    pub seed: u64,
    /// Returns log probabilities, and those of this many of the most likely tokens.
    pub logprobs: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            logprobs: None,
        }
    }
}

/// An option or logits that cannot be sampled with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// An option outside of its range.
    #[error("{option} is {value}, but must be {range}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: f32,
        /// The valid range, in words.
        range: &'static str,
    },
    /// A bias that is not a number.
    #[error("logit_bias of token {token} is {value}, but must be a finite number, or negative infinity to forbid the token")]
    Bias {
        /// The token.
        token: TokenId,
        /// Its bias.
        value: f32,
    },
    /// A bias for a token outside the vocabulary.
    #[error("logit_bias names token {token}, but the model's vocabulary ends at {}", .vocabulary.saturating_sub(1))]
    BiasToken {
        /// The token.
        token: TokenId,
        /// The vocabulary size.
        vocabulary: usize,
    },
    /// A logit that is not a number, or infinite.
    #[error("the logit of token {token} is {value}: the model has overflowed, or its file is damaged")]
    Logit {
        /// The token.
        token: usize,
        /// Its logit.
        value: f32,
    },
    /// No token can be sampled.
    #[error("no token can be chosen: {0}")]
    NoToken(&'static str),
}

impl Sampling {
    /// Sets the temperature; 0 samples greedily.
    #[must_use]
    pub fn with_temperature(mut self, value: f32) -> Self {
        self.temperature = value;
        self
    }

    /// Keeps this many of the most likely tokens; 0 for all.
    #[must_use]
    pub fn with_top_k(mut self, value: u32) -> Self {
        self.top_k = value;
        self
    }

    /// Keeps the most likely tokens up to this cumulative probability.
    #[must_use]
    pub fn with_top_p(mut self, value: f32) -> Self {
        self.top_p = value;
        self
    }

    /// Drops tokens less likely than this fraction of the most likely one.
    #[must_use]
    pub fn with_min_p(mut self, value: f32) -> Self {
        self.min_p = value;
        self
    }

    /// Sets the repetition penalty; 1 has no effect.
    #[must_use]
    pub fn with_repetition_penalty(mut self, value: f32) -> Self {
        self.repetition_penalty = value;
        self
    }

    /// Sets the presence penalty; 0 has no effect.
    #[must_use]
    pub fn with_presence_penalty(mut self, value: f32) -> Self {
        self.presence_penalty = value;
        self
    }

    /// Sets the frequency penalty; 0 has no effect.
    #[must_use]
    pub fn with_frequency_penalty(mut self, value: f32) -> Self {
        self.frequency_penalty = value;
        self
    }

    /// Sets the seed of the random draws.
    #[must_use]
    pub fn with_seed(mut self, value: u64) -> Self {
        self.seed = value;
        self
    }

    /// Adds biases to the logits of tokens; negative infinity forbids a token.
    #[must_use]
    pub fn with_logit_bias(mut self, biases: impl IntoIterator<Item = (TokenId, f32)>) -> Self {
        self.logit_bias.extend(biases);
        self
    }

    /// Returns log probabilities, and those of this many of the most likely tokens.
    #[must_use]
    pub fn with_logprobs(mut self, top: impl Into<Option<u32>>) -> Self {
        self.logprobs = top.into();
        self
    }

    /// Whether sampling is greedy.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether sampling depends on earlier tokens.
    #[must_use]
    pub fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Checks every option.
    ///
    /// # Errors
    /// The first option that is outside of its range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let from_to = |low: f32, high: f32| move |value: f32| (low..=high).contains(&value);
        let above_to = |high: f32| move |value: f32| value > 0.0 && value <= high;
        option("temperature", self.temperature, "from 0 to 100", from_to(0.0, 100.0))?;
        option("top_p", self.top_p, "above 0 and at most 1", above_to(1.0))?;
        option("min_p", self.min_p, "from 0 to 1", from_to(0.0, 1.0))?;
        option("repetition_penalty", self.repetition_penalty, "above 0 and at most 100", above_to(100.0))?;
        option("presence_penalty", self.presence_penalty, "from -100 to 100", from_to(-100.0, 100.0))?;
        option("frequency_penalty", self.frequency_penalty, "from -100 to 100", from_to(-100.0, 100.0))?;
        match self.logit_bias.iter().find(|(_, bias)| bias.is_nan() || *bias == f32::INFINITY) {
            Some(&(token, value)) => Err(SamplingError::Bias { token, value }),
            None => Ok(()),
        }
    }
}

fn option(
    option: &'static str,
    value: f32,
    range: &'static str,
    allowed: impl Fn(f32) -> bool,
) -> Result<(), SamplingError> {
    if allowed(value) { Ok(()) } else { Err(SamplingError::Option { option, value, range }) }
}
