//! What can go wrong between a prompt and a text.

use crate::metadata::MetadataError;
use crate::sampling::SamplingError;
use crate::stop::StopError;
use crate::template::TemplateError;
use crate::tokenizer::{TokenId, TokenizerError};

/// An error of a model or a session. `Display` is one sentence that says what a user can change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program or the GPU refused.
    #[error("{0}")]
    Program(#[from] pteron::Error),
    /// A tokenizer that cannot be read, or a text it cannot take.
    #[error("{0}")]
    Tokenizer(#[from] TokenizerError),
    /// What the program does not say of itself.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// A sampling option, or logits that cannot be sampled from.
    #[error("{0}")]
    Sampling(#[from] SamplingError),
    /// A stop string that cannot be one.
    #[error("{0}")]
    Stop(#[from] StopError),
    /// A chat template that cannot be used.
    #[error("{0}")]
    Template(#[from] TemplateError),
    /// A program that is no language model this can run.
    #[error("the program cannot be used as a language model: {0}")]
    NotALanguageModel(String),
    /// A prompt without tokens.
    #[error("the prompt is empty: give at least one word, or a tokenizer that starts texts with a token")]
    EmptyPrompt,
    /// A prompt that leaves no room.
    #[error("the prompt has {tokens} tokens, but the context has room for {context}: shorten it, or drop older turns")]
    PromptTooLong {
        /// How many tokens the prompt has.
        tokens: usize,
        /// How many the context has.
        context: u32,
    },
    /// A token the model does not have.
    #[error("token {token} is not in the model's vocabulary of {vocabulary}")]
    TokenOutOfRange {
        /// The token.
        token: TokenId,
        /// How many there are.
        vocabulary: u32,
    },
    /// A place to go back to that was never reached.
    #[error("cannot go back to token {to}: the session has {have}")]
    RewindPastEnd {
        /// Where to.
        to: usize,
        /// How many tokens there are.
        have: usize,
    },
}

/// The result of sessions and models.
pub type Result<T, E = Error> = std::result::Result<T, E>;
