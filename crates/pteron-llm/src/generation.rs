//! Text as it is generated, token by token.
//!
//! Where the sampling options allow it, tokens are sampled on the GPU, and a step is started before the token of the last one is
//! read. Otherwise logits are read back and [`Sampler`] runs on the host. Greedy texts are the same either way.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::constraint::{OwnConstraint, TokenConstraint};
use crate::decode_step::{GpuSampling, PendingToken, StepTokens, start_sampled_steps, start_step};
use crate::decode_stream::DecodeStream;
use crate::error::{Error, Result};
use crate::options::{ContextOverflow, GenerationOptions, SampleOn};
use crate::sampling::{History, Sampler, Sampling};
use crate::session::Session;
use crate::step_pipeline::{StepOutput, StepPipeline};
use crate::stop::{StopConditions, StopFilter};
use crate::tokenizer::{ShowSpecial, TokenId};

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// An end-of-sequence or stop token.
    StopToken(TokenId),
    /// A stop string, by its index in the options.
    StopString(usize),
    /// The limit on tokens.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// A constraint's text is complete.
    ConstraintComplete,
}

/// A generated token and the text that it completes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GeneratedToken {
    /// The token.
    pub token: TokenId,
    /// The text that no later token changes: whole characters, often a word, sometimes nothing.
    pub text: String,
    /// The token's log probability, if the options ask for it.
    pub logprob: Option<f32>,
    /// The most likely tokens and their log probabilities, as many as the options ask for.
    pub top_logprobs: Vec<(TokenId, f32)>,
    /// Why the generation ended, on the last token.
    pub finish: Option<FinishReason>,
}

impl GeneratedToken {
    fn new(token: TokenId) -> Self {
        Self { token, text: String::new(), logprob: None, top_logprobs: Vec::new(), finish: None }
    }
}

/// A text that is being generated: a [`Stream`] of tokens that ends after the token with a [`FinishReason`], or after an error.
///
/// Natively, polling blocks the thread until the next token is there; in a browser it never does. In an async runtime, generate on a
/// thread for blocking work, such as tokio's `spawn_blocking`, and send the tokens through a channel.
///
/// Dropping the generation stops it. The session keeps the tokens that were returned, and the next prompt reuses them. Dropping a
/// future of [`next`](Self::next) loses nothing: the next call returns the token that it would have returned.
#[derive(Debug)]
pub struct Generation<'s> {
    session: SessionRef<'s>,
    prompt: Vec<TokenId>,
    generated: Vec<TokenId>,
    sampler: Sampler,
    stop: StopConditions,
    filter: Option<StopFilter>,
    decoder: Option<DecodeStream>,
    options: GenerationOptions,
    constraint: Option<OwnConstraint>,
    /// Whether the constraint says that nothing may follow the last token.
    complete: bool,
    on_gpu: bool,
    steps: StepPipeline,
    /// Tokens of the prompt that a call on the host path runs, which the session has when it returns.
    running: Vec<TokenId>,
    /// A sampled token that no step has taken yet.
    pending_token: Option<TokenId>,
    finish: Option<FinishReason>,
    failed: bool,
    gpu_seconds: (f64, f64),
}

/// The session of a generation, borrowed or owned.
#[derive(Debug)]
pub(crate) enum SessionRef<'s> {
    Borrowed(&'s mut Session),
    Owned(Box<Session>),
}

impl std::ops::Deref for SessionRef<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            Self::Borrowed(session) => session,
            Self::Owned(session) => session,
        }
    }
}

impl std::ops::DerefMut for SessionRef<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        match self {
            Self::Borrowed(session) => session,
            Self::Owned(session) => session,
        }
    }
}

impl Stream for Generation<'_> {
    type Item = Result<GeneratedToken>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_token(context).map(Result::transpose)
    }
}

