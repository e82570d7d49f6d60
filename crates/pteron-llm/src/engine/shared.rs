//! The state that the engine's thread shares with those who submit requests.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::active::{Active, Constraint};
use super::adapters::Adapters;
use super::error::EngineError;
use super::request::EngineRequest;
use super::statistics::EngineStatistics;
use super::stream::{Channel, TokenStream};
use super::text::Text;
use super::thread_pool::ThreadPool;
use crate::batch::{DraftSource, PrefixScope, Request, RequestId, Scheduler, SubmitError};
use crate::error::Error;
use crate::generation::gpu_can_sample;
use crate::options::{ContextOverflow, GenerationOptions, SampleOn};
use crate::prompt::PromptEncoder;
use crate::sampling::{Sampling, SamplingError};

/// The most threads that compute constraints.
const CONSTRAINT_THREADS: usize = 4;

/// What the engine's handles, streams and threads share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// The engine's thread waits here when nothing can run.
    work: Condvar,
    /// Those who wait until no request is left.
    idle: Condvar,
    started: Instant,
    speculation: DraftSource,
    has_draft_model: bool,
    pub(super) encoder: PromptEncoder,
    pub(super) constraints: ThreadPool,
}

/// The requests that have not ended.
#[derive(Debug)]
pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) active: HashMap<RequestId, Active>,
    pub(super) counters: EngineStatistics,
    pub(super) adapters: Adapters,
    draining: bool,
    /// Whether all handles are gone.
    closed: bool,
    /// Why the engine takes no requests any more.
    failure: Option<EngineError>,
    /// Whether anything happened since the engine's thread last planned a step.
    has_work: bool,
    later: Later,
}

/// Code of others that must run without the lock: it may call the engine.
#[derive(Debug, Default)]
struct Later {
    wakers: Vec<Waker>,
    ended: Vec<Active>,
}

impl Shared {
    pub(super) fn new(
        scheduler: Scheduler,
        encoder: PromptEncoder,
        speculation: DraftSource,
        has_draft_model: bool,
    ) -> Self {
        let state = State {
            scheduler,
            active: HashMap::new(),
            counters: EngineStatistics::default(),
            adapters: Adapters::default(),
            draining: false,
            closed: false,
            failure: None,
            has_work: false,
            later: Later::default(),
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            idle: Condvar::new(),
            started: Instant::now(),
            speculation,
            has_draft_model,
            encoder,
            constraints: ThreadPool::new("constraints", CONSTRAINT_THREADS),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the state, and afterwards, without the lock, wakes those who wait for what it did.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let later = std::mem::take(&mut state.later);
        if state.active.is_empty() {
            self.idle.notify_all();
        }
        drop(state);
        later.wakers.into_iter().for_each(Waker::wake);
        drop(later.ended);
        result
    }

    /// As [`with`](Self::with), for changes after which more may run.
    pub(super) fn with_work<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = self.with(|state| {
            state.has_work = true;
            change(state)
        });
        self.work.notify_one();
        result
    }

