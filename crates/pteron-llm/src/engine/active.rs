//! A request from its submission to its end, as the engine sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::EngineError;
use super::stream::{Channel, Usage};
use super::text::Text;
use crate::batch::AdapterId;
use crate::constraint::TokenConstraint;
use crate::generation::{FinishReason, GeneratedToken};
use crate::sampling::{SampledToken, Sampling};
use crate::tokenizer::TokenId;

/// A request that has not ended.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) channel: Arc<Channel>,
    pub(super) prompt: Arc<[TokenId]>,
    pub(super) generated: Vec<TokenId>,
    /// `None` once the text has ended.
    pub(super) text: Option<Text>,
    pub(super) sampling: Arc<Sampling>,
    /// Whether the host samples its tokens, from logits that are read back.
    pub(super) on_host: bool,
    pub(super) constraint: Option<Constraint>,
    pub(super) adapter: Option<AdapterId>,
    /// When it ends, finished or not, since the engine started.
    pub(super) deadline: Option<Duration>,
    /// Tokens to send when all that happened in a step is known.
    pub(super) unsent: Vec<GeneratedToken>,
    pub(super) submitted: Instant,
    /// When the last token was sent.
    pub(super) last_token: Option<Instant>,
    pub(super) started: bool,
    /// Positions whose rows were planned once.
    pub(super) planned: usize,
    pub(super) cached: usize,
}

/// A request's constraint.
pub(super) enum Constraint {
    /// No job has it.
    Idle(Box<dyn TokenConstraint>),
    /// A job computes with it.
    Busy,
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Busy) { "Busy" } else { "Idle" })
    }
}

impl Active {
    pub(super) fn usage(&self) -> Usage {
        Usage { prompt_tokens: self.prompt.len(), cached_tokens: self.cached, generated_tokens: self.generated.len() }
    }

    /// Takes a token of the text. Returns whether a stop string is complete.
    pub(super) fn push(&mut self, sampled: SampledToken) -> bool {
        let Some(text) = &mut self.text else { return true };
        self.generated.push(sampled.token);
        let token = text.push(sampled);
        let ended = token.finish.is_some();
        self.unsent.push(token);
        ended
    }

    /// Ends the text after its last token.
    pub(super) fn finish(&mut self, reason: FinishReason) {
        if let (Some(text), Some(last)) = (self.text.take(), self.unsent.last_mut()) {
            text.finish(last, reason);
        }
    }

    /// Ends the text with a token that is not part of it.
    pub(super) fn finish_with(&mut self, sampled: SampledToken, reason: FinishReason) {
        if let Some(text) = self.text.take() {
            self.unsent.push(text.finish_with(sampled, reason));
        }
    }

    /// Counts planned rows of the prompt. Those that are skipped came from the cache.
    pub(super) fn count_rows(&mut self, position: usize, count: usize) -> usize {
        let skipped = position.min(self.prompt.len()).saturating_sub(self.planned);
        self.cached += skipped;
        self.planned = self.planned.max(position + count);
        skipped
    }

    /// Sends the tokens of a step.
    pub(super) fn send(&mut self, error: Option<EngineError>, closed: bool) -> Option<std::task::Waker> {
        let items = self.unsent.drain(..).map(Ok).chain(error.map(Err)).collect::<Vec<_>>();
        self.channel.push(items, closed, self.usage())
    }
}