impl<'s> Generation<'s> {
    pub(crate) fn new(session: SessionRef<'s>, prompt: &[TokenId], options: GenerationOptions) -> Result<Self> {
        let mut stop_tokens = options.stop_tokens.clone();
        if !options.ignore_eos {
            stop_tokens.extend(&session.model.metadata().eos_ids);
        }
        let stop = StopConditions::new(options.stop_strings.clone(), stop_tokens)?;
        let sampler = Sampler::new(options.sampling.clone())?;
        let show = if options.show_special { ShowSpecial::Yes } else { ShowSpecial::No };
        let on_gpu = options.sample_on == SampleOn::Gpu && gpu_can_sample(&options.sampling);
        Ok(Self {
            prompt: prompt.to_vec(),
            generated: Vec::new(),
            filter: Some(stop.filter()),
            decoder: Some(session.model.tokenizer().decode_stream(show)),
            session,
            sampler,
            stop,
            options,
            constraint: None,
            complete: false,
            on_gpu,
            steps: StepPipeline::new(),
            running: Vec::new(),
            pending_token: None,
            finish: None,
            failed: false,
            gpu_seconds: (0.0, 0.0),
        })
    }

    /// Lets a constraint decide which tokens may come next, from the first one on. The host then samples.
    #[must_use]
    pub fn with_constraint(mut self, constraint: Box<dyn TokenConstraint>) -> Self {
        self.constraint = Some(OwnConstraint::new(constraint));
        self.on_gpu = false;
        self
    }

    /// Returns the next token and its text; `None` when the generation has ended. Natively the future blocks its thread until the
    /// token is there.
    ///
    /// # Errors
    /// The device fails, the logits are not numbers, or a constraint cannot go on. The generation has ended then; the session keeps the
    /// tokens returned before.
    pub async fn next(&mut self) -> Result<Option<GeneratedToken>> {
        poll_fn(|context| self.poll_token(context)).await
    }

