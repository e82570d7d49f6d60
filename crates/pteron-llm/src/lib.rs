//! Language models on any GPU: text in, text out.
//!
//! A [`Model`] is a program with its tokenizer, chat template and metadata. A [`Session`] is a conversation with its KV cache. A
//! [`Generation`] is a stream of tokens.
//!
//! ```no_run
//! use pteron_llm::{ChatRequest, Model, Session};
//!
//! # async fn run() -> pteron_llm::Result<()> {
//! let model = Model::open("models/llama").await?;              // the folder of a .pte file and its tokenizer
//! let mut session = Session::new(&model)?;
//! let request = ChatRequest::new().user("What is a lifetime?").with_max_tokens(100);
//! let mut reply = session.chat(&request)?;
//! while let Some(token) = reply.next().await? {
//!     print!("{}", token.text);                                // whole characters only
//! }
//! # Ok(()) }
//! ```
//!
//! # Blocking and cancellation
//!
//! On native targets, [`Model::open`], [`Model::load`], [`Generation::next`], [`Generation::text`], [`Session::logits`],
//! [`Session::profile`] and [`StepPipeline::read_oldest`] block the thread that polls them while files are read or the GPU works. In
//! an async runtime, run them on threads for blocking work. All other functions return at once. In a browser nothing blocks.
//! Futures are `Send` on native targets.
//!
//! Any future and any generation may be dropped at any point. The session stays consistent: it then generates what a new session
//! would.
//!
//! # Parts
//!
//! These modules need no GPU, file system or clock. Each documents its limits on time and memory; files, templates and texts may be
//! hostile.
//!
//! - [`tokenizer`]: text to token ids and back, from `tokenizer.json`, Llama 3's tiktoken file or a `SentencePiece` model
//! - [`decode_stream`]: decodes token by token, never half a character
//! - [`stop`]: stop strings that span tokens
#![cfg_attr(
    feature = "templates",
    doc = "- [`template`]: chat templates of `tokenizer_config.json` and `chat_template.jinja`"
)]
//! - [`sampling`]: the next token from logits, reproducible by seed
//! - [`batch`]: which rows of many sequences each call computes, in which blocks of the KV cache
//! - [`embeddings`]: vectors of texts, from hidden states (native targets)
//! - [`engine`](mod@engine): many texts at once, submitted by any thread or task (native targets)
#![cfg_attr(
    all(feature = "grammars", not(target_arch = "wasm32")),
    doc = "- [`grammar`]: JSON schemas, regular expressions and grammars as constraints of texts"
)]
//! - [`metadata`]: context length, vocabulary size and special tokens
//!
//! # Features
//!
//! - `tokenizers` (default): reads tokenizers. Without it, models take and return token ids
//! - `templates` (default): renders chat templates
//! - `grammars`: texts that match a JSON schema, a regular expression or a grammar (native targets)
#![forbid(unsafe_code)]

mod adapters;
mod assets;
pub mod batch;
mod chat;
mod constraint;
mod decode_step;
pub mod decode_stream;
#[cfg(not(target_arch = "wasm32"))]
pub mod embeddings;
#[cfg(not(target_arch = "wasm32"))]
pub mod engine;
mod error;
mod generation;
#[cfg(all(feature = "grammars", not(target_arch = "wasm32")))]
pub mod grammar;
mod memory_traffic;
pub mod metadata;
mod model;
#[cfg(not(target_arch = "wasm32"))]
mod open;
mod options;
mod paged_model;
#[cfg(not(target_arch = "wasm32"))]
mod paged_rows;
mod prompt;
pub mod sampling;
mod session;
mod state_slot;
mod step_pipeline;
pub mod stop;
#[cfg(feature = "templates")]
pub mod template;
pub mod tokenizer;
mod tokenizer_config;

pub use adapters::AdapterId;
#[cfg(not(target_arch = "wasm32"))]
pub use assets::AssetPaths;
pub use assets::{AssetBytes, ModelAssets};
pub use chat::{ChatRequest, Message, RenderOptions};
pub use constraint::{ConstraintError, TokenConstraint};
pub use decode_step::{
    GpuSampling, PendingToken, StepToken, StepTokens, benchmark_decode, has_sampled, start_sampled_steps, start_step,
    token_inputs, with_token_sampling,
};
pub use decode_stream::DecodeStream;
#[cfg(not(target_arch = "wasm32"))]
pub use embeddings::{Embedder, EmbedderOptions, Pooling};
#[cfg(not(target_arch = "wasm32"))]
pub use engine::{
    Engine, EngineAdapter, EngineError, EngineOptions, EngineRequest, EngineStatistics, Histogram, TokenStream, Usage,
};
pub use error::{Error, Result};
pub use generation::{FinishReason, GeneratedToken, Generation};
#[cfg(all(feature = "grammars", not(target_arch = "wasm32")))]
pub use grammar::{Grammar, GrammarError, GrammarSource, Grammars};
pub use memory_traffic::MemoryTraffic;
pub use metadata::{Metadata, MetadataError, PartialMetadata};
pub use model::{Model, ModelOptions};
pub use options::{ContextOverflow, GenerationOptions, SampleOn};
pub use paged_model::{PagedModel, PagedSample, PagedSizes, PagedStep, PagedToken, PendingSamples, SampledRows};
pub use prompt::Prompt;
pub use pteron;
/// The element type of a KV cache: `F32`, or `F16` where the GPU has 16-bit floats and nothing but attention reads the cache.
pub use pteron::StateDtype as KvDtype;
#[cfg(not(target_arch = "wasm32"))]
pub use pteron::block_on;
pub use pteron::{AdapterError, AdapterMisfit, AdapterOptions, LoraAdapter, LowRankUpdate, Projection, Projections};
pub use sampling::{History, SampledToken, Sampler, Sampling, SamplingError};
pub use session::Session;
pub use step_pipeline::{StepOutput, StepPipeline};
pub use stop::{StopConditions, StopError, StopFilter};
#[cfg(feature = "templates")]
pub use template::{ChatTemplate, TemplateError};
pub use tokenizer::{ParseSpecial, ShowSpecial, TokenId, Tokenizer, TokenizerError};
pub use tokenizer_config::TokenizerConfig;
