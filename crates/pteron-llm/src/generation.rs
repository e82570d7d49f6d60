//! A text as it comes, token by token.
//!
//! Where nothing asks for logits on the host, tokens are chosen on the GPU and a step is started before the token of the last one
//! is read; otherwise logits come to the host and [`Sampler`] chooses. Greedy texts are the same either way.

use std::collections::VecDeque;

use pteron::{NextToken, Tokens};

use crate::decode_stream::DecodeStream;
use crate::error::{Error, Result};
use crate::options::{ContextOverflow, GenerationOptions, SampleOn};
use crate::sampling::{History, Sampler, Sampling};
use crate::session::Session;
use crate::stop::{StopConditions, StopFilter};
use crate::tokenizer::{ShowSpecial, TokenId};

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A token that ends texts.
    StopToken(TokenId),
    /// A stop string, by its index.
    StopString(usize),
    /// As many tokens as were asked for.
    MaxTokens,
    /// No more room.
    ContextFull,
}

/// A token and the text it made certain.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedToken {
    /// The token.
    pub token: TokenId,
    /// The text that is certain now; whole characters, often a word, sometimes nothing.
    pub text: String,
    /// The token's log probability, where asked for.
    pub logprob: Option<f32>,
    /// The most likely tokens and their log probabilities, as many as asked for.
    pub top_logprobs: Vec<(TokenId, f32)>,
}

/// Steps that may be on their way: one that runs, one that waits behind it.
const MAX_IN_FLIGHT: usize = 2;

/// A text on its way. Dropping it stops it; what was generated stays in the session.
#[derive(Debug)]
pub struct Generation<'s> {
    session: &'s mut Session,
    prompt: Vec<TokenId>,
    generated: Vec<TokenId>,
    sampler: Sampler,
    stop: StopConditions,
    filter: Option<StopFilter>,
    stream: Option<DecodeStream>,
    options: GenerationOptions,
    on_gpu: bool,
    /// Started steps whose tokens have not been read.
    in_flight: VecDeque<NextToken>,
    /// A chosen token that no step has taken yet.
    pending_token: Option<TokenId>,
    finish: Option<FinishReason>,
    gpu_seconds: (f64, f64),
}

