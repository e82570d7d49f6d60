//! Requests to an engine.

use std::fmt;
use std::time::Duration;

use crate::batch::{ApiKeyId, DraftSource};
use crate::constraint::TokenConstraint;
use crate::options::GenerationOptions;
use crate::prompt::Prompt;

/// A text to continue.
#[non_exhaustive]
pub struct EngineRequest {
    /// The prompt.
    pub prompt: Prompt,
    /// Sampling, stop strings and tokens, and limits. The context never drops old tokens; `sample_on` decides as in a session.
    pub options: GenerationOptions,
    /// Whose request it is. Keys share the GPU fairly.
    pub key: ApiKeyId,
    /// The time after which the request ends, finished or not, counted from when it was submitted.
    pub timeout: Option<Duration>,
    /// Keeps the prefix cache of one client from others: only requests of the same salt share computed prefixes.
    pub cache_salt: u64,
    /// The name of the LoRA adapter; `None` for the model as it is.
    pub adapter: Option<String>,
    /// Who drafts tokens for speculative decoding; `None` for the engine's default. [`DraftSource::Caller`] is nobody here, and
    /// [`DraftSource::Model`] the draft model that the engine was loaded with.
    pub draft: Option<DraftSource>,
    /// Decides which tokens may come next.
    pub constraint: Option<Box<dyn TokenConstraint>>,
}

impl fmt::Debug for EngineRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRequest")
            .field("prompt", &self.prompt)
            .field("options", &self.options)
            .field("key", &self.key)
            .field("timeout", &self.timeout)
            .field("adapter", &self.adapter)
            .field("constrained", &self.constraint.is_some())
            .finish_non_exhaustive()
    }
}

impl EngineRequest {
    /// Creates a greedy request without limits. A list of token ids is a prompt, too.
    pub fn new(prompt: impl Into<Prompt>) -> Self {
        Self {
            prompt: prompt.into(),
            options: GenerationOptions::default(),
            key: ApiKeyId::default(),
            timeout: None,
            cache_salt: 0,
            adapter: None,
            draft: None,
            constraint: None,
        }
    }

    /// Sets sampling, stop conditions and limits.
    #[must_use]
    pub fn with_options(mut self, options: GenerationOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets whose request it is.
    #[must_use]
    pub fn with_key(mut self, key: ApiKeyId) -> Self {
        self.key = key;
        self
    }

    /// Ends the request this long after it was submitted.
    #[must_use]
    pub fn with_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Shares computed prefixes with requests of the same salt only.
    #[must_use]
    pub fn with_cache_salt(mut self, salt: u64) -> Self {
        self.cache_salt = salt;
        self
    }

    /// Chooses a LoRA adapter by its name.
    #[must_use]
    pub fn with_adapter(mut self, name: impl Into<Option<String>>) -> Self {
        self.adapter = name.into();
        self
    }

    /// Sets who drafts tokens.
    #[must_use]
    pub fn with_draft(mut self, draft: impl Into<Option<DraftSource>>) -> Self {
        self.draft = draft.into();
        self
    }

    /// Sets the constraint.
    #[must_use]
    pub fn with_constraint(mut self, constraint: Box<dyn TokenConstraint>) -> Self {
        self.constraint = Some(constraint);
        self
    }
}
