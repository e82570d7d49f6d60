//! Requests, and what becomes of them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::pool::PrefixScope;
use crate::sampling::{Sampling, SamplingError};
use crate::tokenizer::TokenId;

/// A request of a [`Scheduler`](super::Scheduler). Ids grow with arrival: of two requests, the one with the smaller id is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u64);

/// Whose request it is. Requests of different keys share the GPU fairly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId(pub u64);

/// A text to continue.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt.
    pub tokens: Vec<TokenId>,
    /// The sampling parameters.
    pub sampling: Arc<Sampling>,
    /// The most tokens to generate; `None` for as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// Tokens that end the text and are not part of it.
    pub stop_tokens: Vec<TokenId>,
    /// Whose request it is.
    pub key: ApiKeyId,
    /// The time at which the request ends, finished or not.
    pub deadline: Option<Duration>,
    /// The LoRA adapter, and a salt for the prefix cache.
    pub scope: PrefixScope,
    /// Whether each token waits for a mask of allowed tokens, given by [`Scheduler::allow`](super::Scheduler::allow).
    pub constrained: bool,
    /// Who drafts tokens for speculative decoding.
    pub draft: DraftSource,
    /// Whether the caller samples its tokens, from logits that are read back. The GPU then does not feed them back.
    pub sampled_by_caller: bool,
}

/// Who drafts tokens for speculative decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftSource {
    /// Nobody: one token per step.
    #[default]
    None,
    /// Repetitions in the prompt and the generated text.
    PromptLookup,
    /// The draft model of an [`Engine`](crate::Engine); nobody in a scheduler by itself.
    Model,
    /// The caller, through [`Scheduler::propose`](super::Scheduler::propose): for example a draft model. The sequence does not use
    /// fed-back tokens, so that every step can carry a draft.
    Caller,
}

impl Request {
    /// Creates a greedy request without limits.
    #[must_use]
    pub fn new(tokens: Vec<TokenId>) -> Self {
        Self {
            tokens,
            sampling: Arc::default(),
            max_tokens: None,
            stop_tokens: Vec::new(),
            key: ApiKeyId::default(),
            deadline: None,
            scope: PrefixScope::default(),
            constrained: false,
            draft: DraftSource::None,
            sampled_by_caller: false,
        }
    }
}

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The queue is full.
    #[error("{queued} requests are waiting, and the queue holds {limit}: try again later")]
    QueueFull {
        /// The number of requests in the queue.
        queued: usize,
        /// The limit on them.
        limit: usize,
    },
    /// A prompt without tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A request for no tokens.
    #[error("max_tokens is 0, but must be at least 1")]
    NoTokens,
    /// A prompt that leaves no room in the context.
    #[error("the prompt has {tokens} tokens, but the context has room for {context} and one must be left to generate")]
    PromptTooLong {
        /// The number of tokens in the prompt.
        tokens: usize,
        /// The context length.
        context: u32,
    },
    /// A request that is larger than the whole pool.
    #[error(
        "prompt and max_tokens need {needed} blocks of the KV cache, but it has {total}: lower max_tokens, or shorten the prompt"
    )]
    NeverFits {
        /// The number of blocks that the request needs at its end.
        needed: usize,
        /// The number of blocks of the pool.
        total: usize,
    },
    /// A token outside the vocabulary.
    #[error("token {token} is not in the model's vocabulary of {vocabulary}")]
    TokenOutOfRange {
        /// The token.
        token: TokenId,
        /// The vocabulary size.
        vocabulary: u32,
    },
    /// An invalid sampling parameter.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// No such request: it has ended, or never existed.
    #[error("request {} has ended", .0.0)]
    Unknown(RequestId),
    /// A position after the end of the sequence.
    #[error("position {position} is after the end of the sequence, which has {tokens} tokens")]
    PastEnd {
        /// The position.
        position: usize,
        /// The number of known tokens.
        tokens: usize,
    },
    /// A mask that does not have one bit per token.
    #[error("the mask has {words} words, but a vocabulary of {vocabulary} needs {}", .vocabulary.div_ceil(32))]
    MaskSize {
        /// The number of words.
        words: usize,
        /// The vocabulary size.
        vocabulary: u32,
    },
}

/// Results of a step that do not belong to it. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Results of a step that is not the oldest in flight.
    #[error("step {got} finished, but {} is expected", .expected.map_or_else(|| "none".to_owned(), |step| format!("step {step}")))]
    OutOfOrder {
        /// The oldest step in flight, if there is one.
        expected: Option<u64>,
        /// The step that was given.
        got: u64,
    },
    /// Not one token per sample.
    #[error("the step has {expected} samples, but {got} tokens were given")]
    SampleCount {
        /// The number of samples of the step.
        expected: usize,
        /// The number of tokens given.
        got: usize,
    },
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// A stop token.
    StopToken(TokenId),
    /// The request's limit on tokens.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The caller cancelled it.
    Cancelled,
    /// Its deadline has passed.
    DeadlineExceeded,
}

/// What happened to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// New tokens of the text. Stop tokens are not among them.
    Tokens {
        /// The request.
        request: RequestId,
        /// The tokens.
        tokens: Vec<TokenId>,
        /// Their samples, as indices into the samples of the step that finished.
        samples: Range<usize>,
        /// How many draft tokens the step verified.
        drafted: usize,
        /// How many of them were right.
        accepted: usize,
    },
    /// The request has ended. No event follows.
    Ended {
        /// The request.
        request: RequestId,
        /// The reason.
        reason: EndReason,
    },
}
