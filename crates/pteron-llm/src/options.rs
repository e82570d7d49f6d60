//! Options of a generation.

use crate::sampling::Sampling;
use crate::tokenizer::TokenId;

/// Where tokens are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleOn {
    /// On the GPU, if the sampling options allow it: greedy, or a draw from all tokens. No logits are read back, and steps are
    /// pipelined.
    #[default]
    Gpu,
    /// On the host, from logits that are read back.
    Host,
}

/// The behaviour when the context is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextOverflow {
    /// The generation ends with [`FinishReason::ContextFull`](crate::FinishReason::ContextFull).
    #[default]
    Stop,
    /// The older half of the tokens is dropped, except the first ones; the rest is prefilled again.
    DropOldest {
        /// The number of tokens at the start that always stay.
        keep: usize,
    },
}

/// How text is generated.
///
/// ```
/// use pteron_llm::{GenerationOptions, Sampling};
///
/// let options = GenerationOptions::default()
///     .with_sampling(Sampling::default().with_temperature(0.8).with_top_p(0.95))
///     .with_stop_string("\n\n")
///     .with_max_tokens(100);
/// assert_eq!(options.max_tokens, Some(100));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GenerationOptions {
    /// How tokens are sampled.
    pub sampling: Sampling,
    /// Strings that end the text. They are not part of it.
    pub stop_strings: Vec<String>,
    /// Tokens that end the text, in addition to the model's end-of-sequence tokens.
    pub stop_tokens: Vec<TokenId>,
    /// Whether the model's end-of-sequence tokens are treated like any other token.
    pub ignore_eos: bool,
    /// The most tokens to generate; `None` for as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// Whether special tokens appear in the text.
    pub show_special: bool,
    /// Where tokens are sampled.
    pub sample_on: SampleOn,
    /// The behaviour when the context is full.
    pub on_overflow: ContextOverflow,
}

impl GenerationOptions {
    /// Sets how tokens are sampled.
    #[must_use]
    pub fn with_sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Ends the text before this string.
    #[must_use]
    pub fn with_stop_string(mut self, text: impl Into<String>) -> Self {
        self.stop_strings.push(text.into());
        self
    }

    /// Ends the text before each of these strings.
    #[must_use]
    pub fn with_stop_strings(mut self, strings: impl IntoIterator<Item = String>) -> Self {
        self.stop_strings.extend(strings);
        self
    }

    /// Ends the text before each of these tokens.
    #[must_use]
    pub fn with_stop_tokens(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        self.stop_tokens.extend(tokens);
        self
    }

    /// Treats the model's end-of-sequence tokens like any other token.
    #[must_use]
    pub fn with_ignore_eos(mut self, ignore: bool) -> Self {
        self.ignore_eos = ignore;
        self
    }

    /// Limits the text to this many tokens; `None` for as many as the context has room for.
    #[must_use]
    pub fn with_max_tokens(mut self, count: impl Into<Option<usize>>) -> Self {
        self.max_tokens = count.into();
        self
    }

    /// Sets whether special tokens appear in the text.
    #[must_use]
    pub fn with_show_special(mut self, show: bool) -> Self {
        self.show_special = show;
        self
    }

    /// Sets where tokens are sampled.
    #[must_use]
    pub fn with_sample_on(mut self, place: SampleOn) -> Self {
        self.sample_on = place;
        self
    }

    /// Sets what happens when the context is full.
    #[must_use]
    pub fn with_overflow(mut self, overflow: ContextOverflow) -> Self {
        self.on_overflow = overflow;
        self
    }
}
