//! A conversation with a model: what its KV cache holds, and how that grows, goes back and splits.

use std::fmt;

use pteron::{Profile, State, Tensor};

use crate::chat::ChatRequest;
use crate::error::{Error, Result};
use crate::generation::Generation;
use crate::model::Model;
use crate::options::GenerationOptions;
use crate::tokenizer::TokenId;

/// A conversation. The tokens it holds need not be run again: a prompt that begins with them continues where they end.
pub struct Session {
    pub(crate) model: Model,
    pub(crate) state: State,
    /// What the cache holds, position by position.
    pub(crate) tokens: Vec<TokenId>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl Session {
    /// An empty conversation.
    ///
    /// # Errors
    /// No memory for its cache.
    pub fn new(model: &Model) -> Result<Self> {
        Ok(Self { state: model.method().new_state()?, model: model.clone(), tokens: Vec::new() })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens in the cache.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// How many more tokens there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        (self.model.metadata().context_length as usize).saturating_sub(self.tokens.len())
    }

    /// Forgets the tokens from a place on. Nothing is computed: what follows overwrites them.
    ///
    /// # Errors
    /// A place past the end.
    pub fn rewind(&mut self, to: usize) -> Result<()> {
        if to > self.tokens.len() {
            return Err(Error::RewindPastEnd { to, have: self.tokens.len() });
        }
        self.tokens.truncate(to);
        Ok(())
    }

    /// A second conversation that has everything of this one and goes its own way from here.
    ///
    /// # Errors
    /// No memory for its cache.
    pub fn fork(&self) -> Result<Self> {
        let state = self.model.method().clone_state(&self.state)?;
        Ok(Self { model: self.model.clone(), state, tokens: self.tokens.clone() })
    }

    /// How many tokens of a prompt need not be run, because the cache has them.
    #[must_use]
    pub fn cached_prefix_len(&self, prompt: &[TokenId]) -> usize {
        let common = self.tokens.iter().zip(prompt).take_while(|(own, new)| own == new).count();
        common.min(prompt.len().saturating_sub(1))
    }

    /// Begins a text that follows a prompt: all tokens of the conversation, not only what is new. The longest beginning that
    /// the cache has is kept.
    ///
    /// # Errors
    /// A prompt that is empty, too long, or has tokens the model does not know; options outside their ranges.
    pub fn generate(&mut self, prompt: &[TokenId], options: GenerationOptions) -> Result<Generation<'_>> {
        self.check(prompt)?;
        Generation::new(self, prompt, options)
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

    /// Runs a prompt, keeping what the cache has of it, and gives the logits behind its last token.
    ///
    /// # Errors
    /// As [`generate`](Self::generate), or a device that fails.
    pub async fn logits(&mut self, prompt: &[TokenId]) -> Result<Vec<f32>> {
        self.check(prompt)?;
        self.truncate_to_prefix(prompt);
        let mut logits = Vec::new();
        for chunk in self.chunks(prompt) {
            logits = self.run(chunk).await?;
        }
        Ok(logits)
    }

    /// Runs a step behind what the cache holds and says how long each kernel took. The conversation stays as it is.
    ///
    /// # Errors
    /// A device without timestamps, or one that fails.
    pub async fn profile(&mut self) -> Result<Vec<Profile>> {
        let token = self.tokens.last().copied().unwrap_or(0);
        let last = (self.model.metadata().context_length as usize).saturating_sub(1);
        // What a step writes into the cache behind its end, the next one overwrites; where the cache is full, it writes the last
        // token once more.
        let inputs = step_inputs(&[token], self.tokens.len().min(last))?;
        let (_, profiles) = self.model.method().call_profiled(&mut self.state, &inputs).await?;
        Ok(profiles)
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

    /// Forgets what is not the beginning of a prompt, and its last token in any case: that one must run to have an answer.
    pub(crate) fn truncate_to_prefix(&mut self, prompt: &[TokenId]) {
        self.tokens.truncate(self.cached_prefix_len(prompt));
    }

    /// The tokens of a prompt that are not in the cache, in pieces the model takes.
    pub(crate) fn chunks<'p>(&self, prompt: &'p [TokenId]) -> std::slice::Chunks<'p, TokenId> {
        let longest = (self.model.metadata().max_prefill as usize).max(1);
        prompt.get(self.tokens.len()..).unwrap_or_default().chunks(longest)
    }

    /// Runs tokens behind those in the cache; the logits of the last one.
    pub(crate) async fn run(&mut self, tokens: &[TokenId]) -> Result<Vec<f32>> {
        let inputs = step_inputs(tokens, self.tokens.len())?;
        let outputs = self.model.method().call(&mut self.state, &inputs).await?;
        self.tokens.extend_from_slice(tokens);
        let mut logits = outputs.first().and_then(Tensor::to_f32).unwrap_or_default();
        // Some programs give logits for every token; the last row is the answer.
        let row = self.model.metadata().vocab_size as usize;
        Ok(logits.split_off(logits.len().saturating_sub(row)))
    }
}

/// Tokens and where they stand, as a model takes them.
fn step_inputs(tokens: &[TokenId], position: usize) -> Result<[Tensor; 2]> {
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    let ids: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    Ok([Tensor::from_i64(&[1, count], &ids)?, Tensor::from_i64(&[1], &[position])?])
}
