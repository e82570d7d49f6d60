//! Many texts at once on one GPU.
//!
//! An [`Engine`] takes requests from any thread or task and returns a stream of tokens for each. One thread runs the model: each step
//! computes rows of many sequences (see [`batch`](crate::batch)), while the next step is encoded. Keys and values are kept in blocks,
//! and prompts with the same beginning share them.
//!
//! ```no_run
//! use pteron_llm::{Engine, EngineOptions, EngineRequest, GenerationOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::open_blocking("models/llama", EngineOptions::default())?;
//! let options = GenerationOptions::default().with_max_tokens(64);
//! let mut streams = Vec::new();
//! for text in ["The sea", "Once upon a time", "In the morning"] {
//!     let request = EngineRequest::new(engine.text_prompt(text)?).with_options(options.clone());
//!     streams.push(engine.submit(request)?);                  // all of them run at once
//! }
//! for mut stream in streams {
//!     while let Some(token) = stream.next_blocking()? {       // or `stream.next().await`, or as a `futures` stream
//!         print!("{}", token.text);
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! - **The same text as alone.** Each request gets the text that a [`Session`](crate::Session) generates with the same options,
//!   whatever runs beside it, also where it was preempted or shares blocks: greedy, and with a seed. Kernels for other numbers of rows
//!   round differently; with [`Precision::Full`](pteron::Precision::Full) that seldom changes a token, and only where two are about
//!   equally likely.
//! - **Requests do not disturb each other.** An invalid request is refused; one whose constraint or logits fail ends alone.
//! - **Cancellation.** Dropping a [`TokenStream`] ends its request at once, queued or running, and frees its blocks.
//! - **Memory.** The KV cache has a fixed size, chosen when the model is loaded. When it is full, requests wait, or the youngest is
//!   preempted and computed again later.
//! - **No waiting in tasks.** [`Engine::submit`], [`TokenStream::next`] and the `Stream` never wait for the GPU.
//!
//! # LoRA adapters
//!
//! An engine that was loaded [with room](EngineOptions::with_adapters) takes adapters while it runs ([`Engine::load_adapter`]). Each request
//! chooses one by its name, or none; those with different adapters run in the same steps. Computed prefixes are shared among requests of one
//! adapter only.
//!
//! # Speculative decoding
//!
//! Tokens may be drafted and verified several at a time, by [`DraftSource`](crate::batch::DraftSource): repetitions of the text, or a second,
//! smaller model ([`EngineOptions::with_draft_model`]). The text is the same as without.
//!
//! # Sampling
//!
//! The GPU samples greedily, and draws from all tokens. For other options (top-k, top-p, min-p, penalties, biases, log probabilities,
//! constraints, [`SampleOn::Host`](crate::SampleOn::Host)) the rows of logits that are needed are read back, and a few threads sample.
//! Such requests run in the same steps as the others; each of their tokens waits for the one before.

mod active;
mod adapters;
mod constraint;
mod draft;
mod error;
mod load;
mod options;
mod request;
mod sampling;
mod shared;
mod statistics;
mod step;
mod stream;
mod text;
mod thread_pool;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use adapters::EngineAdapter;
pub use error::EngineError;
pub use options::EngineOptions;
pub use request::EngineRequest;
use shared::Shared;
pub use statistics::{EngineStatistics, Histogram};
pub use stream::{TokenStream, Usage};

use crate::chat::ChatRequest;
pub use crate::constraint::{ConstraintError, TokenConstraint};
use crate::error::Result;
use crate::metadata::Metadata;
use crate::prompt::Prompt;
use crate::tokenizer::{Format, Tokenizer};

/// A language model that many threads and tasks use at once. Cheap to clone.
///
/// Requests go on when the last handle is dropped. The engine's thread ends with the last of them, and GPU memory is freed; where no
/// request is left, dropping the last handle waits for that.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

/// The engine's thread, told to end when the last handle is gone.
struct Handle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let idle = self.shared.close();
        let Some(thread) = self.thread.take() else { return };
        // A waker or a constraint may own the last handle, and is dropped on a thread that the engine's thread may wait for.
        let own = std::thread::current().name().is_some_and(|name| name.starts_with("pteron "));
        if idle && !own {
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("metadata", self.metadata()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Queues a request and returns the stream of its tokens. Waits for no step.
    ///
    /// # Errors
    /// The queue is full, the request can never fit, or it has an invalid token or option; the engine is [draining](Self::drain), or its
    /// GPU has failed.
    pub fn submit(&self, request: EngineRequest) -> std::result::Result<TokenStream, EngineError> {
        self.handle.shared.submit(request)
    }

    /// Counters since the engine was loaded, and its state.
    #[must_use]
    pub fn statistics(&self) -> EngineStatistics {
        self.handle.shared.statistics()
    }

    /// The model's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.handle.shared.encoder.metadata
    }

    /// The tokenizer; `None` for a model that takes and returns token ids alone.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        Some(&self.handle.shared.encoder.tokenizer).filter(|tokenizer| tokenizer.format() != Format::IdsOnly)
    }

    /// Whether the model has a chat template.
    #[must_use]
    pub fn has_chat_template(&self) -> bool {
        #[cfg(feature = "templates")]
        return self.handle.shared.encoder.chat_template.is_some();
        #[cfg(not(feature = "templates"))]
        return false;
    }

    /// Encodes a text as [`Model::text_prompt`](crate::Model::text_prompt) does.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    pub fn text_prompt(&self, text: &str) -> Result<Prompt> {
        Ok(self.handle.shared.encoder.text_prompt(text)?.into())
    }

    /// Encodes a conversation as [`Model::chat_prompt`](crate::Model::chat_prompt) does.
    ///
    /// # Errors
    /// The template rejects the conversation, the tokenizer cannot encode the text, or the request needs a template that the model
    /// does not have.
    pub fn chat_prompt(&self, request: &ChatRequest) -> Result<Prompt> {
        self.handle.shared.encoder.chat_prompt(request)
    }

    /// The most tokens of a prompt with its text.
    #[must_use]
    pub fn context_length(&self) -> u32 {
        self.metadata().context_length
    }

    /// The number of tokens that the model knows.
    #[must_use]
    pub fn vocab_size(&self) -> u32 {
        self.metadata().vocab_size
    }

    /// Refuses new requests from now on. Those that were accepted go on.
    pub fn drain(&self) {
        self.handle.shared.drain();
    }

    /// Blocks the thread until no request is left. Returns false if some are after the timeout.
    #[must_use]
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        self.handle.shared.wait_idle(timeout)
    }
}
