//! Drives a scheduler with the simulated model, and compares every token with the sequence's own text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::model::{SimulatedGpu, VOCABULARY, entry, root, sample};
use crate::batch::pool::BLOCK;
use crate::batch::{
    DraftSource, EndReason, Event, PlannedStep, Request, RequestId, Scheduler, SchedulerConfig, SubmitError, TokenMask,
    TokenUse, blocks_for,
};
use crate::tokenizer::TokenId;

/// A text as it would be generated alone.
pub(super) struct Text {
    pub(super) request: Request,
    pub(super) tokens: Vec<TokenId>,
    prompt: usize,
    hashes: Vec<u64>,
    limit: usize,
    arrival: u64,
}

impl Text {
    fn push(&mut self, token: TokenId) {
        let before = self.hashes.last().copied().unwrap_or(root(self.request.scope.adapter.map(|adapter| adapter.0)));
        self.hashes.push(entry(before, token));
        self.tokens.push(token);
    }

    pub(super) fn next(&self) -> TokenId {
        let (hash, last) = (*self.hashes.last().unwrap(), *self.tokens.last().unwrap());
        let mask = self.request.constrained.then(|| self.mask());
        let position = u32::try_from(self.tokens.len()).unwrap();
        sample(hash, last, position, &self.request.sampling, &self.history(), mask.as_deref())
    }

    /// Some tokens, which depend on the text.
    fn mask(&self) -> TokenMask {
        let hash = *self.hashes.last().unwrap();
        Arc::new([u32::try_from(hash >> 32).unwrap() | 1, u32::try_from(hash & 0xFF).unwrap()])
    }

    fn history(&self) -> Vec<TokenUse> {
        if !self.request.sampling.has_penalties() {
            return Vec::new();
        }
        let mut uses = BTreeMap::new();
        for (position, &token) in self.tokens.iter().enumerate() {
            let used: &mut TokenUse = uses.entry(token).or_insert(TokenUse { token, in_prompt: false, generated: 0 });
            used.in_prompt |= position < self.prompt;
            used.generated += u32::from(position >= self.prompt);
        }
        uses.into_values().collect()
    }
}

pub(super) struct Harness {
    pub(super) scheduler: Scheduler,
    pub(super) gpu: SimulatedGpu,
    pub(super) texts: BTreeMap<RequestId, Text>,
    pub(super) ended: Vec<(RequestId, EndReason, Text)>,
    /// Steps in flight, and what they sampled.
    pub(super) steps: VecDeque<(PlannedStep, Vec<TokenId>)>,
    pub(super) now: Duration,
    /// Steps planned.
    pub(super) planned: u64,
    /// The most steps between a request's arrival and its end.
    pub(super) longest_wait: u64,
}

impl Harness {
    pub(super) fn new(config: SchedulerConfig) -> Self {
        assert_eq!(config.vocabulary, VOCABULARY);
        Self {
            gpu: SimulatedGpu::new(config.blocks, config.max_sequences),
            scheduler: Scheduler::new(config),
            texts: BTreeMap::new(),
            ended: Vec::new(),
            steps: VecDeque::new(),
            now: Duration::ZERO,
            planned: 0,
            longest_wait: 0,
        }
    }

    pub(super) fn submit(&mut self, request: Request) -> Result<RequestId, SubmitError> {
        let id = self.scheduler.submit(request.clone(), self.now)?;
        self.start(id, request);
        Ok(id)
    }

    pub(super) fn fork(&mut self, other: RequestId, at: usize, mut request: Request) -> Result<RequestId, SubmitError> {
        let id = self.scheduler.fork(other, at, request.clone(), self.now)?;
        request.tokens = [&self.texts[&other].tokens[..at], &request.tokens].concat();
        self.start(id, request);
        Ok(id)
    }

    fn start(&mut self, id: RequestId, request: Request) {
        let context = self.scheduler.config.context as usize;
        let limit = request.max_tokens.map_or(context, |max| context.min(request.tokens.len() + max));
        let (tokens, prompt, arrival) = (request.tokens.clone(), request.tokens.len(), self.planned);
        let mut text = Text { request, tokens: Vec::new(), prompt, hashes: Vec::new(), limit, arrival };
        tokens.into_iter().for_each(|token| text.push(token));
        self.texts.insert(id, text);
        self.prepare(id);
    }

    pub(super) fn rewind(&mut self, id: RequestId, to: usize, then: &[TokenId]) -> Result<(), SubmitError> {
        self.scheduler.rewind(id, to, then)?;
        let text = self.texts.get_mut(&id).unwrap();
        text.tokens.truncate(to);
        text.hashes.truncate(to);
        text.prompt = text.prompt.min(to);
        then.iter().for_each(|&token| text.push(token));
        self.prepare(id);
        Ok(())
    }

