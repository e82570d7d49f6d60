//! What the server asks of an engine.
//!
//! The server's own implementation is [`EngineBackend`](crate::EngineBackend); tests have a deterministic one without a GPU.

use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use pteron_llm::{ChatRequest, GenerationOptions, TokenId, Tokenizer};

/// A loaded model.
pub trait Backend: Send + Sync + 'static {
    /// The tokenizer.
    fn tokenizer(&self) -> &Tokenizer;
    /// Sizes and abilities.
    fn info(&self) -> ModelInfo;
    /// Encodes a text as a prompt. Blocks for as long as the text is long.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError>;
    /// Encodes a conversation, with the model's chat template where it has one. Blocks for as long as the conversation is long.
    ///
    /// # Errors
    /// The template rejects the conversation, or the tokenizer cannot encode it.
    fn chat_prompt(&self, request: &ChatRequest) -> Result<ChatPrompt, BackendError>;
    /// Queues a request.
    ///
    /// # Errors
    /// The request is refused, or the model has stopped.
    fn submit(&self, request: GenerateRequest) -> Result<Box<dyn TokenSource>, BackendError>;
    /// Loads the LoRA adapter in a folder, under a name that requests choose it by. Blocks.
    ///
    /// # Errors
    /// The adapter cannot be read, does not fit the model, or there is no room for it.
    fn load_adapter(&self, _name: &str, _folder: &Path) -> Result<(), BackendError> {
        Err(BackendError::Invalid("the model takes no adapters".to_owned()))
    }
    /// Unloads an adapter. Requests that use it go on.
    ///
    /// # Errors
    /// No adapter has this name.
    fn unload_adapter(&self, name: &str) -> Result<(), BackendError> {
        Err(BackendError::UnknownAdapter(format!("there is no adapter {name:?}")))
    }
    /// The sizes of embeddings, for a model that makes them.
    fn embeddings(&self) -> Option<EmbeddingInfo> {
        None
    }
    /// Encodes a text of which an embedding is made. Blocks for as long as the text is long.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    fn embedding_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError> {
        self.text_prompt(text)
    }
    /// Returns the embedding of each text. Blocks.
    ///
    /// # Errors
    /// A text that is empty or too long, a model that makes no embeddings or has stopped.
    fn embed(&self, _texts: &[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, BackendError> {
        Err(BackendError::Invalid("the model makes no embeddings".to_owned()))
    }
    /// Counters since the model was loaded, and gauges.
    fn statistics(&self) -> Statistics;
    /// Refuses requests from here on.
    fn drain(&self);
}

/// The tokens of one request. Dropping it cancels the request at once.
pub trait TokenSource: Send {
    /// Returns the next token; `None` after the last one or after an error.
    fn poll_token(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Token, BackendError>>>;
    /// Counts of the tokens so far.
    fn usage(&self) -> Usage;
}

/// Sizes and abilities of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// The most tokens of a prompt with its reply.
    pub context_length: u32,
    /// The number of logits.
    pub vocab_size: u32,
    /// Tokens that end a text.
    pub eos_ids: Vec<TokenId>,
    /// Whether conversations are rendered by a template.
    pub has_chat_template: bool,
}

/// The sizes of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingInfo {
    /// The numbers of a vector.
    pub dimensions: usize,
    /// Whether vectors may be cut to fewer dimensions: models are trained for that, or not.
    pub truncatable: bool,
    /// The number of tokens that the model knows, where it states it.
    pub vocab_size: Option<u32>,
}

/// The tokens of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatPrompt {
    /// All tokens.
    pub tokens: Vec<TokenId>,
    /// Messages that were left out because the context has no room for them.
    pub dropped_messages: usize,
}

