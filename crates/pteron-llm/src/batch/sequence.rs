//! The state of one request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::pool::{BLOCK, BlockPool, Lookup};
use super::request::{DraftSource, EndReason, Request, RequestId};
use super::speculation::{MAX_DRAFT, PromptLookup};
use super::step::{Slot, TokenMask, TokenUse};
use super::table::BlockTable;
use crate::tokenizer::TokenId;

/// A request from its arrival to its end.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) arrival: Duration,
    /// All known tokens: the prompt and the generated ones.
    pub(super) tokens: Vec<TokenId>,
    pub(super) prompt: usize,
    /// The number of tokens at which it ends, and why.
    pub(super) limit: usize,
    pub(super) limit_reason: EndReason,
    /// Its number while it runs; `None` while it is queued.
    pub(super) slot: Option<Slot>,
    pub(super) table: BlockTable,
    /// Positions whose rows were computed by finished steps.
    pub(super) computed: usize,
    /// Positions whose rows were computed or are in flight.
    pub(super) planned: usize,
    /// Sampled tokens in flight, whose values are not known.
    pub(super) pending: usize,
    /// Whether draft tokens are in flight: even the number of new tokens is not known.
    pub(super) verifying: bool,
    /// The last step with rows of it.
    pub(super) last_step: Option<u64>,
    /// Changes when tokens are removed: samples in flight then belong to a text that is gone.
    pub(super) text_version: u64,
    /// Changes when blocks are dropped: rows in flight then were written to blocks that are gone.
    pub(super) blocks_version: u64,
    /// The allowed tokens after the known ones, for constrained requests.
    pub(super) mask: Option<TokenMask>,
    pub(super) lookup: Option<PromptLookup>,
    /// The caller's draft after the known tokens.
    pub(super) proposal: Vec<TokenId>,
}

/// Whether a sequence in prefill can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    Ready,
    /// Another sequence computes its next block now.
    Computing,
}

impl Sequence {
    /// The number of tokens, those in flight included.
    pub(super) fn length(&self) -> usize {
        self.tokens.len() + self.pending
    }

    /// Rows that remain until the next token can be sampled; none while a draft is in flight.
    pub(super) fn remaining(&self) -> usize {
        self.length().saturating_sub(self.planned)
    }

    /// Whether the next row may be planned: its token and its sampling parameters are known, or are fed back from the step before.
    pub(super) fn can_decode(&self, previous_step: Option<u64>) -> bool {
        let has_mask = !self.request.constrained || self.mask.is_some();
        let waits = self.request.constrained
            || self.request.sampled_by_caller
            || self.request.sampling.has_penalties()
            || self.request.draft == DraftSource::Caller
            || self.lookup.as_ref().is_some_and(PromptLookup::is_confident);
        let fed_back = self.pending == 0 || (!waits && self.last_step == previous_step);
        !self.verifying && self.length() < self.limit && has_mask && fed_back
    }

    /// The end of the rows that prefill may compute now: a constrained request samples nothing without a mask.
    pub(super) fn prefill_end(&self) -> usize {
        let without_mask = self.request.constrained && self.mask.is_none();
        self.tokens.len() - usize::from(without_mask)
    }

    /// Draft tokens for the next step, up to `rows` of them.
    pub(super) fn draft(&self, rows: usize) -> Vec<TokenId> {
        if self.pending > 0 || self.request.constrained {
            return Vec::new();
        }
        let most = rows.min(MAX_DRAFT).min(self.limit.saturating_sub(self.tokens.len() + 1));
        match self.request.draft {
            DraftSource::None | DraftSource::Model => Vec::new(),
            DraftSource::Caller => self.proposal.iter().copied().take(most).collect(),
            DraftSource::PromptLookup => {
                self.lookup.as_ref().map(|lookup| lookup.propose(&self.tokens, most)).unwrap_or_default()
            }
        }
    }

    /// Continues after the longest prefix that the cache has. Computes at least one row, for the logits.
    pub(super) fn adopt_cached(&mut self, pool: &mut BlockPool) -> Prefix {
        while self.planned == self.computed
            && self.planned == self.table.published() * BLOCK
            && self.table.blocks().len() == self.table.published()
            && self.planned + BLOCK < self.tokens.len()
        {
            match self.table.look_up_next(pool, &self.tokens) {
                Lookup::Missing => break,
                Lookup::Computing => return Prefix::Computing,
                Lookup::Cached(block) => {
                    self.table.adopt(pool, block);
                    self.planned += BLOCK;
                    self.computed = self.planned;
                }
            }
        }
        Prefix::Ready
    }

    /// Drops blocks after this many computed positions; the rest is computed again.
    pub(super) fn drop_blocks(&mut self, pool: &mut BlockPool, positions: usize) {
        self.computed = self.computed.min(positions);
        self.planned = self.computed;
        self.blocks_version += 1;
        self.table.truncate(pool, self.computed);
    }

    /// Replaces the tokens from `to` on.
    pub(super) fn rewind(&mut self, pool: &mut BlockPool, to: usize, then: &[TokenId]) {
        self.tokens.truncate(to);
        self.prompt = self.prompt.min(to);
        self.tokens.extend_from_slice(then);
        self.forget_in_flight();
        self.text_version += 1;
        self.drop_blocks(pool, to.min(self.tokens.len() - 1));
        self.mask = None;
        self.proposal.clear();
        if let Some(lookup) = &mut self.lookup {
            *lookup = PromptLookup::new();
            lookup.observe(&self.tokens);
        }
    }

    pub(super) fn forget_in_flight(&mut self) {
        self.pending = 0;
        self.verifying = false;
    }

    /// Appends sampled tokens up to the end of the text. Returns how many belong to it, and why it ends.
    pub(super) fn append(&mut self, sampled: &[TokenId]) -> (usize, Option<EndReason>) {
        if !sampled.is_empty() {
            self.mask = None;
            self.proposal.clear();
        }
        for (index, &token) in sampled.iter().enumerate() {
            if self.request.stop_tokens.contains(&token) {
                return (index, Some(EndReason::StopToken(token)));
            }
            self.tokens.push(token);
            if self.tokens.len() >= self.limit {
                return (index + 1, Some(self.limit_reason));
            }
        }
        (sampled.len(), None)
    }

    /// The tokens before a sample that follows `draft`, for penalties.
    pub(super) fn history(&self, draft: &[TokenId]) -> Vec<TokenUse> {
        if !self.request.sampling.has_penalties() {
            return Vec::new();
        }
        let mut uses = BTreeMap::new();
        let tokens = self.tokens.iter().chain(draft);
        for (position, &token) in tokens.enumerate() {
            let entry = uses.entry(token).or_insert(TokenUse { token, in_prompt: false, generated: 0 });
            if position < self.prompt {
                entry.in_prompt = true;
            } else {
                entry.generated += 1;
            }
        }
        uses.into_values().collect()
    }

    pub(super) fn sampling(&self) -> Arc<crate::sampling::Sampling> {
        Arc::clone(&self.request.sampling)
    }
}
