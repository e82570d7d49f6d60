//! Which rows run next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::plan::InFlight;
use super::pool::{BlockCounts, BlockPool};
use super::queue::Queue;
use super::request::{DraftSource, EndReason, Event, Request, RequestId, SubmitError};
use super::sequence::Sequence;
use super::speculation::PromptLookup;
use super::step::{Slot, TokenMask, blocks_for};
use super::table::BlockTable;
use crate::tokenizer::TokenId;

/// The limits of a [`Scheduler`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// The number of blocks of the KV cache; [`pool_blocks`](super::pool_blocks) computes it from a memory budget.
    pub blocks: u32,
    /// The context length.
    pub context: u32,
    /// The vocabulary size.
    pub vocabulary: u32,
    /// The most sequences that run at once, and so the number of slots.
    pub max_sequences: u32,
    /// The most rows of a step.
    pub max_rows: usize,
    /// The most rows of one sequence in a step.
    pub max_chunk: usize,
    /// Draft tokens are added to a step up to this many rows: beyond it the GPU is busy, and drafts cost more than they bring.
    pub max_draft_rows: usize,
    /// The most requests that wait.
    pub max_queued: usize,
    /// Requests that arrived this long ago go first, whatever their key's share.
    pub aging: Duration,
    /// The most steps in flight.
    pub max_in_flight: usize,
}

impl SchedulerConfig {
    /// Limits that suit a large GPU: 128 sequences, 512 rows per step, two steps in flight.
    #[must_use]
    pub fn new(blocks: u32, context: u32, vocabulary: u32) -> Self {
        Self {
            blocks,
            context,
            vocabulary,
            max_sequences: 128,
            max_rows: 512,
            max_chunk: 256,
            max_draft_rows: 16,
            max_queued: 1024,
            aging: Duration::from_secs(5),
            max_in_flight: 2,
        }
    }
}

/// Counts of a [`Scheduler`] since it was created, and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests that wait.
    pub queued: usize,
    /// Requests that run.
    pub running: usize,
    /// Steps in flight.
    pub in_flight: usize,
    /// Blocks by state.
    pub blocks: BlockCounts,
    /// Steps that were planned.
    pub steps: u64,
    /// Rows that were planned.
    pub rows: u64,
    /// Positions that the prefix cache supplied.
    pub hit_positions: u64,
    /// Positions that requests had when they started or continued to run.
    pub prompt_positions: u64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Requests that lost their blocks and were queued again.
    pub preemptions: u64,
    /// Draft tokens that were verified.
    pub drafted: u64,
    /// Draft tokens that were right.
    pub accepted: u64,
}

/// Decides which rows of which requests each step of the model computes.
///
/// See the [module](super) for the order of calls and the rules.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) config: SchedulerConfig,
    pub(super) pool: BlockPool,
    pub(super) sequences: BTreeMap<RequestId, Sequence>,
    pub(super) running: BTreeSet<RequestId>,
    pub(super) queue: Queue,
    /// Queued requests that have blocks: forks that have not run.
    pub(super) queued_with_blocks: BTreeSet<RequestId>,
    pub(super) free_slots: Vec<Slot>,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) events: Vec<Event>,
    pub(super) next_request: u64,
    pub(super) next_step: u64,
    pub(super) statistics: Statistics,
}

impl Scheduler {
    /// Creates a scheduler without requests.
    #[must_use]
    pub fn new(config: SchedulerConfig) -> Self {
        Self {
            pool: BlockPool::new(config.blocks),
            free_slots: (0..config.max_sequences).rev().map(Slot).collect(),
            config,
            sequences: BTreeMap::new(),
            running: BTreeSet::new(),
            queue: Queue::default(),
            queued_with_blocks: BTreeSet::new(),
            in_flight: VecDeque::new(),
            events: Vec::new(),
            next_request: 0,
            next_step: 0,
            statistics: Statistics::default(),
        }
    }

    /// Queues a request that arrives now.
    ///
    /// # Errors
    /// The queue is full, the request can never fit, or it has an invalid token or parameter.
    pub fn submit(&mut self, request: Request, now: Duration) -> Result<RequestId, SubmitError> {
        let table = BlockTable::new(request.scope);
        self.insert(request, table, 0, now)
    }

