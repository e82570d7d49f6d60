//! The batching engine as a backend.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pteron_llm::batch::{ApiKeyId, BLOCK_POSITIONS, SubmitError, TokenMask};
use pteron_llm::{
    ChatRequest, ConstraintError, Engine, EngineError, EngineRequest, FinishReason, GeneratedToken, Histogram, LoraAdapter,
    TokenConstraint, TokenId, TokenStream, Tokenizer,
};

use crate::backend::{
    Backend, BackendError, ChatPrompt, Constraint, Durations, EmbeddingInfo, Finish, GenerateRequest, ModelInfo, Statistics,
    Token, TokenSource, Usage,
};
use crate::embedder_backend::EmbedderBackend;

/// Reads the adapter in a folder. The error is a sentence.
type ReadAdapter = dyn Fn(&Path) -> Result<LoraAdapter, String> + Send + Sync;

/// A model on a GPU.
#[derive(Clone)]
pub struct EngineBackend {
    engine: Engine,
    tokenizer: Tokenizer,
    read_adapter: Option<Arc<ReadAdapter>>,
    embedder: Option<EmbedderBackend>,
}

impl std::fmt::Debug for EngineBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBackend").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl EngineBackend {
    /// Serves an engine.
    ///
    /// # Errors
    /// A model without a tokenizer: clients send and read text.
    pub fn new(engine: Engine) -> Result<Self, String> {
        let tokenizer = engine.tokenizer().cloned();
        let tokenizer = tokenizer.ok_or("the model has no tokenizer, which a server needs")?;
        Ok(Self { engine, tokenizer, read_adapter: None, embedder: None })
    }

    /// Makes embeddings, too.
    #[must_use]
    pub fn with_embedder(mut self, embedder: EmbedderBackend) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Sets how adapters are read from folders, for an engine with [room](pteron_llm::EngineOptions::with_adapters) for them:
    /// `pteron_convert::open_adapter` reads those of PEFT.
    #[must_use]
    pub fn with_adapter_reader(
        mut self,
        read: impl Fn(&Path) -> Result<LoraAdapter, String> + Send + Sync + 'static,
    ) -> Self {
        self.read_adapter = Some(Arc::new(read));
        self
    }
}

