//! The engine's thread: plans steps, runs them on the GPU, and tells the streams what they sampled.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::adapters::LoadRequest;
use super::draft::Drafter;
use super::error::EngineError;
use super::sampling::{self, Results, Sample, Scratch};
use super::shared::{Shared, State};
use super::step::{AdapterSlots, Feedback, ModelStep};
use super::thread_pool::ThreadPool;
use crate::batch::{EndReason, Event, PlannedStep, RequestId};
use crate::error::{Error, Result};
use crate::generation::FinishReason;
use crate::paged_model::{PagedModel, PendingSamples};
use crate::sampling::{SampledToken, SamplingError};
use crate::tokenizer::TokenId;

/// The most threads that sample.
const SAMPLING_THREADS: usize = 8;

/// The engine's thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    model: PagedModel,
    threads: ThreadPool,
    samplers: Scratch,
    in_flight: VecDeque<(ModelStep, PendingSamples)>,
    /// The samples of the step that was started last.
    feedback: Feedback,
    adapters: AdapterSlots,
    drafter: Option<Drafter>,
}

/// Ends all requests when the thread ends, also where it panics.
struct EndAll(Arc<Shared>);

impl Drop for EndAll {
    fn drop(&mut self) {
        self.0.fail_all(&EngineError::Stopped);
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, model: PagedModel, drafter: Option<Drafter>) -> Self {
        let threads = ThreadPool::new("sampling", SAMPLING_THREADS);
        Self {
            shared,
            model,
            threads,
            samplers: Scratch::default(),
            in_flight: VecDeque::new(),
            feedback: Feedback::default(),
            adapters: AdapterSlots::new(),
            drafter,
        }
    }

    /// Runs until the last handle and the last request are gone.
    pub(super) fn run(mut self) {
        let _end = EndAll(Arc::clone(&self.shared));
        loop {
            self.change_adapters();
            let went_on = self.draft().and_then(|()| self.start_steps()).and_then(|()| self.finish_oldest());
            match went_on {
                Ok(true) => {}
                Ok(false) if self.shared.wait_for_work() => {}
                Ok(false) => return,
                Err(error) => {
                    self.in_flight.clear();
                    self.shared.fail_all(&EngineError::Model(Arc::new(error)));
                }
            }
        }
    }

    /// Frees the slots of adapters that nobody uses any more, and loads those that were asked for. Steps in flight are not disturbed.
    fn change_adapters(&mut self) {
        let (unused, loads) = self.shared.with(|state| state.adapters.take_changes());
        for slot in unused.iter().filter_map(|id| self.adapters.remove(id)) {
            // The slot is this thread's, and held until here.
            let _ = self.model.unload_adapter(slot);
        }
        for LoadRequest { name, adapter, reply } in loads {
            let loaded = self.model.load_adapter(&adapter);
            let rank = loaded.as_ref().ok().map(|_| adapter.rank());
            let id = self.shared.with(|state| state.adapters.finish_load(&name, rank));
            let result = loaded.map(|slot| self.adapters.extend(id.map(|id| (id, slot))));
            // Nobody waits for it if the thread that asked has ended.
            let _ = reply.send(result.map_err(|error| match error {
                Error::DeviceLost(_) => EngineError::Model(Arc::new(error)),
                other => EngineError::Adapter(Arc::new(other)),
            }));
        }
    }

    /// Drafts tokens for the requests that can have some in their next step.
    fn draft(&mut self) -> Result<()> {
        let Some(drafter) = &mut self.drafter else { return Ok(()) };
        let jobs = self.shared.with(|state| drafter.jobs(state));
        if jobs.is_empty() {
            return Ok(());
        }
        let drafts = drafter.draft(&jobs)?;
        self.shared.with(|state| {
            for (request, draft) in drafts {
                // It may have ended in the meantime.
                let _ = state.scheduler.propose(request, &draft);
            }
        });
        Ok(())
    }

    /// Starts as many steps as may be in flight.
    fn start_steps(&mut self) -> Result<()> {
        while let Some((planned, on_host)) = self.plan() {
            let step = ModelStep::new(planned, &on_host, &self.feedback, &self.adapters)?;
            let rows = u32::try_from(step.host_samples).unwrap_or(u32::MAX);
            let pending = self.model.start_with_logits(&step.paged(), rows)?;
            self.feedback = step.feedback();
            self.in_flight.push_back((step, pending));
        }
        Ok(())
    }

    /// Plans the next step. Returns also which of its sequences the host samples.
    fn plan(&self) -> Option<(PlannedStep, Vec<bool>)> {
        let now = self.shared.now();
        self.shared.with(|state| {
            state.take_work();
            let planned = state.scheduler.plan_step(now);
            // Some may have reached their deadline.
            self.take_events(state, &Vec::new());
            let planned = planned?;
            let on_host = planned
                .step
                .sequences
                .iter()
                .zip(&planned.requests)
                .map(|(rows, request)| state.count_rows(*request, rows.position as usize, rows.row_count as usize));
            let on_host = on_host.collect();
            Some((planned, on_host))
        })
    }

