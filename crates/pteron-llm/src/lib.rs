//! Language models: text in, text out.
//!
//! A [`Model`] is a program with its tokenizer; a [`Session`] is a conversation, whose KV cache keeps what was said; a
//! [`Generation`] is a text as it comes.
//!
//! ```no_run
//! use pteron::{Gpu, GpuOptions, Program};
//! use pteron_llm::{GenerationOptions, Model, ModelOptions, ParseSpecial, Session, Tokenizer};
//!
//! # async fn run() -> pteron_llm::Result<()> {
//! let gpu = Gpu::open(&GpuOptions::default()).await.map_err(pteron::Error::from)?;
//! let program = Program::open("model.pte")?;
//! let model = Model::load(&gpu, &program, Tokenizer::open("tokenizer.json")?, &ModelOptions::default()).await?;
//! let prompt = model.tokenizer().encode_prompt("A lifetime is", ParseSpecial::No)?;
//! let mut session = Session::new(&model)?;
//! let mut text = session.generate(&prompt, GenerationOptions::default())?;
//! while let Some(piece) = text.next().await? {
//!     print!("{}", piece.text);                                        // as it comes, never half a character
//! }
//! # Ok(()) }
//! ```
//!
//! Below that are parts that need no GPU, no file system and no clock, each of use alone:
//!
//! Files, templates and texts may be hostile: each of these parts says in its documentation what it takes of time and memory at
//! most, and anything beyond is an error. The functions that a fuzzer needs are public and take bytes: [`Tokenizer::from_bytes`],
//! [`Tokenizer::encode`], [`Tokenizer::decode`], [`ChatTemplate::new`], [`ChatTemplate::render`], [`TokenizerConfig::from_json`],
//! [`PartialMetadata::from_sidecar`].
//!
//! - [`tokenizer`]: text to token ids and back, from `tokenizer.json`, Llama 3's tiktoken file or a `SentencePiece` model;
//! - [`decode_stream`]: text token by token, never half a character;
//! - [`stop`]: stop strings that reach over tokens, of which nothing is shown;
//! - [`template`]: chat templates, as `tokenizer_config.json` and `chat_template.jinja` hold them;
//! - [`sampling`]: the next token from logits, repeatable by seed;
//! - [`metadata`]: what a program says of itself, completed by a sidecar or flags.
//!
//! ```
//! use pteron_llm::{ParseSpecial, ShowSpecial, Tokenizer};
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiktoken.model"));
//! let tokenizer = Tokenizer::from_bytes(file)?;                        // what kind of file it is, its bytes say
//! let ids = tokenizer.encode("wing 🪽", ParseSpecial::No)?;
//! let mut stream = tokenizer.decode_stream(ShowSpecial::No);
//! let mut text = String::new();
//! for id in ids {
//!     text += &stream.push(id);                                        // whole characters only
//! }
//! text += &stream.finish();
//! assert_eq!(text, "wing 🪽");
//! # Ok::<(), pteron_llm::TokenizerError>(())
//! ```
#![forbid(unsafe_code)]

mod assets;
mod chat;
pub mod decode_stream;
mod error;
mod generation;
pub mod metadata;
mod model;
#[cfg(not(target_arch = "wasm32"))]
mod open;
mod options;
mod prompt;
pub mod sampling;
mod session;
mod state_slot;
mod steps;
pub mod stop;
#[cfg(feature = "templates")]
pub mod template;
pub mod tokenizer;
mod tokenizer_config;

#[cfg(not(target_arch = "wasm32"))]
pub use assets::AssetPaths;
pub use assets::{AssetBytes, ModelAssets};
pub use chat::{ChatRequest, Message, RenderOptions};
pub use decode_stream::DecodeStream;
pub use error::{Error, Result};
pub use generation::{FinishReason, GeneratedToken, Generation};
pub use metadata::{Metadata, MetadataError, PartialMetadata};
pub use model::{Model, ModelOptions};
pub use options::{ContextOverflow, GenerationOptions, SampleOn};
pub use prompt::Prompt;
pub use sampling::{History, SampledToken, Sampler, Sampling, SamplingError};
pub use session::Session;
pub use steps::{StepOutput, StepPipeline};
pub use stop::{StopConditions, StopError, StopFilter};
#[cfg(feature = "templates")]
pub use template::{ChatTemplate, TemplateError};
pub use tokenizer::{ParseSpecial, ShowSpecial, TokenId, Tokenizer, TokenizerError};
pub use tokenizer_config::TokenizerConfig;