    /// The time of the scheduler's clock.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn submit(self: &Arc<Self>, request: EngineRequest) -> Result<TokenStream, EngineError> {
        let EngineRequest { prompt, options, key, timeout, cache_salt, adapter, draft, constraint } = request;
        self.check(prompt.tokens.len(), &options)?;
        let (text, stop_tokens) = Text::new(&self.encoder, &options)?;
        let now = self.now();
        let on_host = constraint.is_some() || options.sample_on == SampleOn::Host || !gpu_can_sample(&options.sampling);
        let sampling = Arc::new(options.sampling);
        let mut request = Request {
            // The scheduler needs the parameters of those that the GPU samples.
            sampling: if on_host { Arc::default() } else { Arc::clone(&sampling) },
            max_tokens: options.max_tokens,
            stop_tokens,
            key,
            deadline: timeout.map(|timeout| now.saturating_add(timeout)),
            scope: PrefixScope { salt: cache_salt, ..PrefixScope::default() },
            constrained: constraint.is_some(),
            draft: self.draft_source(draft)?,
            sampled_by_caller: on_host,
            ..Request::new(prompt.tokens)
        };
        let mut active = Active {
            channel: Arc::new(Channel::default()),
            prompt: request.tokens.as_slice().into(),
            generated: Vec::new(),
            text: Some(text),
            sampling,
            on_host,
            constraint: constraint.map(Constraint::Idle),
            adapter: None,
            deadline: request.deadline,
            unsent: Vec::new(),
            submitted: Instant::now(),
            last_token: None,
            started: false,
            planned: 0,
            cached: 0,
        };
        let channel = Arc::clone(&active.channel);
        let id = self.with_work(|state| {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.draining {
                return Err(EngineError::Draining);
            }
            active.adapter = adapter.map(|name| state.adapters.acquire(&name)).transpose()?;
            request.scope.adapter = active.adapter;
            let id = state.scheduler.submit(request, now).inspect_err(|_| {
                active.adapter.into_iter().for_each(|adapter| state.adapters.release(adapter));
            })?;
            state.active.insert(id, active);
            self.advance_constraint(state, id, None);
            Ok(id)
        })?;
        Ok(TokenStream::new(Arc::clone(self), channel, id))
    }

    /// Who drafts tokens for a request, as the scheduler knows it: the engine is the caller that proposes drafts of its model.
    fn draft_source(&self, asked: Option<DraftSource>) -> Result<DraftSource, EngineError> {
        match asked.unwrap_or(self.speculation) {
            DraftSource::Model if self.has_draft_model => Ok(DraftSource::Caller),
            DraftSource::Model => Err(Error::Misuse("the engine was loaded without a draft model".to_owned()).into()),
            DraftSource::Caller => Ok(DraftSource::None),
            other => Ok(other),
        }
    }

    /// Checks what the scheduler does not.
    fn check(&self, tokens: usize, options: &GenerationOptions) -> Result<(), EngineError> {
        let context = self.encoder.metadata.context_length;
        if tokens > context as usize {
            return Err(SubmitError::PromptTooLong { tokens, context }.into());
        }
        if options.on_overflow != ContextOverflow::Stop {
            let reason = "the engine does not drop old tokens: shorten the conversation when the context is full";
            return Err(Error::Misuse(reason.to_owned()).into());
        }
        check_sampling(&options.sampling, self.encoder.metadata.vocab_size)?;
        Ok(())
    }

    /// Ends a request whose stream is gone.
    pub(super) fn cancel(&self, request: RequestId) {
        self.with_work(|state| {
            if let Some(active) = state.remove(request) {
                state.scheduler.cancel(request);
                state.counters.cancelled += 1;
                state.later.ended.push(active);
            }
        });
    }

    pub(super) fn drain(&self) {
        self.with(|state| state.draining = true);
    }

    /// Called when the last handle is gone: the engine ends with the last request.
    pub(super) fn close(&self) -> bool {
        self.with_work(|state| {
            state.closed = true;
            state.active.is_empty()
        })
    }

    pub(super) fn wait_idle(&self, timeout: Duration) -> bool {
        let busy = |state: &mut State| !state.active.is_empty();
        let waited = self.idle.wait_timeout_while(self.lock(), timeout, busy);
        waited.unwrap_or_else(PoisonError::into_inner).0.active.is_empty()
    }

    /// Blocks the engine's thread until something happens. Returns false when the engine has ended.
    pub(super) fn wait_for_work(&self) -> bool {
        let mut state = self.lock();
        while !state.has_work && !state.adapters.has_loads() {
            if state.closed && state.active.is_empty() {
                return false;
            }
            let deadline = state.active.values().filter_map(|active| active.deadline).min();
            let Some(deadline) = deadline else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() {
                return true;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends all requests, and refuses new ones.
    pub(super) fn fail_all(&self, error: &EngineError) {
        self.with(|state| {
            state.failure.get_or_insert_with(|| error.clone());
            state.scheduler.abandon_steps();
            state.adapters.abandon();
            let requests: Vec<RequestId> = state.active.keys().copied().collect();
            requests.into_iter().for_each(|request| state.fail(request, error.clone()));
        });
    }

    pub(super) fn statistics(&self) -> EngineStatistics {
        let state = self.lock();
        let (scheduler, counters) = (state.scheduler.statistics(), state.counters.clone());
        drop(state);
        let count = |blocks: u32| usize::try_from(blocks).unwrap_or(usize::MAX);
        EngineStatistics {
            waiting: scheduler.queued,
            running: scheduler.running,
            blocks_total: count(scheduler.blocks.total),
            blocks_used: count(scheduler.blocks.used),
            blocks_cached: count(scheduler.blocks.cached),
            preemptions: scheduler.preemptions,
            drafted: scheduler.drafted,
            accepted: scheduler.accepted,
            steps: scheduler.steps,
            ..counters
        }
    }
}

impl State {
    /// Forgets that something happened, because a step is planned now.
    pub(super) fn take_work(&mut self) {
        self.has_work = false;
    }

    /// Why the engine takes no requests any more, if it does not.
    pub(super) fn failure(&self) -> Option<&EngineError> {
        self.failure.as_ref()
    }

    /// Removes a request that ends.
    fn remove(&mut self, request: RequestId) -> Option<Active> {
        let active = self.active.remove(&request)?;
        active.adapter.into_iter().for_each(|adapter| self.adapters.release(adapter));
        Some(active)
    }

    /// Sends what a request has to say.
    pub(super) fn send(&mut self, request: RequestId) {
        let Some(active) = self.active.get_mut(&request) else { return };
        self.counters.record_tokens(active);
        self.later.wakers.extend(active.send(None, false));
    }

    /// Ends a request whose text is complete.
    pub(super) fn complete(&mut self, request: RequestId) {
        self.scheduler.cancel(request);
        let Some(mut active) = self.remove(request) else { return };
        self.counters.record_tokens(&mut active);
        self.counters.finished += 1;
        self.later.wakers.extend(active.send(None, true));
        self.later.ended.push(active);
    }

    /// Ends a request with an error.
    pub(super) fn fail(&mut self, request: RequestId, error: EngineError) {
        self.scheduler.cancel(request);
        let Some(mut active) = self.remove(request) else { return };
        self.counters.record_tokens(&mut active);
        self.counters.failed += 1;
        self.later.wakers.extend(active.send(Some(error), true));
        self.later.ended.push(active);
    }
}

impl EngineStatistics {
    /// Counts the tokens that a request is about to send.
    fn record_tokens(&mut self, active: &mut Active) {
        for _ in 0..active.unsent.len() {
            let now = Instant::now();
            match active.last_token.replace(now) {
                None => self.time_to_first_token.record(now.duration_since(active.submitted)),
                Some(last) => self.inter_token.record(now.duration_since(last)),
            }
        }
    }
}

fn check_sampling(sampling: &Sampling, vocabulary: u32) -> Result<(), SubmitError> {
    sampling.validate()?;
    match sampling.logit_bias.iter().find(|(token, _)| *token >= vocabulary) {
        Some(&(token, _)) => {
            let vocabulary = usize::try_from(vocabulary).unwrap_or(usize::MAX);
            Err(SamplingError::BiasToken { token, vocabulary }.into())
        }
        None => Ok(()),
    }
}
