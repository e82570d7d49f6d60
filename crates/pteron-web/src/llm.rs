//! Language models: sessions and streamed generation.

use std::cell::RefCell;

use pteron_llm::{
    AssetBytes, ChatRequest, FinishReason, GeneratedToken, GenerationOptions, Message, Model, ModelAssets, ParseSpecial,
    RenderOptions, Sampling, Session,
};
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::convert::{options, to_js};
use crate::error::{OrJs, Result, error, input};
use crate::head::WebHead;
use crate::loader::{Memory, now};
use crate::method::{Times, WebMethod, memory_of};

/// A language model.
#[wasm_bindgen(js_name = Llm)]
#[derive(Debug)]
pub struct WebModel {
    model: Model,
}

/// A session with its KV cache.
#[wasm_bindgen(js_name = LlmSession)]
#[derive(Debug)]
pub struct WebSession {
    model: Model,
    /// `None` while a generation uses it.
    session: RefCell<Option<Session>>,
}

/// Contents of the sidecar files of a model.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Extra {
    sidecar: Option<String>,
    tokenizer_config: Option<String>,
    template: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    context_length: u32,
    max_prefill: u32,
    vocab_size: u32,
    bos_id: Option<u32>,
    eos_ids: &'a [u32],
    chat: bool,
    memory: Memory,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Options {
    temperature: Option<f32>,
    top_k: Option<u32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    seed: Option<u64>,
    logit_bias: Option<Vec<(u32, f32)>>,
    logprobs: Option<u32>,
    max_tokens: Option<usize>,
    stop_strings: Vec<String>,
    stop_tokens: Vec<u32>,
    ignore_eos: bool,
}

impl Options {
    fn generation(self) -> GenerationOptions {
        let plain = Sampling::default();
        let sampling = Sampling::default()
            .with_temperature(self.temperature.unwrap_or(plain.temperature))
            .with_top_k(self.top_k.unwrap_or(plain.top_k))
            .with_top_p(self.top_p.unwrap_or(plain.top_p))
            .with_min_p(self.min_p.unwrap_or(plain.min_p))
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(plain.repetition_penalty))
            .with_presence_penalty(self.presence_penalty.unwrap_or(plain.presence_penalty))
            .with_frequency_penalty(self.frequency_penalty.unwrap_or(plain.frequency_penalty))
            .with_logit_bias(self.logit_bias.unwrap_or_default())
            .with_seed(self.seed.unwrap_or(plain.seed))
            .with_logprobs(self.logprobs);
        GenerationOptions::default()
            .with_sampling(sampling)
            .with_stop_strings(self.stop_strings)
            .with_stop_tokens(self.stop_tokens)
            .with_ignore_eos(self.ignore_eos)
            .with_max_tokens(self.max_tokens)
    }
}

/// A conversation and the start of a reply to continue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    messages: Vec<Message>,
    partial: String,
}

#[derive(Serialize)]
struct JsToken<'a> {
    token: u32,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprob: Option<f32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    top: &'a [(u32, f32)],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    finish: &'static str,
    tokens: Vec<u32>,
    prompt_tokens: usize,
    reused_tokens: usize,
    dropped_messages: usize,
    prefill_seconds: f64,
    decode_seconds: f64,
}

#[wasm_bindgen(js_class = Llm)]
impl WebModel {
    /// Creates a model from a method, its tokenizer and its sidecar files. Takes the method.
    ///
    /// # Errors
    /// Malformed files, or files that do not belong together.
    #[wasm_bindgen(constructor)]
    pub fn new(method: WebMethod, head: &WebHead, tokenizer: &[u8], extra: JsValue) -> Result<Self> {
        let extra: Extra = options(extra)?;
        let mut files = AssetBytes::new(tokenizer);
        files.tokenizer_config = extra.tokenizer_config.as_deref().map(str::as_bytes);
        files.chat_template = extra.template.as_deref();
        files.sidecar = extra.sidecar.as_deref().map(str::as_bytes);
        let assets = ModelAssets::from_bytes(&files).or_js()?;
        let model = Model::new(&head.program()?, method.method, assets).or_js()?;
        Ok(Self { model })
    }

    /// Describes the model.
    ///
    /// # Errors
    /// None that can happen.
    pub fn info(&self) -> Result<JsValue> {
        let metadata = self.model.metadata();
        to_js(&Info {
            context_length: metadata.context_length,
            max_prefill: metadata.max_prefill,
            vocab_size: metadata.vocab_size,
            bos_id: metadata.bos_id,
            eos_ids: &metadata.eos_ids,
            chat: self.model.chat_template().is_some(),
            memory: memory_of(self.model.method()),
        })
    }

    /// Encodes a text. With `special`, names of special tokens in it are parsed.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let parse = if special { ParseSpecial::Yes } else { ParseSpecial::No };
        self.model.tokenizer().encode(text, parse).map_err(pteron_llm::Error::from).or_js()
    }

    /// Decodes tokens.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.model.tokenizer().decode(tokens, pteron_llm::ShowSpecial::No)
    }

    /// Renders a conversation with the model's chat template.
    ///
    /// # Errors
    /// A model without a template, or a template that rejects the conversation.
    pub fn render(&self, messages: JsValue) -> Result<String> {
        let Some(template) = self.model.chat_template() else { return Err(input("this model has no chat template")) };
        let messages = messages_from(messages)?;
        template.render(&messages, &render_options()).map_err(pteron_llm::Error::from).or_js()
    }

    /// Creates a session with an empty KV cache.
    ///
    /// # Errors
    /// Out of GPU memory.
    pub fn session(&self) -> Result<WebSession> {
        let session = RefCell::new(Some(Session::new(&self.model).or_js()?));
        Ok(WebSession { model: self.model.clone(), session })
    }
}