impl<'s> Generation<'s> {
    pub(crate) fn new(session: &'s mut Session, prompt: &[TokenId], options: GenerationOptions) -> Result<Self> {
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
            stream: Some(session.model.tokenizer().decode_stream(show)),
            session,
            sampler,
            stop,
            options,
            on_gpu,
            in_flight: VecDeque::new(),
            pending_token: None,
            finish: None,
            gpu_seconds: (0.0, 0.0),
        })
    }

    /// The next token and its text; `None` when the text has ended.
    ///
    /// # Errors
    /// A device that fails, or logits that are no numbers. What came before stays.
    pub async fn next(&mut self) -> Result<Option<GeneratedToken>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        if self.options.max_tokens == Some(0) {
            return Ok(self.end(FinishReason::MaxTokens, None));
        }
        let chosen = if self.on_gpu { self.next_on_gpu().await? } else { self.next_on_host().await? };
        Ok(match chosen {
            Some(piece) => self.take(piece),
            None => self.end(FinishReason::ContextFull, None),
        })
    }

    /// The whole text from here on.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn text(mut self) -> Result<String> {
        let mut text = String::new();
        while let Some(piece) = self.next().await? {
            text += &piece.text;
        }
        Ok(text)
    }

    /// Why the text ended; `None` while it goes on.
    #[must_use]
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The tokens generated so far, without one that ended the text.
    #[must_use]
    pub fn generated(&self) -> &[TokenId] {
        &self.generated
    }

    /// Seconds the GPU took for the prompt and for the tokens behind it, where the device tells and the GPU chooses.
    #[must_use]
    pub fn gpu_seconds(&self) -> Option<(f64, f64)> {
        (self.gpu_seconds.0 > 0.0).then_some(self.gpu_seconds)
    }

    /// A token's text, and whether it is the last.
    fn take(&mut self, mut piece: GeneratedToken) -> Option<GeneratedToken> {
        if self.stop.is_stop_token(piece.token) {
            return self.end(FinishReason::StopToken(piece.token), Some(piece));
        }
        self.generated.push(piece.token);
        if let (Some(stream), Some(filter)) = (&mut self.stream, &mut self.filter) {
            piece.text = filter.push(&stream.push(piece.token));
            if let Some(index) = filter.matched() {
                self.finish = Some(FinishReason::StopString(index));
                return Some(piece);
            }
        }
        if self.options.max_tokens.is_some_and(|most| self.generated.len() >= most) {
            return self.end(FinishReason::MaxTokens, Some(piece));
        }
        Some(piece)
    }

    /// Ends the text and lets go of what was held back.
    fn end(&mut self, finish: FinishReason, last: Option<GeneratedToken>) -> Option<GeneratedToken> {
        self.finish = Some(finish);
        self.in_flight.clear();
        let (stream, filter) = (self.stream.take()?, self.filter.take()?);
        let mut filter = filter;
        let mut tail = filter.push(&stream.finish());
        if filter.matched().is_none() {
            tail += &filter.finish();
        }
        match last {
            Some(piece) => Some(GeneratedToken { text: piece.text + &tail, ..piece }),
            None if tail.is_empty() => None,
            None => {
                Some(GeneratedToken { token: *self.generated.last()?, text: tail, logprob: None, top_logprobs: Vec::new() })
            }
        }
    }

    fn context(&self) -> usize {
        self.session.model.metadata().context_length as usize
    }

    async fn next_on_host(&mut self) -> Result<Option<GeneratedToken>> {
        let logits = match self.pending_token.take() {
            None => {
                let prompt = std::mem::take(&mut self.prompt);
                let logits = self.session.logits(&prompt).await;
                self.prompt = prompt;
                logits?
            }
            Some(token) if self.session.tokens.len() < self.context() => self.session.run(&[token]).await?,
            Some(token) => match self.shortened(token) {
                Some(tokens) => self.session.logits(&tokens).await?,
                None => return Ok(None),
            },
        };
        let history = History { prompt: &self.prompt, generated: &self.generated };
        let choice = self.sampler.sample(&logits, &history)?;
        self.pending_token = Some(choice.token);
        Ok(Some(GeneratedToken {
            token: choice.token,
            text: String::new(),
            logprob: choice.logprob,
            top_logprobs: choice.top_logprobs,
        }))
    }

    async fn next_on_gpu(&mut self) -> Result<Option<GeneratedToken>> {
        if self.in_flight.is_empty() && !self.start_from_known_tokens()? {
            return Ok(None);
        }
        while self.in_flight.len() < MAX_IN_FLIGHT && self.start_pipelined()? {}
        let Some(next) = self.in_flight.pop_front() else { return Ok(None) };
        let chosen = next.wait().await?;
        // Logits that are no numbers have no greatest one.
        let vocabulary = self.session.model.metadata().vocab_size;
        if chosen.id >= vocabulary {
            return Err(Error::TokenOutOfRange { token: chosen.id, vocabulary });
        }
        let seconds = chosen.gpu_seconds.unwrap_or(0.0);
        match self.generated.is_empty() {
            true => self.gpu_seconds.0 += seconds,
            false => self.gpu_seconds.1 += seconds,
        }
        // A step that was started ahead has taken it already.
        match self.in_flight.is_empty() {
            true => self.pending_token = Some(chosen.id),
            false => self.session.tokens.push(chosen.id),
        }
        Ok(Some(GeneratedToken { token: chosen.id, text: String::new(), logprob: None, top_logprobs: Vec::new() }))
    }

    /// Starts the prompt, or the step that takes the last token; false if there is no room.
    fn start_from_known_tokens(&mut self) -> Result<bool> {
        let tokens = match self.pending_token.take() {
            None => std::mem::take(&mut self.prompt),
            Some(token) if self.session.tokens.len() < self.context() => [self.session.tokens.as_slice(), &[token]].concat(),
            Some(token) => match self.shortened(token) {
                Some(tokens) => tokens,
                None => return Ok(false),
            },
        };
        self.session.truncate_to_prefix(&tokens);
        let mut last = None;
        for chunk in self.session.chunks(&tokens) {
            // Of all but the last chunk nobody wants the token.
            last = Some(self.start(Tokens::Given(chunk), self.session.tokens.len())?);
            self.session.tokens.extend_from_slice(chunk);
        }
        self.in_flight.extend(last);
        if self.generated.is_empty() {
            self.prompt = tokens;
        }
        Ok(true)
    }

    /// Starts a step on a token that has not been read; false if it cannot or need not be.
    fn start_pipelined(&mut self) -> Result<bool> {
        let unread = self.in_flight.len();
        let position = self.session.tokens.len() + unread - 1;
        let wanted = self.options.max_tokens.is_none_or(|most| self.generated.len() + unread < most);
        let ready = self.session.model.method().has_chosen(&self.session.state);
        if !(wanted && ready && position < self.context()) {
            return Ok(false);
        }
        let next = self.start(Tokens::Chosen, position)?;
        self.in_flight.push_back(next);
        Ok(true)
    }

    fn start(&mut self, tokens: Tokens<'_>, position: usize) -> Result<NextToken> {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let sampling = &self.options.sampling;
        let count = if let Tokens::Given(given) = tokens { given.len() } else { 1 };
        // A draw for each place in the text: a text continued elsewhere draws the same.
        let draw = position.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        let choice = pteron::Choice { temperature: sampling.temperature, seed: sampling.seed, draw };
        Ok(self.session.model.method().start_token(&mut self.session.state, tokens, position, choice)?)
    }

    /// What stays of a full context: the first tokens, and the newer half of the others with the one that had no room.
    fn shortened(&self, next: TokenId) -> Option<Vec<TokenId>> {
        let ContextOverflow::DropOldest { keep } = self.options.on_overflow else { return None };
        let tokens = &self.session.tokens;
        let keep = keep.min(tokens.len() / 2);
        let newer = &tokens[keep..];
        let half = newer.len().div_ceil(2);
        Some([&tokens[..keep], &newer[half..], &[next]].concat())
    }
}

/// Whether the GPU can do what is asked: the likeliest token, or a draw from all of them.
fn gpu_can_sample(sampling: &Sampling) -> bool {
    let all = sampling.top_k == 0 && sampling.top_p >= 1.0 && sampling.min_p == 0.0;
    let plain = !sampling.has_penalties() && sampling.logit_bias.is_empty() && sampling.logprobs.is_none();
    plain && (sampling.is_greedy() || all)
}