    /// Returns the whole text from here on. Natively the future blocks its thread until the text is complete.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn text(mut self) -> Result<String> {
        let mut text = String::new();
        while let Some(token) = self.next().await? {
            text += &token.text;
        }
        Ok(text)
    }

    /// Why the generation ended; `None` while it goes on.
    #[must_use]
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The tokens generated so far, without a token that ended the text.
    #[must_use]
    pub fn generated(&self) -> &[TokenId] {
        &self.generated
    }

    /// GPU seconds of the prompt and of the tokens after it, if the device has timestamps and the GPU samples.
    #[must_use]
    pub fn gpu_seconds(&self) -> Option<(f64, f64)> {
        (self.gpu_seconds.0 > 0.0).then_some(self.gpu_seconds)
    }

    fn poll_token(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<GeneratedToken>>> {
        if self.finish.is_some() || self.failed {
            return Poll::Ready(Ok(None));
        }
        if self.options.max_tokens == Some(0) {
            return Poll::Ready(Ok(self.end(FinishReason::MaxTokens, None)));
        }
        let sampled = ready!(self.poll_sampled(context)).inspect_err(|_| {
            self.failed = true;
            self.steps.clear();
        });
        Poll::Ready(sampled.map(|sampled| match sampled {
            Some(token) => self.take(token),
            None => self.end(FinishReason::ContextFull, None),
        }))
    }

    /// Decodes a token's text and checks whether it is the last one.
    fn take(&mut self, mut token: GeneratedToken) -> Option<GeneratedToken> {
        if self.stop.is_stop_token(token.token) {
            return self.end(FinishReason::StopToken(token.token), Some(token));
        }
        self.generated.push(token.token);
        if let (Some(decoder), Some(filter)) = (&mut self.decoder, &mut self.filter) {
            token.text = filter.push(&decoder.push(token.token));
            if let Some(index) = filter.matched() {
                self.finish = Some(FinishReason::StopString(index));
                self.steps.clear();
                return Some(GeneratedToken { finish: self.finish, ..token });
            }
        }
        if self.complete {
            return self.end(FinishReason::ConstraintComplete, Some(token));
        }
        if self.options.max_tokens.is_some_and(|most| self.generated.len() >= most) {
            return self.end(FinishReason::MaxTokens, Some(token));
        }
        Some(token)
    }

    /// Ends the generation and releases text that was held back.
    fn end(&mut self, finish: FinishReason, last: Option<GeneratedToken>) -> Option<GeneratedToken> {
        self.finish = Some(finish);
        self.steps.clear();
        let (decoder, mut filter) = (self.decoder.take()?, self.filter.take()?);
        let mut tail = filter.push(&decoder.finish());
        if filter.matched().is_none() {
            tail += &filter.finish();
        }
        match last {
            Some(token) => Some(GeneratedToken { text: token.text + &tail, finish: self.finish, ..token }),
            None if tail.is_empty() => None,
            None => Some(GeneratedToken { text: tail, finish: self.finish, ..GeneratedToken::new(*self.generated.last()?) }),
        }
    }

    fn context(&self) -> usize {
        self.session.model.metadata().context_length as usize
    }

    /// Samples the next token; `None` if the context is full.
    fn poll_sampled(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<GeneratedToken>>> {
        if self.steps.is_empty() && !self.start_from_known_tokens()? {
            return Poll::Ready(Ok(None));
        }
        while self.on_gpu && !self.steps.is_full() && self.start_pipelined()? {}
        let output = ready!(self.steps.poll_oldest(context));
        Poll::Ready(output.transpose().and_then(|output| match output {
            Some(StepOutput::Token { id, gpu_seconds }) => self.take_sampled(id, gpu_seconds).map(Some),
            Some(StepOutput::Logits(logits)) => self.sample_on_host(&logits).map(Some),
            None => Ok(None),
        }))
    }

    fn take_sampled(&mut self, id: TokenId, gpu_seconds: Option<f64>) -> Result<GeneratedToken> {
        // NaN logits have no argmax.
        let vocabulary = self.session.model.metadata().vocab_size;
        if id >= vocabulary {
            return Err(Error::TokenOutOfRange { token: id, vocabulary });
        }
        let seconds = gpu_seconds.unwrap_or(0.0);
        match self.generated.is_empty() {
            true => self.gpu_seconds.0 += seconds,
            false => self.gpu_seconds.1 += seconds,
        }
        // A pipelined step has taken it already.
        match self.steps.is_empty() {
            true => self.pending_token = Some(id),
            false => self.session.tokens.push(id),
        }
        Ok(GeneratedToken::new(id))
    }

    fn sample_on_host(&mut self, logits: &[f32]) -> Result<GeneratedToken> {
        self.session.tokens.append(&mut self.running);
        let history = History { prompt: &self.prompt, generated: &self.generated };
        let mask = self.constraint.as_mut().map(|constraint| constraint.get().mask()).transpose()?;
        let sampled = self.sampler.sample_allowed(logits, &history, mask.as_deref())?;
        if let Some(constraint) = self.constraint.as_mut().filter(|_| !self.stop.is_stop_token(sampled.token)) {
            constraint.get().accept(sampled.token)?;
            self.complete = constraint.get().is_complete();
        }
        self.pending_token = Some(sampled.token);
        let (logprob, top_logprobs) = (sampled.logprob, sampled.top_logprobs);
        Ok(GeneratedToken { logprob, top_logprobs, ..GeneratedToken::new(sampled.token) })
    }

    /// Starts the prompt, or the step that takes the last token; false if the context is full.
    fn start_from_known_tokens(&mut self) -> Result<bool> {
        let tokens = match self.pending_token {
            None => self.prompt.clone(),
            Some(token) if self.session.tokens.len() < self.context() => [self.session.tokens.as_slice(), &[token]].concat(),
            Some(token) => match self.shortened(token) {
                Some(tokens) => tokens,
                None => return Ok(false),
            },
        };
        self.session.truncate_to_prefix(&tokens);
        let position = self.session.tokens.len();
        let new = tokens.get(position..).unwrap_or_default();
        match self.on_gpu {
            true => self.start_chunks(new)?,
            false => {
                let model = self.session.model.clone();
                let state = self.session.lend_state()?;
                self.running = new.to_vec();
                self.steps.push_logits(model, state, new.to_vec(), position);
            }
        }
        self.pending_token = None;
        Ok(true)
    }

    /// Starts a step per chunk that the model takes. Only the last one's token is read.
    fn start_chunks(&mut self, tokens: &[TokenId]) -> Result<()> {
        let mut last = None;
        for chunk in tokens.chunks(self.session.model.max_chunk()) {
            last = Some(self.start(StepTokens::Given(chunk), self.session.tokens.len())?);
            self.session.tokens.extend_from_slice(chunk);
        }
        last.into_iter().for_each(|step| self.steps.push(step));
        Ok(())
    }

    /// Starts steps on a token that has not been read; false if that is impossible or not needed.
    fn start_pipelined(&mut self) -> Result<bool> {
        let unread = self.steps.len();
        let position = self.session.tokens.len() + unread - 1;
        let wanted = self.options.max_tokens.map_or(usize::MAX, |most| most.saturating_sub(self.generated.len() + unread));
        let most = wanted.min(self.context().saturating_sub(position));
        if most == 0 || !self.session.has_feedback() {
            return Ok(false);
        }
        let count = u32::try_from(most).unwrap_or(u32::MAX).min(self.steps.room());
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let mut state = self.session.lend_state()?;
        let sampling = |position| self.gpu_sampling(position, 1);
        let steps = start_sampled_steps(self.session.model.method(), state.state(), position, count, sampling)?;
        drop(state);
        steps.into_iter().for_each(|step| self.steps.push(step));
        Ok(true)
    }

    /// How a step of `count` tokens samples. The draw follows from the position, so a text that is continued elsewhere draws the same.
    fn gpu_sampling(&self, position: u32, count: usize) -> GpuSampling {
        let sampling = &self.options.sampling;
        let draw = position.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        GpuSampling { temperature: sampling.temperature, seed: sampling.seed, draw }
    }

    fn start(&mut self, tokens: StepTokens<'_>, position: usize) -> Result<PendingToken> {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let count = if let StepTokens::Given(given) = tokens { given.len() } else { 1 };
        let sampling = self.gpu_sampling(position, count);
        let mut state = self.session.lend_state()?;
        start_step(self.session.model.method(), state.state(), tokens, position, sampling)
    }

    /// The tokens that stay when the context is full: the first ones, the newer half of the others, and the one without room.
    fn shortened(&self, next: TokenId) -> Option<Vec<TokenId>> {
        let ContextOverflow::DropOldest { keep } = self.options.on_overflow else { return None };
        let tokens = &self.session.tokens;
        let keep = keep.min(tokens.len() / 2);
        let newer = &tokens[keep..];
        let half = newer.len().div_ceil(2);
        Some([&tokens[..keep], &newer[half..], &[next]].concat())
    }
}

impl Generation<'static> {
    /// Stops the generation and returns its session, if it was started by
    /// [`Session::into_generation`](crate::Session::into_generation).
    #[must_use]
    pub fn into_session(self) -> Option<Session> {
        match self.session {
            SessionRef::Owned(session) => Some(*session),
            SessionRef::Borrowed(_) => None,
        }
    }
}

/// Whether the GPU can sample with these options: argmax, or a draw from all tokens.
pub(crate) fn gpu_can_sample(sampling: &Sampling) -> bool {
    let all = sampling.top_k == 0 && sampling.top_p >= 1.0 && sampling.min_p == 0.0;
    let plain = !sampling.has_penalties() && sampling.logit_bias.is_empty() && sampling.logprobs.is_none();
    plain && (sampling.is_greedy() || all)
}
