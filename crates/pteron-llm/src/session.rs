//! A conversation with a model: the tokens in its KV cache, and how they are extended, rewound and forked.

use std::fmt;

use pteron::Profile;

use crate::chat::ChatRequest;
use crate::decode_step::{has_sampled, token_inputs};
use crate::error::{Error, Result};
use crate::generation::{Generation, SessionRef};
use crate::model::Model;
use crate::options::GenerationOptions;
use crate::state_slot::{StateLoan, StateSlot};
use crate::step_pipeline::run_chunk;
use crate::tokenizer::TokenId;

/// A conversation. A prompt that starts with the tokens in its KV cache continues where they end.
///
/// Dropping a future of this type, or a [`Generation`], at any point leaves the session consistent: it holds the tokens whose calls
/// were started on the GPU or have returned, and the next prompt reuses the prefix that they share with it.
pub struct Session {
    pub(crate) model: Model,
    state: StateSlot,
    /// The tokens in the KV cache, by position.
    pub(crate) tokens: Vec<TokenId>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates an empty conversation.
    ///
    /// # Errors
    /// There is no memory for its KV cache.
    pub fn new(model: &Model) -> Result<Self> {
        let state = StateSlot::new(model.method().new_state()?);
        Ok(Self { state, model: model.clone(), tokens: Vec::new() })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens in the KV cache.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The number of tokens that still fit the context.
    #[must_use]
    pub fn remaining_context(&self) -> usize {
        (self.model.metadata().context_length as usize).saturating_sub(self.tokens.len())
    }

    /// Drops the tokens from a position on. Computes nothing: later tokens overwrite them.
    ///
    /// # Errors
    /// The position is past the end.
    pub fn rewind(&mut self, position: usize) -> Result<()> {
        if position > self.tokens.len() {
            return Err(Error::RewindPastEnd { to: position, have: self.tokens.len() });
        }
        self.tokens.truncate(position);
        Ok(())
    }

    /// Copies the conversation, KV cache included. Both continue independently.
    ///
    /// # Errors
    /// There is no memory for the copy.
    pub fn fork(&self) -> Result<Self> {
        let mut state = self.lend_state()?;
        let copy = self.model.method().clone_state(state.state())?;
        Ok(Self { model: self.model.clone(), state: StateSlot::new(copy), tokens: self.tokens.clone() })
    }

    /// The number of a prompt's tokens that are cached and need not run. The last token always runs.
    #[must_use]
    pub fn cached_prefix_len(&self, prompt: &[TokenId]) -> usize {
        let common = self.tokens.iter().zip(prompt).take_while(|(own, new)| own == new).count();
        common.min(prompt.len().saturating_sub(1))
    }

    /// Starts the text that follows a prompt: all tokens of the conversation, not only the new ones. The longest cached prefix is
    /// reused. Nothing runs before the generation is polled.
    ///
    /// # Errors
    /// The prompt is empty, longer than the context or has tokens outside the vocabulary, or an option is out of range.
    pub fn generate(&mut self, prompt: &[TokenId], options: GenerationOptions) -> Result<Generation<'_>> {
        self.check(prompt)?;
        Generation::new(SessionRef::Borrowed(self), prompt, options)
    }

    /// Starts the text that follows a prompt as [`generate`](Self::generate) does; the generation owns the session, so that it can
    /// be moved into a task. [`Generation::into_session`] returns the session.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn into_generation(self, prompt: &[TokenId], options: GenerationOptions) -> Result<Generation<'static>> {
        self.check(prompt)?;
        Generation::new(SessionRef::Owned(Box::new(self)), prompt, options)
    }

    /// Starts the reply to a conversation: renders the chat template, drops the oldest turns if the context has no room for them,
    /// and reuses the cached prefix. On native targets, templates that print a date get the system's time in UTC unless the request
    /// sets one.
    ///
    /// # Errors
    /// As [`Model::chat_prompt`] and [`generate`](Self::generate).
    pub fn chat(&mut self, request: &ChatRequest) -> Result<Generation<'_>> {
        let prompt = self.model.chat_prompt(request)?;
        self.generate(&prompt.tokens, request.generation.clone())
    }

    /// Runs a prompt, reusing the cached prefix, and returns the logits after its last token. Natively the future blocks its thread
    /// while the GPU works.
    ///
    /// # Errors
    /// As [`generate`](Self::generate), or the device fails.
    pub async fn logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>> {
        self.check(prompt)?;
        self.truncate_to_prefix(prompt);
        let mut logits = Vec::new();
        let new = prompt.get(self.tokens.len()..).unwrap_or_default();
        for chunk in new.chunks(self.model.max_chunk()) {
            logits = run_chunk(&self.model, &mut self.lend_state()?, chunk, self.tokens.len()).await?;
            self.tokens.extend_from_slice(chunk);
        }
        Ok(logits)
    }

    /// Runs one decode step after the cached tokens and measures each kernel. The conversation stays as it is. Natively the future
    /// blocks its thread while the GPU works.
    ///
    /// # Errors
    /// The device has no timestamps, or fails.
    pub async fn profile(&mut self) -> Result<Vec<Profile>> {
        let token = self.tokens.last().copied().unwrap_or(0);
        let last = (self.model.metadata().context_length as usize).saturating_sub(1);
        // The next step overwrites what this one writes past the end; in a full cache it writes the last token again.
        let position = u32::try_from(self.tokens.len().min(last)).unwrap_or(u32::MAX);
        let inputs = token_inputs(self.model.method().inputs(), &[token], position)?;
        let mut state = self.lend_state()?;
        let (_, profile) = self.model.method().call_profiled(state.state(), &inputs).await?;
        Ok(profile.graphs)
    }

    fn check(&self, prompt: &[TokenId]) -> Result<()> {
        let metadata = self.model.metadata();
        let vocabulary = metadata.vocab_size;
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > metadata.context_length as usize {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context: metadata.context_length });
        }
        match prompt.iter().find(|&&token| token >= vocabulary) {
            Some(&token) => Err(Error::TokenOutOfRange { token, vocabulary }),
            None => Ok(()),
        }
    }

    /// Drops the tokens that are not a prefix of the prompt, and the prompt's last token in any case: it must run to have logits.
    pub(crate) fn truncate_to_prefix(&mut self, prompt: &[TokenId]) {
        self.tokens.truncate(self.cached_prefix_len(prompt));
    }

    /// Takes the state for a call. Each caller borrows the session, so no two loans live at once.
    pub(crate) fn lend_state(&self) -> Result<StateLoan> {
        self.state.lend().ok_or_else(|| Error::Misuse("the session is used by another call".to_owned()))
    }

    /// Whether the last step left its token on the GPU for the next one.
    pub(crate) fn has_feedback(&self) -> bool {
        self.state.lend().is_some_and(|mut state| has_sampled(self.model.method(), state.state()))
    }
}
