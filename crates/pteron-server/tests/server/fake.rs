//! A deterministic model without a GPU: it writes a script, or random tokens that its constraint allows.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use pteron_llm::{
    ChatRequest, ChatTemplate, DecodeStream, ParseSpecial, ShowSpecial, StopConditions, StopFilter, TokenId, Tokenizer,
};
use pteron_server::backend::*;

/// Tokens of the vocabulary of the bundled model, whose tokenizer it has.
const VOCABULARY: u32 = 6144;

pub(crate) struct Fake {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) script: String,
    pub(crate) context: u32,
    pub(crate) delay: Duration,
    pub(crate) queue: usize,
    /// Every request from here on ends with a lost device.
    pub(crate) lost: AtomicBool,
    pub(crate) counts: Arc<Counts>,
    pub(crate) adapters: Mutex<Vec<String>>,
    /// Whether embeddings may be cut, for a model that makes some.
    pub(crate) embeddings: Option<bool>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) running: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
}

impl Fake {
    pub(crate) fn new(script: &str) -> Self {
        Self {
            tokenizer: Tokenizer::from_bytes(pteron_demo_model::TOKENIZER).unwrap(),
            template: None,
            script: script.to_owned(),
            context: 512,
            delay: Duration::ZERO,
            queue: 64,
            lost: AtomicBool::new(false),
            counts: Arc::default(),
            adapters: Mutex::default(),
            embeddings: None,
        }
    }

    pub(crate) fn with_template(mut self, source: &str) -> Self {
        self.template = Some(ChatTemplate::new(source, std::collections::BTreeMap::new()).unwrap());
        self
    }

    pub(crate) fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Backend for Fake {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            context_length: self.context,
            vocab_size: VOCABULARY,
            eos_ids: vec![0],
            has_chat_template: self.template.is_some(),
        }
    }

    fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>, BackendError> {
        self.tokenizer.encode(text, ParseSpecial::No).map_err(|error| BackendError::Invalid(error.to_string()))
    }

    fn chat_prompt(&self, request: &ChatRequest) -> Result<ChatPrompt, BackendError> {
        let text = match &self.template {
            Some(template) => template
                .render(&request.messages, &request.render)
                .map_err(|error| BackendError::Invalid(error.to_string()))?,
            None => request.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n\n"),
        };
        let tokens = self.text_prompt(&(text + &request.reply_prefix))?;
        let dropped_messages = usize::from(tokens.len() >= self.context as usize && request.messages.len() > 1);
        Ok(ChatPrompt { tokens, dropped_messages })
    }

    fn load_adapter(&self, name: &str, folder: &Path) -> Result<(), BackendError> {
        if folder.ends_with("wide") {
            return Err(BackendError::Invalid(
                "the adapter updates q_proj of layer 0 as [80, 64], but the model's is [64, 64]".to_owned(),
            ));
        }
        self.adapters.lock().unwrap().push(name.to_owned());
        Ok(())
    }

    fn unload_adapter(&self, name: &str) -> Result<(), BackendError> {
        self.adapters.lock().unwrap().retain(|own| own != name);
        Ok(())
    }

    fn embeddings(&self) -> Option<EmbeddingInfo> {
        let truncatable = self.embeddings?;
        Some(EmbeddingInfo { dimensions: 3, truncatable, vocab_size: Some(VOCABULARY) })
    }

    /// The number of tokens, the first one, and 1.
    fn embed(&self, texts: &[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, BackendError> {
        if self.lost.load(Ordering::SeqCst) {
            return Err(BackendError::Lost("the GPU device was lost".to_owned()));
        }
        let vector = |text: &Vec<TokenId>| match text.as_slice() {
            [] => Err(BackendError::Invalid("the prompt is empty".to_owned())),
            text if text.len() > self.context as usize => {
                Err(BackendError::PromptTooLong(format!("the text has {} tokens", text.len())))
            }
            text => Ok(vec![text.len() as f32, text[0] as f32, 1.0]),
        };
        texts.iter().map(vector).collect()
    }

    fn submit(&self, request: GenerateRequest) -> Result<Box<dyn TokenSource>, BackendError> {
        // Texts of an adapter say so.
        let script = match &request.adapter {
            Some(name) if !self.adapters.lock().unwrap().contains(name) => {
                return Err(BackendError::UnknownAdapter(format!("there is no adapter {name:?}")));
            }
            Some(name) => format!("{} As {name}.", self.script),
            None => self.script.clone(),
        };
        if request.prompt.len() >= self.context as usize {
            return Err(BackendError::PromptTooLong(format!("the prompt has {} tokens", request.prompt.len())));
        }
        if self.counts.running.fetch_add(1, Ordering::SeqCst) >= self.queue {
            self.counts.running.fetch_sub(1, Ordering::SeqCst);
            return Err(BackendError::QueueFull("the queue is full".to_owned()));
        }
        let stop = StopConditions::new(request.options.stop_strings.clone(), Vec::new()).unwrap();
        Ok(Box::new(FakeTokens {
            tokens: self.tokenizer.encode(&script, ParseSpecial::No).unwrap(),
            tokenizer: self.tokenizer.clone(),
            decoder: Some(self.tokenizer.decode_stream(ShowSpecial::Yes)),
            filter: Some(stop.filter()),
            random: request.options.sampling.seed,
            usage: Usage {
                prompt_tokens: request.prompt.len(),
                cached_tokens: request.prompt.len() / 2,
                generated_tokens: 0,
            },
            delay: self.delay,
            sleep: Box::pin(tokio::time::sleep(self.delay)),
            deadline: request.timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout))),
            lost: self.lost.load(Ordering::SeqCst),
            counts: Arc::clone(&self.counts),
            finished: false,
            request,
        }))
    }

    fn statistics(&self) -> Statistics {
        let finished = self.counts.finished.load(Ordering::SeqCst) as u64;
        let first = Durations { bounds: vec![0.1, 1.0], counts: vec![finished, 0, 0], sum: 0.0 };
        Statistics {
            running: self.counts.running.load(Ordering::SeqCst),
            block_size: 32,
            blocks_total: 100,
            blocks_used: 25,
            finished,
            cancelled: self.counts.cancelled.load(Ordering::SeqCst) as u64,
            time_to_first_token: first.clone(),
            inter_token: first,
            ..Statistics::default()
        }
    }

    fn drain(&self) {}
}