    /// Queues a request that continues the first `at` tokens of another one with its own tokens, and shares its blocks. Blocks are
    /// copied when one of the two writes to them.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); the other request has ended, or has fewer tokens that are known.
    pub fn fork(
        &mut self,
        other: RequestId,
        at: usize,
        mut request: Request,
        now: Duration,
    ) -> Result<RequestId, SubmitError> {
        let parent = self.sequences.get(&other).ok_or(SubmitError::Unknown(other))?;
        let Some(shared) = parent.tokens.get(..at) else {
            return Err(SubmitError::PastEnd { position: at, tokens: parent.tokens.len() });
        };
        request.tokens = [shared, &request.tokens].concat();
        let same = request.scope == parent.request.scope;
        let positions = if same { at.min(parent.computed).min(request.tokens.len().saturating_sub(1)) } else { 0 };
        self.check(&request)?;
        let (table, scope) = (&self.sequences[&other].table, request.scope);
        let table = if same { table.fork(&mut self.pool, positions) } else { BlockTable::new(scope) };
        let id = self.insert(request, table, positions, now)?;
        if positions > 0 {
            self.queued_with_blocks.insert(id);
        }
        Ok(id)
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        let &SchedulerConfig { context, vocabulary, max_queued, .. } = &self.config;
        request.sampling.validate()?;
        let tokens = request.tokens.len();
        if tokens == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if request.max_tokens == Some(0) {
            return Err(SubmitError::NoTokens);
        }
        if let Some(&token) = request.tokens.iter().find(|&&token| token >= vocabulary) {
            return Err(SubmitError::TokenOutOfRange { token, vocabulary });
        }
        if tokens >= context as usize {
            return Err(SubmitError::PromptTooLong { tokens, context });
        }
        // The last token is sampled, and has no row.
        let (needed, total) = (blocks_for(self.limit(request).0.saturating_sub(1)), self.pool.total());
        if needed > total {
            return Err(SubmitError::NeverFits { needed, total });
        }
        if self.queue.len() >= max_queued {
            return Err(SubmitError::QueueFull { queued: self.queue.len(), limit: max_queued });
        }
        Ok(())
    }

    /// The number of tokens at which a request ends, and why.
    fn limit(&self, request: &Request) -> (usize, EndReason) {
        let context = self.config.context as usize;
        match request.max_tokens.and_then(|max| request.tokens.len().checked_add(max)) {
            Some(limit) if limit <= context => (limit, EndReason::MaxTokens),
            _ => (context, EndReason::ContextFull),
        }
    }

    fn insert(
        &mut self,
        request: Request,
        table: BlockTable,
        computed: usize,
        now: Duration,
    ) -> Result<RequestId, SubmitError> {
        self.check(&request)?;
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let (limit, limit_reason) = self.limit(&request);
        let tokens = request.tokens.clone();
        let lookup = (request.draft == DraftSource::PromptLookup).then(|| {
            let mut lookup = PromptLookup::new();
            lookup.observe(&tokens);
            lookup
        });
        self.queue.enter(request.key);
        self.queue.push(request.key, id);
        let sequence = Sequence {
            id,
            arrival: now,
            prompt: tokens.len(),
            tokens,
            limit,
            limit_reason,
            slot: None,
            table,
            computed,
            planned: computed,
            pending: 0,
            verifying: false,
            last_step: None,
            text_version: 0,
            blocks_version: 0,
            mask: None,
            lookup,
            proposal: Vec::new(),
            request,
        };
        self.sequences.insert(id, sequence);
        Ok(id)
    }

    /// Ends a request, queued, running or in flight. Its rows in flight are dropped when they finish. Returns whether it was live.
    pub fn cancel(&mut self, request: RequestId) -> bool {
        self.end(request, EndReason::Cancelled)
    }

    /// Drops the tokens of a request from position `to` on, and continues after `then`. Rows in flight are dropped.
    ///
    /// # Errors
    /// The request has ended, has fewer known tokens, or would be left without a token or without room for one.
    pub fn rewind(&mut self, request: RequestId, to: usize, then: &[TokenId]) -> Result<(), SubmitError> {
        let &SchedulerConfig { context, vocabulary, .. } = &self.config;
        let sequence = self.sequences.get_mut(&request).ok_or(SubmitError::Unknown(request))?;
        if to > sequence.tokens.len() {
            return Err(SubmitError::PastEnd { position: to, tokens: sequence.tokens.len() });
        }
        let tokens = to + then.len();
        if tokens == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if tokens >= sequence.limit {
            return Err(SubmitError::PromptTooLong { tokens, context: context.min(super::step::narrow(sequence.limit)) });
        }
        if let Some(&token) = then.iter().find(|&&token| token >= vocabulary) {
            return Err(SubmitError::TokenOutOfRange { token, vocabulary });
        }
        sequence.rewind(&mut self.pool, to, then);
        if sequence.table.blocks().is_empty() {
            self.queued_with_blocks.remove(&request);
        }
        Ok(())
    }