fn messages_from(value: JsValue) -> Result<Vec<Message>> {
    serde_wasm_bindgen::from_value(value).map_err(|reason| input(format!("messages: {reason}")))
}

fn render_options() -> RenderOptions {
    #[allow(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let now = (js_sys::Date::now() / 1e3) as i64;
    RenderOptions::default().with_now(now)
}

#[wasm_bindgen(js_class = LlmSession)]
impl WebSession {
    /// Returns the tokens in the KV cache.
    ///
    /// # Errors
    /// A generation is running.
    pub fn tokens(&self) -> Result<Vec<u32>> {
        self.session.borrow().as_ref().map(|session| session.tokens().to_vec()).ok_or_else(busy)
    }

    /// Generates text after a prompt: a text, messages, `{ messages, partial }`, or tokens. Calls `on_token` per token; its result,
    /// or that of the promise it returns, says whether to continue.
    ///
    /// # Errors
    /// An invalid prompt or option, a failing device, or what `on_token` throws.
    pub async fn generate(&self, prompt: JsValue, options: JsValue, on_token: js_sys::Function) -> Result<JsValue> {
        let options = crate::convert::options::<Options>(options)?.generation();
        let (tokens, dropped_messages) = self.prompt(prompt, options.max_tokens.unwrap_or(usize::MAX))?;
        let mut session = self.session.take().ok_or_else(busy)?;
        let outcome = generate(&mut session, &tokens, options, &on_token).await;
        *self.session.borrow_mut() = Some(session);
        to_js(&Outcome { dropped_messages, ..outcome? })
    }

    /// Profiles one decode step, kernel by kernel.
    ///
    /// # Errors
    /// A browser without timestamp queries, or a failing device.
    pub async fn profile(&self) -> Result<JsValue> {
        let mut session = self.session.take().ok_or_else(busy)?;
        let profiles = session.profile().await.or_js();
        *self.session.borrow_mut() = Some(session);
        to_js(&Times::new(&profiles?))
    }

    /// Clears the KV cache.
    ///
    /// # Errors
    /// A generation is running.
    pub fn reset(&self) -> Result<()> {
        match self.session.borrow_mut().as_mut() {
            Some(session) => session.rewind(0).or_js(),
            None => Err(busy()),
        }
    }
}

fn busy() -> JsValue {
    error("input", "this session is generating: wait for the end, stop it, or create another session")
}

impl WebSession {
    /// Returns the tokens of a prompt and the number of messages that did not fit.
    fn prompt(&self, prompt: JsValue, reserve: usize) -> Result<(Vec<u32>, usize)> {
        if let Some(tokens) = prompt.dyn_ref::<js_sys::Uint32Array>() {
            return Ok((tokens.to_vec(), 0));
        }
        if let Some(text) = prompt.as_string() {
            return Ok((self.model.text_prompt(&text).or_js()?, 0));
        }
        let Conversation { messages, partial } = match js_sys::Array::is_array(&prompt) {
            true => Conversation { messages: messages_from(prompt)?, partial: String::new() },
            false => serde_wasm_bindgen::from_value(prompt).map_err(|reason| input(format!("prompt: {reason}")))?,
        };
        let request = ChatRequest::new()
            .messages(messages)
            .with_reply_prefix(partial)
            .with_render(render_options())
            .with_max_tokens(reserve);
        let prompt = self.model.chat_prompt(&request).or_js()?;
        Ok((prompt.tokens, prompt.dropped_messages))
    }
}

async fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: GenerationOptions,
    on_token: &js_sys::Function,
) -> Result<Outcome> {
    let reused_tokens = session.cached_prefix_len(prompt);
    let begin = now();
    let mut first = None;
    let mut text = session.generate(prompt, options).or_js()?;
    while let Some(piece) = text.next().await.or_js()? {
        first.get_or_insert_with(now);
        if !emit(on_token, &piece).await? {
            break;
        }
    }
    let end = now();
    let finish = match text.finish() {
        Some(FinishReason::StopToken(_)) => "stop-token",
        Some(FinishReason::StopString(_)) => "stop-string",
        Some(FinishReason::MaxTokens) => "max-tokens",
        Some(FinishReason::ContextFull) => "context-full",
        _ => "stopped",
    };
    let first = first.unwrap_or(end);
    Ok(Outcome {
        finish,
        tokens: text.generated().to_vec(),
        prompt_tokens: prompt.len(),
        reused_tokens,
        dropped_messages: 0,
        prefill_seconds: first - begin,
        decode_seconds: end - first,
    })
}

/// Passes a token to JavaScript. Returns whether to continue.
async fn emit(on_token: &js_sys::Function, piece: &GeneratedToken) -> Result<bool> {
    let GeneratedToken { token, text, logprob, top_logprobs: top, .. } = piece;
    let piece = to_js(&JsToken { token: *token, text, logprob: *logprob, top })?;
    let reply = on_token.call1(&JsValue::UNDEFINED, &piece)?;
    let reply = match reply.dyn_into::<js_sys::Promise>() {
        Ok(promise) => JsFuture::from(promise).await?,
        Err(reply) => reply,
    };
    Ok(reply.is_truthy())
}