struct FakeTokens {
    request: GenerateRequest,
    tokenizer: Tokenizer,
    tokens: Vec<TokenId>,
    decoder: Option<DecodeStream>,
    filter: Option<StopFilter>,
    random: u64,
    usage: Usage,
    delay: Duration,
    sleep: Pin<Box<tokio::time::Sleep>>,
    deadline: Option<Pin<Box<tokio::time::Sleep>>>,
    lost: bool,
    counts: Arc<Counts>,
    finished: bool,
}

impl FakeTokens {
    /// The next token of the script, or a random one that the constraint allows. Zero is the end of the text.
    fn sample(&mut self) -> Result<TokenId, BackendError> {
        let Some(constraint) = &mut self.request.constraint else {
            return Ok(self.tokens.get(self.usage.generated_tokens).copied().unwrap_or(0));
        };
        let mask = constraint.mask().map_err(BackendError::Generation)?;
        let allowed: Vec<TokenId> = (0..VOCABULARY).filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1).collect();
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let near_end = self.request.options.max_tokens.is_some_and(|most| self.usage.generated_tokens + 30 > most);
        // A text that ends: quotes, brackets and the end come first when there is little room left.
        let closing = allowed.iter().copied().filter(|id| {
            let bytes = self.tokenizer.token_bytes(*id).unwrap_or_default();
            *id == 0 || matches!(bytes.as_slice(), b"\"" | b"}" | b"]")
        });
        let closing: Vec<TokenId> = if near_end { closing.collect() } else { Vec::new() };
        let choices = if closing.is_empty() { &allowed } else { &closing };
        let id = choices[(self.random >> 33) as usize % choices.len()];
        if id != 0 {
            constraint.accept(id).map_err(BackendError::Generation)?;
        }
        Ok(id)
    }

    fn end(&mut self, mut token: Token, finish: Finish) -> Token {
        self.finished = true;
        if let (Some(decoder), Some(mut filter)) = (self.decoder.take(), self.filter.take())
            && filter.matched().is_none()
        {
            token.text += &filter.push(&decoder.finish());
            token.text += &filter.finish();
        }
        Token { finish: Some(finish), ..token }
    }

    fn take(&mut self, id: TokenId) -> Token {
        let logprobs = self.request.options.sampling.logprobs;
        let top_logprobs = (0..logprobs.unwrap_or(0)).map(|place| (id + place, -0.5 - place as f32)).collect();
        let mut token = Token { id, logprob: logprobs.map(|_| -0.5), top_logprobs, ..Token::default() };
        if id == 0 {
            return self.end(token, Finish::Stop);
        }
        self.usage.generated_tokens += 1;
        if let (Some(decoder), Some(filter)) = (&mut self.decoder, &mut self.filter) {
            token.text = filter.push(&decoder.push(id));
            if let Some(index) = filter.matched() {
                return self.end(token, Finish::StopString(index));
            }
        }
        if self.request.options.max_tokens.is_some_and(|most| self.usage.generated_tokens >= most) {
            return self.end(token, Finish::Length);
        }
        if self.request.constraint.as_ref().is_some_and(|constraint| constraint.is_complete()) {
            return self.end(token, Finish::Stop);
        }
        token
    }
}

impl TokenSource for FakeTokens {
    fn poll_token(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Token, BackendError>>> {
        if self.finished {
            return Poll::Ready(None);
        }
        if self.lost {
            self.finished = true;
            return Poll::Ready(Some(Err(BackendError::Lost("the GPU device was lost".to_owned()))));
        }
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            self.finished = true;
            return Poll::Ready(Some(Err(BackendError::DeadlineExceeded)));
        }
        if !self.delay.is_zero() {
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let next = tokio::time::Instant::now() + self.delay;
            self.sleep.as_mut().reset(next);
        }
        let token = self.sample().map(|id| self.take(id));
        self.finished |= token.is_err();
        Poll::Ready(Some(token))
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

impl Drop for FakeTokens {
    fn drop(&mut self) {
        self.counts.running.fetch_sub(1, Ordering::SeqCst);
        let count = if self.finished { &self.counts.finished } else { &self.counts.cancelled };
        count.fetch_add(1, Ordering::SeqCst);
    }
}