    /// Waits for the oldest step and takes its samples. Returns false if no step is in flight.
    fn finish_oldest(&mut self) -> Result<bool> {
        let Some((step, pending)) = self.in_flight.pop_front() else { return Ok(false) };
        let sampled = pteron::block_on(pending.wait())?;
        let mut results: Results = vec![None; step.samples.len()];
        for (&index, token) in step.order.iter().zip(&sampled.tokens).skip(step.host_samples) {
            results[index] = Some(gpu_sample(*token, self.model.vocab_size()));
        }
        if step.host_samples > 0 {
            let jobs = self.shared.with(|state| sampling::jobs(state, &step));
            let vocabulary = self.model.vocab_size() as usize;
            sampling::run(&self.threads, &self.samplers, jobs, (sampled.logits, vocabulary), &mut results);
        }
        self.shared.with(|state| {
            state.counters.gpu_seconds += sampled.gpu_seconds.unwrap_or(0.0);
            for own in &step.sequences {
                if let Some(error) = first_error(&results[own.samples.clone()], &own.draft) {
                    state.fail(own.request, error.into());
                }
            }
            let token = |result: &Sample| match result {
                Some(Ok(sampled)) => sampled.token,
                _ => 0,
            };
            let tokens: Vec<TokenId> = results.iter().map(token).collect();
            let finished = state.scheduler.finish_step(step.id, &tokens);
            finished.map_err(|error| Error::Misuse(error.to_string()))?;
            self.take_events(state, &results);
            Ok(true)
        })
    }

    /// Tells requests what became of them.
    fn take_events(&self, state: &mut State, results: &Results) {
        let mut touched = BTreeSet::new();
        let mut next_sample = 0;
        for event in state.scheduler.take_events() {
            match event {
                Event::Tokens { request, tokens, samples, .. } => {
                    touched.insert(request);
                    next_sample = samples.end;
                    state.take_tokens(request, &tokens, results.get(samples).unwrap_or_default());
                }
                // It follows the request's tokens of the same step.
                Event::Ended { request, reason } => state.end(request, reason, results.get(next_sample)),
            }
        }
        for request in touched {
            let Some(active) = state.active.get(&request) else { continue };
            match (&active.constraint, active.unsent.last().map(|token| token.token)) {
                (Some(_), Some(token)) => self.shared.advance_constraint(state, request, Some(token)),
                _ => state.send(request),
            }
        }
    }
}

impl State {
    /// Counts planned rows of a request. Returns whether the host samples it.
    fn count_rows(&mut self, request: RequestId, position: usize, count: usize) -> bool {
        let Some(active) = self.active.get_mut(&request) else { return false };
        let cached = active.count_rows(position, count);
        self.counters.cached_tokens += cached as u64;
        if !std::mem::replace(&mut active.started, true) {
            self.counters.prompt_tokens += active.prompt.len() as u64;
            self.counters.queue_time.record(Instant::now().duration_since(active.submitted));
        }
        active.on_host
    }

    /// Adds tokens to a text, up to a stop string.
    fn take_tokens(&mut self, request: RequestId, tokens: &[TokenId], results: &[Sample]) {
        for (&token, result) in tokens.iter().zip(results) {
            let Some(active) = self.active.get_mut(&request) else { return };
            self.counters.generated_tokens += 1;
            if active.push(sampled(token, Some(result))) {
                self.complete(request);
            }
        }
    }

    /// Ends a request as the scheduler did.
    fn end(&mut self, request: RequestId, reason: EndReason, next: Option<&Sample>) {
        let Some(active) = self.active.get_mut(&request) else { return };
        match reason {
            EndReason::StopToken(token) => active.finish_with(sampled(token, next), FinishReason::StopToken(token)),
            EndReason::MaxTokens => active.finish(FinishReason::MaxTokens),
            EndReason::ContextFull => active.finish(FinishReason::ContextFull),
            EndReason::DeadlineExceeded => return self.fail(request, EngineError::DeadlineExceeded),
            EndReason::Cancelled => return,
        }
        self.complete(request);
    }
}

/// The sample of a token, with log probabilities where they were asked for.
fn sampled(token: TokenId, result: Option<&Sample>) -> SampledToken {
    match result {
        Some(Some(Ok(sampled))) if sampled.token == token => sampled.clone(),
        _ => SampledToken { token, logprob: None, top_logprobs: Vec::new() },
    }
}

/// A token that the GPU sampled. Logits that are not numbers have none.
fn gpu_sample(token: Option<TokenId>, vocabulary: u32) -> std::result::Result<SampledToken, SamplingError> {
    let token = token.filter(|token| *token < vocabulary);
    let token = token.ok_or(SamplingError::NoToken("the model's logits are not numbers"))?;
    Ok(SampledToken { token, logprob: None, top_logprobs: Vec::new() })
}

/// The error of a sequence's first samples, up to the first that is not the draft's.
fn first_error(results: &[Sample], draft: &[TokenId]) -> Option<SamplingError> {
    for (index, result) in results.iter().enumerate() {
        match result {
            Some(Ok(sampled)) if draft.get(index) == Some(&sampled.token) => {}
            Some(Ok(_)) => return None,
            Some(Err(error)) => return Some(error.clone()),
            None => return Some(SamplingError::NoToken("the logits were not read back")),
        }
    }
    None
}