    /// Gives the next mask and the caller's draft, right for three tokens.
    fn prepare(&mut self, id: RequestId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        if text.request.constrained {
            self.scheduler.allow(id, text.mask()).unwrap();
        }
        if text.request.draft == DraftSource::Caller {
            let length = text.tokens.len();
            for _ in 0..3 {
                text.push(text.next());
            }
            let mut draft = text.tokens.split_off(length);
            text.hashes.truncate(length);
            draft.push(0);
            self.scheduler.propose(id, &draft).unwrap();
        }
    }

    /// Plans a step, if one can be planned, and runs it.
    pub(super) fn plan(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let planned = self.scheduler.plan_step(self.now);
        self.take_events();
        let Some(planned) = planned else {
            let waits = self.steps.is_empty() && !self.texts.is_empty();
            assert!(!waits, "{} requests, nothing in flight, and nothing planned", self.texts.len());
            return false;
        };
        let config = &self.scheduler.config;
        assert!(planned.step.tokens.len() <= config.max_rows);
        assert!(planned.step.sequences.iter().all(|rows| rows.row_count as usize <= config.max_chunk.max(9)));
        assert!(planned.step.block_tables.iter().all(|&block| block < config.blocks));
        self.planned += 1;
        let sampled = self.gpu.run(&planned);
        self.steps.push_back((planned, sampled));
        true
    }

    /// Finishes the oldest step in flight.
    pub(super) fn finish(&mut self) -> bool {
        let Some((planned, sampled)) = self.steps.pop_front() else { return false };
        self.scheduler.finish_step(planned.id, &sampled).unwrap();
        self.take_events();
        true
    }

    /// Runs until all requests have ended.
    pub(super) fn drain(&mut self) {
        while !self.texts.is_empty() {
            while self.plan() {}
            self.finish();
            self.check();
        }
        while self.finish() {}
        self.check();
    }

    pub(super) fn take_events(&mut self) {
        for event in self.scheduler.take_events() {
            match event {
                Event::Tokens { request, tokens, samples, drafted, accepted } => {
                    assert_eq!(samples.len(), tokens.len());
                    assert!(accepted <= drafted && tokens.len() <= accepted + 1);
                    let text = self.texts.get_mut(&request).unwrap();
                    for token in tokens {
                        assert_eq!(
                            token,
                            text.next(),
                            "request {request:?} differs from its own run at {}",
                            text.tokens.len()
                        );
                        text.push(token);
                    }
                    self.prepare_live(request);
                }
                Event::Ended { request, reason } => {
                    let text = self.texts.remove(&request).expect("requests end once");
                    match reason {
                        EndReason::StopToken(token) => {
                            assert!(token == text.next() && text.request.stop_tokens.contains(&token));
                        }
                        EndReason::MaxTokens | EndReason::ContextFull => assert_eq!(text.tokens.len(), text.limit),
                        EndReason::DeadlineExceeded => assert!(text.request.deadline.unwrap() <= self.now),
                        EndReason::Cancelled => {}
                    }
                    self.longest_wait = self.longest_wait.max(self.planned - text.arrival);
                    self.ended.push((request, reason, text));
                }
            }
        }
    }

    fn prepare_live(&mut self, id: RequestId) {
        if self.scheduler.tokens(id).is_some() {
            self.prepare(id);
        }
    }

    /// Checks all that holds between any two calls.
    pub(super) fn check(&self) {
        let scheduler = &self.scheduler;
        let mut named = Vec::new();
        let mut in_flight = BTreeSet::new();
        for (id, sequence) in &scheduler.sequences {
            assert!(sequence.computed <= sequence.planned);
            assert!(sequence.verifying || sequence.planned <= sequence.length());
            assert_eq!(sequence.table.blocks().len(), blocks_for(sequence.planned));
            assert!(sequence.table.published() * BLOCK <= sequence.computed);
            assert_eq!(sequence.slot.is_some(), scheduler.running.contains(id));
            assert!(sequence.length() <= sequence.limit);
            let has_blocks = !sequence.table.blocks().is_empty();
            assert_eq!(sequence.slot.is_none() && has_blocks, scheduler.queued_with_blocks.contains(id));
            named.extend_from_slice(sequence.table.blocks());
            let rows = sequence.computed / BLOCK..blocks_for(sequence.planned);
            in_flight.extend(&sequence.table.blocks()[rows]);
        }
        scheduler.pool.check(named.into_iter(), &in_flight);
        let statistics = scheduler.statistics();
        let blocks = statistics.blocks;
        assert_eq!(blocks.used + blocks.cached + blocks.free, scheduler.config.blocks);
        assert_eq!(scheduler.sequences.len(), self.texts.len());
        assert_eq!(statistics.queued + statistics.running, self.texts.len());
        assert_eq!(scheduler.free_slots.len() + statistics.running, scheduler.config.max_sequences as usize);
        assert!(self.texts.iter().all(|(id, text)| scheduler.tokens(*id) == Some(&text.tokens)));
        if self.texts.is_empty() {
            assert_eq!(blocks.used, 0, "blocks leak");
        }
    }
}
