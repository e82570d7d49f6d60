//! A program that makes embeddings as a backend.

use pteron_llm::{ChatRequest, Embedder, Error, TokenId, Tokenizer};

use crate::backend::{
    Backend, BackendError, ChatPrompt, EmbeddingInfo, GenerateRequest, ModelInfo, Statistics, TokenSource,
};

/// A model that makes embeddings and generates no text.
#[derive(Clone, Debug)]
pub struct EmbedderBackend {
    embedder: Embedder,
    tokenizer: Tokenizer,
    truncatable: bool,
}

impl EmbedderBackend {
    /// Serves an embedder.
    ///
    /// # Errors
    /// A model without a tokenizer: clients send text.
    pub fn new(embedder: Embedder) -> Result<Self, String> {
        let tokenizer = embedder.tokenizer().cloned();
        let tokenizer = tokenizer.ok_or("the model has no tokenizer, which a server needs")?;
        Ok(Self { embedder, tokenizer, truncatable: false })
    }

    /// Sets whether requests may ask for fewer dimensions: the model was trained so that the first ones matter most.
    #[must_use]
    pub fn with_truncatable(mut self, truncatable: bool) -> Self {
        self.truncatable = truncatable;
        self
    }
}

impl Backend for EmbedderBackend {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            context_length: self.embedder.max_tokens(),
            vocab_size: self.embedder.vocab_size().unwrap_or_else(|| self.tokenizer.vocab_size()),
            ..ModelInfo::default()
        }
    }

    fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError> {
        self.embedder.tokens(text).map_err(|error| BackendError::Invalid(error.to_string()))
    }

    fn chat_prompt(&self, _: &ChatRequest) -> Result<ChatPrompt, BackendError> {
        Err(no_text())
    }

    fn submit(&self, _: GenerateRequest) -> Result<Box<dyn TokenSource>, BackendError> {
        Err(no_text())
    }

    fn embeddings(&self) -> Option<EmbeddingInfo> {
        Some(EmbeddingInfo {
            dimensions: self.embedder.dimensions(),
            truncatable: self.truncatable,
            vocab_size: self.embedder.vocab_size(),
        })
    }

    fn embed(&self, texts: &[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, BackendError> {
        self.embedder.embed_tokens_blocking(texts).map_err(|error| {
            let message = error.to_string();
            match error {
                Error::TextTooLong { .. } => BackendError::PromptTooLong(message),
                Error::DeviceLost(_) => BackendError::Lost(message),
                Error::EmptyPrompt | Error::TokenOutOfRange { .. } => BackendError::Invalid(message),
                _ => BackendError::Generation(message),
            }
        })
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn drain(&self) {}
}

fn no_text() -> BackendError {
    BackendError::Invalid("the model makes embeddings, and generates no text".to_owned())
}