    /// Gives the mask of allowed tokens for the next token of a constrained request: after it was submitted, and after each of its
    /// tokens. Until then the request waits and others go on.
    ///
    /// # Errors
    /// The request has ended, or the mask has another size than the vocabulary.
    pub fn allow(&mut self, request: RequestId, mask: TokenMask) -> Result<(), SubmitError> {
        let vocabulary = self.config.vocabulary;
        let sequence = self.sequences.get_mut(&request).ok_or(SubmitError::Unknown(request))?;
        if mask.len() != vocabulary.div_ceil(32) as usize {
            return Err(SubmitError::MaskSize { words: mask.len(), vocabulary });
        }
        sequence.mask = Some(mask);
        Ok(())
    }

    /// Proposes the next tokens of a request whose drafts come from the caller, after all of its known tokens. At most
    /// [`MAX_DRAFT`](super::MAX_DRAFT) are verified; the event of the step tells how many were right.
    ///
    /// # Errors
    /// The request has ended, or a token is outside the vocabulary.
    pub fn propose(&mut self, request: RequestId, draft: &[TokenId]) -> Result<(), SubmitError> {
        let vocabulary = self.config.vocabulary;
        let sequence = self.sequences.get_mut(&request).ok_or(SubmitError::Unknown(request))?;
        if let Some(&token) = draft.iter().find(|&&token| token >= vocabulary) {
            return Err(SubmitError::TokenOutOfRange { token, vocabulary });
        }
        sequence.proposal = draft.to_vec();
        Ok(())
    }

    /// The running requests whose next step can carry a draft of the caller and have none, and the most draft rows of that step.
    #[must_use]
    pub fn awaiting_drafts(&self) -> (Vec<RequestId>, usize) {
        let awaits = |id: &&RequestId| {
            let own = &self.sequences[id];
            let is_ready = own.remaining() == 1 && own.pending == 0 && !own.verifying && !own.request.constrained;
            is_ready && own.request.draft == DraftSource::Caller && own.proposal.is_empty()
        };
        let most = self.config.max_draft_rows.min(self.config.max_rows);
        (self.running.iter().filter(awaits).copied().collect(), most.saturating_sub(self.running.len()))
    }

    /// The known tokens of a request: the prompt and the generated ones.
    #[must_use]
    pub fn tokens(&self, request: RequestId) -> Option<&[TokenId]> {
        self.sequences.get(&request).map(|sequence| sequence.tokens.as_slice())
    }

    /// Ends the requests whose deadline has passed. [`plan_step`](Self::plan_step) does so too.
    pub fn expire(&mut self, now: Duration) {
        let late = |sequence: &&Sequence| sequence.request.deadline.is_some_and(|deadline| deadline <= now);
        let expired: Vec<RequestId> = self.sequences.values().filter(late).map(|sequence| sequence.id).collect();
        for request in expired {
            self.end(request, EndReason::DeadlineExceeded);
        }
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns counts and the state.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            queued: self.queue.len(),
            running: self.running.len(),
            in_flight: self.in_flight.len(),
            blocks: self.pool.counts(),
            evictions: self.pool.evictions,
            ..self.statistics
        }
    }

    /// Removes a request and frees all it holds. Computed blocks stay in the prefix cache.
    pub(super) fn end(&mut self, request: RequestId, reason: EndReason) -> bool {
        let Some(mut sequence) = self.sequences.remove(&request) else { return false };
        sequence.table.truncate(&mut self.pool, 0);
        self.queue.remove(sequence.request.key, request);
        self.queue.leave(sequence.request.key);
        self.queued_with_blocks.remove(&request);
        self.running.remove(&request);
        self.free_slots.extend(sequence.slot);
        self.events.push(Event::Ended { request, reason });
        true
    }
}
