//! The next token from logits.
//!
//! # Order and definitions
//!
//! The options of [`Sampling`] act in this order. Each works on what the one before left.
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
//! One of the tokens that are left is drawn by its probability. Logits are changed and summed in double precision.
//!
//! # Repeatability
//!
//! A seed gives the same numbers on every platform: number *n* is computed by Philox4x32-10 from seed and *n* alone, and the
//! exponential function is our own dependency's, not the system's. So the same logits give the same tokens, and a conversation
//! that is rewound to its *n*-th draw ([`Sampler::rewind`]) continues as it did before.

mod candidates;
mod rng;
mod sampler;
#[cfg(test)]
mod tests;

pub use sampler::{History, SampledToken, Sampler};
use serde::{Deserialize, Serialize};

use crate::tokenizer::TokenId;

/// How the next token is chosen. The default is greedy: always the most likely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// How much chance there is: 0 for none, 1 for the model's own probabilities; from 0 to 100.
    pub temperature: f32,
    /// The number of most likely tokens among which is drawn; 0 for all.
    pub top_k: u32,
    /// The probability that the most likely tokens among which is drawn have together; above 0, up to 1 for all.
    pub top_p: f32,
    /// How likely a token must be, compared with the most likely one; from 0 for all to 1.
    pub min_p: f32,
    /// What tokens of the prompt and the generated text are made less likely by; above 0, up to 100, 1 for nothing.
    pub repetition_penalty: f32,
    /// What is subtracted from the logits of generated tokens; from -100 to 100, 0 for nothing.
    pub presence_penalty: f32,
    /// What is subtracted from the logits of generated tokens, as often as they were generated; from -100 to 100, 0 for nothing.
    pub frequency_penalty: f32,
    /// What is added to the logits of tokens. Negative infinity forbids one.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// What draws depend on.
    pub seed: u64,
    /// Whether log probabilities are wanted, and for how many of the most likely tokens besides the chosen one.
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
        /// What is allowed, in words.
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
    /// A bias for a token that is not there.
    #[error("logit_bias names token {token}, but the model's vocabulary ends at {}", .vocabulary.saturating_sub(1))]
    BiasToken {
        /// The token.
        token: TokenId,
        /// How many tokens there are.
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
    /// No token can be chosen.
    #[error("no token can be chosen: {0}")]
    NoToken(&'static str),
}

impl Sampling {
    /// Whether the most likely token is always taken.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Whether tokens that came before change what is chosen.
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