impl Backend for EngineBackend {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            context_length: self.engine.context_length(),
            vocab_size: self.engine.vocab_size(),
            eos_ids: self.engine.metadata().eos_ids.clone(),
            has_chat_template: self.engine.has_chat_template(),
        }
    }

    fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError> {
        Ok(self.engine.text_prompt(text).map_err(|error| BackendError::Invalid(error.to_string()))?.tokens)
    }

    fn chat_prompt(&self, request: &ChatRequest) -> Result<ChatPrompt, BackendError> {
        let prompt = self.engine.chat_prompt(request).map_err(|error| BackendError::Invalid(error.to_string()))?;
        Ok(ChatPrompt { tokens: prompt.tokens, dropped_messages: prompt.dropped_messages })
    }

    fn submit(&self, request: GenerateRequest) -> Result<Box<dyn TokenSource>, BackendError> {
        let GenerateRequest { prompt, options, key, timeout, cache_salt, adapter, constraint } = request;
        let mut request = EngineRequest::new(prompt)
            .with_options(options)
            .with_key(ApiKeyId(key))
            .with_timeout(timeout)
            .with_cache_salt(cache_salt)
            .with_adapter(adapter);
        request.constraint = constraint.map(|constraint| Box::new(EngineConstraint(constraint)) as Box<dyn TokenConstraint>);
        let stream = self.engine.submit(request).map_err(backend_error)?;
        Ok(Box::new(EngineTokens(stream)))
    }

    fn load_adapter(&self, name: &str, folder: &Path) -> Result<(), BackendError> {
        let read = self.read_adapter.as_ref().ok_or_else(|| BackendError::Invalid("no adapters can be read".to_owned()))?;
        let fail = |reason| BackendError::Invalid(format!("{}: {reason}", folder.display()));
        let adapter = read(folder).map_err(fail)?;
        self.engine.load_adapter(name, adapter).map_err(backend_error)
    }

    fn unload_adapter(&self, name: &str) -> Result<(), BackendError> {
        self.engine.unload_adapter(name).map_err(backend_error)
    }

    fn embeddings(&self) -> Option<EmbeddingInfo> {
        self.embedder.as_ref()?.embeddings()
    }

    fn embedding_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError> {
        self.embedder.as_ref().map_or_else(|| self.text_prompt(text), |embedder| embedder.embedding_prompt(text))
    }

    fn embed(&self, texts: &[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, BackendError> {
        self.embedder.as_ref().ok_or_else(no_embeddings)?.embed(texts)
    }

    fn statistics(&self) -> Statistics {
        let engine = self.engine.statistics();
        Statistics {
            waiting: engine.waiting,
            running: engine.running,
            block_size: usize::try_from(BLOCK_POSITIONS).unwrap_or(0),
            blocks_total: engine.blocks_total,
            blocks_used: engine.blocks_used,
            blocks_cached: engine.blocks_cached,
            prompt_tokens: engine.prompt_tokens,
            generated_tokens: engine.generated_tokens,
            cached_tokens: engine.cached_tokens,
            preemptions: engine.preemptions,
            drafted: engine.drafted,
            accepted: engine.accepted,
            steps: engine.steps,
            gpu_seconds: engine.gpu_seconds,
            finished: engine.finished,
            cancelled: engine.cancelled,
            failed: engine.failed,
            time_to_first_token: durations(&engine.time_to_first_token),
            inter_token: durations(&engine.inter_token),
            queue_time: durations(&engine.queue_time),
        }
    }

    fn drain(&self) {
        self.engine.drain();
    }
}

fn no_embeddings() -> BackendError {
    BackendError::Invalid("the model makes no embeddings".to_owned())
}

fn durations(histogram: &Histogram) -> Durations {
    Durations { bounds: Histogram::bounds().to_vec(), counts: histogram.counts().to_vec(), sum: histogram.sum() }
}

struct EngineTokens(TokenStream);

impl TokenSource for EngineTokens {
    fn poll_token(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Token, BackendError>>> {
        // Nothing is lost with a future of `next` that is dropped.
        let next = pin!(self.0.next()).poll(context);
        next.map(|next| next.map(|token| token.map(convert)).map_err(backend_error).transpose())
    }

    fn usage(&self) -> Usage {
        let usage = self.0.usage();
        Usage {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            generated_tokens: usage.generated_tokens,
        }
    }
}

fn convert(token: GeneratedToken) -> Token {
    let finish = token.finish.map(|reason| match reason {
        FinishReason::StopString(index) => Finish::StopString(index),
        FinishReason::MaxTokens | FinishReason::ContextFull => Finish::Length,
        _ => Finish::Stop,
    });
    Token { id: token.token, text: token.text, logprob: token.logprob, top_logprobs: token.top_logprobs, finish }
}

fn backend_error(error: EngineError) -> BackendError {
    let message = error.to_string();
    match error {
        EngineError::Submit(SubmitError::QueueFull { .. }) => BackendError::QueueFull(message),
        EngineError::Submit(SubmitError::PromptTooLong { .. } | SubmitError::NeverFits { .. }) => {
            BackendError::PromptTooLong(message)
        }
        EngineError::UnknownAdapter { .. } => BackendError::UnknownAdapter(message),
        EngineError::Submit(_) | EngineError::Options(_) | EngineError::AdapterExists(_) | EngineError::Adapter(_) => {
            BackendError::Invalid(message)
        }
        EngineError::Draining => BackendError::Draining,
        EngineError::DeadlineExceeded => BackendError::DeadlineExceeded,
        EngineError::Model(_) | EngineError::Stopped => BackendError::Lost(message),
        _ => BackendError::Generation(message),
    }
}

/// The server's constraint as the engine's.
struct EngineConstraint(Box<dyn Constraint>);

impl TokenConstraint for EngineConstraint {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        self.0.mask().map(TokenMask::from).map_err(ConstraintError::new)
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.0.accept(token).map_err(ConstraintError::new)
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}