/// A text to continue.
pub struct GenerateRequest {
    /// The prompt.
    pub prompt: Vec<TokenId>,
    /// Sampling and limits.
    pub options: GenerationOptions,
    /// Whose request it is: the number of its API key.
    pub key: u64,
    /// The time after which the request ends.
    pub timeout: Option<Duration>,
    /// Keeps the prefix cache of one client from others.
    pub cache_salt: u64,
    /// The name of the LoRA adapter.
    pub adapter: Option<String>,
    /// Decides which tokens may come next.
    pub constraint: Option<Box<dyn Constraint>>,
}

/// Decides which tokens may come next. Called on threads that may block.
pub trait Constraint: Send {
    /// Returns the tokens that may come next, a bit per token, least significant bit of the first word first.
    ///
    /// # Errors
    /// A sentence that says why the text cannot go on.
    fn mask(&mut self) -> Result<Vec<u32>, String>;
    /// Takes the token that was sampled.
    ///
    /// # Errors
    /// A sentence that says why the text cannot go on.
    fn accept(&mut self, token: TokenId) -> Result<(), String>;
    /// Whether nothing may follow.
    fn is_complete(&self) -> bool;
}

/// A generated token and the text that it completes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Token {
    /// The token.
    pub id: TokenId,
    /// The text that no later token changes.
    pub text: String,
    /// The token's log probability, where it was asked for.
    pub logprob: Option<f32>,
    /// The most likely tokens and their log probabilities.
    pub top_logprobs: Vec<(TokenId, f32)>,
    /// Why the text ends, on its last token.
    pub finish: Option<Finish>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end-of-sequence or stop token, or a complete grammar.
    Stop,
    /// A stop string, by its index.
    StopString(usize),
    /// The limit on tokens, or a full context.
    Length,
}

/// Counts of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were cached.
    pub cached_tokens: usize,
    /// Tokens of the text.
    pub generated_tokens: usize,
}

/// Why a backend refuses a request or ends it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Too many requests wait.
    #[error("{0}")]
    QueueFull(String),
    /// The prompt does not fit the context.
    #[error("{0}")]
    PromptTooLong(String),
    /// An adapter that is not loaded.
    #[error("{0}")]
    UnknownAdapter(String),
    /// Anything else that the client can change.
    #[error("{0}")]
    Invalid(String),
    /// The model takes no new requests.
    #[error("the server is shutting down and takes no new requests")]
    Draining,
    /// The time of the request is over.
    #[error("the request took longer than the server allows")]
    DeadlineExceeded,
    /// The text cannot be sampled within its grammar, or at all.
    #[error("{0}")]
    Generation(String),
    /// The device was lost, or the engine has ended: the model must be loaded again.
    #[error("{0}")]
    Lost(String),
}

/// Counters of a model since it was loaded, and gauges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Positions of a block of the KV cache.
    pub block_size: usize,
    /// Blocks of the KV cache.
    pub blocks_total: usize,
    /// Blocks that requests hold.
    pub blocks_used: usize,
    /// Blocks that are kept for prompts with the same prefix.
    pub blocks_cached: usize,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub generated_tokens: u64,
    /// Prompt tokens that were cached.
    pub cached_tokens: u64,
    /// Requests that lost their blocks and were computed again.
    pub preemptions: u64,
    /// Drafted tokens.
    pub drafted: u64,
    /// Drafted tokens that were right.
    pub accepted: u64,
    /// Steps.
    pub steps: u64,
    /// Seconds of the GPU.
    pub gpu_seconds: f64,
    /// Complete requests.
    pub finished: u64,
    /// Cancelled requests.
    pub cancelled: u64,
    /// Failed requests.
    pub failed: u64,
    /// From a request's submission to its first token.
    pub time_to_first_token: Durations,
    /// Between two tokens of a request.
    pub inter_token: Durations,
    /// From a request's submission to its first step.
    pub queue_time: Durations,
}

/// Durations in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// Upper bounds in seconds, ascending.
    pub bounds: Vec<f64>,
    /// Counts per bucket, not cumulative; one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum in seconds.
    pub sum: f64,
}
