//! Language models: a model, its sessions, and text as it is generated.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pteron::block_on;
use pteron_llm::{
    ChatRequest, EngineOptions, FinishReason, GeneratedToken, Generation, Grammars, Message, Model, ModelOptions,
    ParseSpecial, PartialMetadata, RenderOptions, Session, TokenId,
};
use pyo3::prelude::*;

use crate::batch::NativeEngine;
use crate::embedder::NativeEmbedder;
use crate::errors::{self, Error, InputError};
use crate::gpu::{self, OnGpu};
use crate::grammar::{self, NativeGrammar};
use crate::sampling::Options;
use crate::source::Source;

/// A language model on the GPU.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeModel {
    model: OnGpu<Model>,
    grammars: Grammars,
    source: Source,
    options: ModelOptions,
    adapter: Option<String>,
}

/// An exception for an error of a model. After a lost device the next model opens a new one.
pub(crate) fn failed(py: Python<'_>, error: pteron_llm::Error) -> PyErr {
    if matches!(error, pteron_llm::Error::DeviceLost(_)) {
        gpu::forget(py);
    }
    errors::model(error)
}

#[pymethods]
impl NativeModel {
    /// Opens a folder or a `.pte` file with its assets, or the bundled model.
    #[staticmethod]
    #[pyo3(signature = (path = None, *, tokenizer = None, data_path = None, adapter = None, context_length = None, memory_budget = None))]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        tokenizer: Option<PathBuf>,
        data_path: Option<PathBuf>,
        adapter: Option<String>,
        context_length: Option<u32>,
        memory_budget: Option<u64>,
    ) -> PyResult<Self> {
        let gpu = gpu::open(py, adapter.clone())?;
        let metadata = PartialMetadata::default().with_context_length(context_length);
        let mut options = ModelOptions::default().with_metadata(metadata);
        options.memory_budget = memory_budget;
        let source = Source { path, tokenizer, data: data_path };
        let model = py.detach(|| source.model(&gpu, &options)).map_err(|error| failed(py, error))?;
        let grammars = Grammars::of(model.tokenizer(), model.metadata());
        Ok(Self { model: OnGpu::new(model), grammars, source, options, adapter })
    }

    /// Loads the model once more, for many texts at once.
    #[pyo3(signature = (max_sequences = None))]
    fn engine(&self, py: Python<'_>, max_sequences: Option<u32>) -> PyResult<NativeEngine> {
        let gpu = gpu::open(py, self.adapter.clone())?;
        let options = EngineOptions::default()
            .with_model(self.options.clone())
            .with_max_sequences(max_sequences)
            .with_max_queue(usize::MAX);
        let engine = py.detach(|| self.source.engine(&gpu, options)).map_err(|error| failed(py, error))?;
        Ok(NativeEngine::new(engine))
    }

    /// Loads the model once more, for the vectors of texts.
    fn embedder(&self, py: Python<'_>) -> PyResult<NativeEmbedder> {
        NativeEmbedder::load(py, &self.source, self.adapter.clone(), self.options.clone(), None)
    }

    /// Compiles a JSON schema (`schema`), a regular expression (`regex`) or a grammar in Lark's language (`grammar`).
    fn grammar(&self, py: Python<'_>, kind: &str, text: String) -> PyResult<NativeGrammar> {
        let source = grammar::source(kind, text)?;
        let compiled = py.detach(|| self.grammars.compile(&source));
        compiled.map(NativeGrammar).map_err(|error| InputError::new_err(format!("the {kind} {error}")))
    }

    /// Creates an empty conversation.
    fn session(&self, py: Python<'_>) -> PyResult<NativeSession> {
        gpu::check_fork()?;
        let session = py.detach(|| Session::new(&self.model)).map_err(|error| failed(py, error))?;
        Ok(NativeSession::new(session))
    }

    #[getter]
    fn context_length(&self) -> u32 {
        self.model.metadata().context_length
    }

    #[getter]
    fn vocab_size(&self) -> u32 {
        self.model.metadata().vocab_size
    }

    #[getter]
    fn eos_ids(&self) -> Vec<TokenId> {
        self.model.metadata().eos_ids.clone()
    }

    #[getter]
    fn bos_id(&self) -> Option<TokenId> {
        self.model.metadata().bos_id
    }

    #[getter]
    fn has_chat_template(&self) -> bool {
        self.model.chat_template().is_some()
    }

    /// The tokens of a prompt, with the token that starts texts.
    fn text_prompt(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        py.detach(|| self.model.text_prompt(text)).map_err(errors::model)
    }

    /// The tokens of a text alone.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        let encode = || self.model.tokenizer().encode(text, ParseSpecial::No);
        py.detach(encode).map_err(|error| InputError::new_err(error.to_string()))
    }

    fn decode(&self, py: Python<'_>, tokens: Vec<TokenId>) -> String {
        py.detach(|| self.model.tokenizer().decode(&tokens, pteron_llm::ShowSpecial::No))
    }

    /// The tokens of a conversation, and how many messages the context had no room for.
    #[pyo3(signature = (messages, options, variables = Vec::new(), reply_prefix = String::new()))]
    fn chat_prompt(
        &self,
        py: Python<'_>,
        messages: Vec<(String, String)>,
        options: &Options,
        variables: Vec<(String, String)>,
        reply_prefix: String,
    ) -> PyResult<(Vec<TokenId>, usize)> {
        let set = |render: RenderOptions, (name, json): (String, String)| render.with_variable(name, json);
        let render = variables.into_iter().fold(RenderOptions::default(), set);
        let request = ChatRequest::new()
            .messages(messages.into_iter().map(|(role, content)| Message::new(role, content)))
            .with_reply_prefix(reply_prefix)
            .with_render(render)
            .with_generation(options.0.clone());
        let prompt = py.detach(|| self.model.chat_prompt(&request)).map_err(errors::model)?;
        Ok((prompt.tokens, prompt.dropped_messages))
    }
}

/// A conversation, or the generation that uses it.
struct Slot {
    session: Option<OnGpu<Session>>,
}

/// A conversation and its KV cache. One generation uses it at a time.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeSession(Arc<Mutex<Slot>>);

impl NativeSession {
    fn new(session: Session) -> Self {
        Self(Arc::new(Mutex::new(Slot { session: Some(OnGpu::new(session)) })))
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Session) -> pteron_llm::Result<T> + Send) -> PyResult<T> {
        gpu::check_fork()?;
        let run = || self.lock().session.as_mut().map(|session| work(session));
        py.detach(run).ok_or_else(in_use)?.map_err(|error| failed(py, error))
    }
}

fn in_use() -> PyErr {
    Error::new_err("the session is used by a generation: let it end, or close it, first")
}

#[pymethods]
impl NativeSession {
    /// The tokens in the KV cache.
    fn tokens(&self, py: Python<'_>) -> PyResult<Vec<TokenId>> {
        self.with(py, |session| Ok(session.tokens().to_vec()))
    }

    /// Copies the conversation, KV cache included.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(py, |session| session.fork()).map(Self::new)
    }

    /// Drops the tokens from a position on.
    fn rewind(&self, py: Python<'_>, position: usize) -> PyResult<()> {
        self.with(py, |session| session.rewind(position))
    }

    /// The logits after a prompt's last token.
    fn logits(&self, py: Python<'_>, prompt: Vec<TokenId>) -> PyResult<Vec<f32>> {
        self.with(py, |session| block_on(session.logits(&prompt)))
    }

    /// Starts the text that follows a prompt.
    #[pyo3(signature = (prompt, options, grammar = None))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: Vec<TokenId>,
        options: &Options,
        grammar: Option<&NativeGrammar>,
    ) -> PyResult<NativeGeneration> {
        gpu::check_fork()?;
        let start = || {
            let mut slot = self.lock();
            let mut session = slot.session.take().ok_or_else(in_use)?;
            // Checked before the session is moved, which an error would drop.
            if let Err(error) = session.generate(&prompt, options.0.clone()).map(drop) {
                slot.session = Some(session);
                return Err(errors::model(error));
            }
            let generation = session.into_inner().into_generation(&prompt, options.0.clone()).map_err(errors::model)?;
            Ok(match grammar {
                Some(grammar) => generation.with_constraint(grammar.0.constraint()),
                None => generation,
            })
        };
        let generation = Mutex::new(Some(OnGpu::new(py.detach(start)?)));
        Ok(NativeGeneration { generation, slot: Arc::clone(&self.0) })
    }
}

/// A generated token and the text that it completes.
#[pyclass(frozen, module = "pteron", name = "Token")]
pub(crate) struct Token {
    /// The token's number.
    #[pyo3(get)]
    id: TokenId,
    /// Text that no later token changes: whole characters, often a word, sometimes nothing.
    #[pyo3(get)]
    text: String,
    /// The log probability, if the options ask for it.
    #[pyo3(get)]
    logprob: Option<f32>,
    /// The most likely tokens and their log probabilities, as many as the options ask for.
    #[pyo3(get)]
    top_logprobs: Vec<(TokenId, f32)>,
    /// Why the text ended, on its last token: `stop`, `length` or `context`.
    #[pyo3(get)]
    finish_reason: Option<&'static str>,
}

impl Token {
    pub(crate) fn new(token: GeneratedToken) -> Self {
        Self {
            id: token.token,
            text: token.text,
            logprob: token.logprob,
            top_logprobs: token.top_logprobs,
            finish_reason: token.finish.map(reason),
        }
    }
}

#[pymethods]
impl Token {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        match self.finish_reason {
            Some(reason) => format!("Token(id={}, text={:?}, finish_reason='{reason}')", self.id, self.text),
            None => format!("Token(id={}, text={:?})", self.id, self.text),
        }
    }
}

/// The name of a reason, as `OpenAI`'s API has it, and `context` for a full context.
fn reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::MaxTokens => "length",
        FinishReason::ContextFull => "context",
        _ => "stop",
    }
}

/// A text that is being generated.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeGeneration {
    generation: Mutex<Option<OnGpu<Generation<'static>>>>,
    slot: Arc<Mutex<Slot>>,
}

impl NativeGeneration {
    /// Stops the generation and gives its session back.
    fn end(&self) {
        let generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = generation.map(OnGpu::into_inner).and_then(Generation::into_session) {
            self.slot.lock().unwrap_or_else(PoisonError::into_inner).session = Some(OnGpu::new(session));
        }
    }
}

#[pymethods]
impl NativeGeneration {
    /// The next token; `None` when the text has ended.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Token>> {
        gpu::check_fork()?;
        let next = || {
            let mut generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
            generation.as_mut().map_or(Ok(None), |generation| block_on(generation.next()))
        };
        let token = py.detach(next);
        let ended = !matches!(&token, Ok(Some(token)) if token.finish.is_none());
        if ended {
            py.detach(|| self.end());
        }
        let token = token.map_err(|error| failed(py, error))?;
        Ok(token.map(Token::new))
    }

    /// Stops the generation, so that the session can be used again.
    fn close(&self, py: Python<'_>) {
        if gpu::check_fork().is_ok() {
            py.detach(|| self.end());
        }
    }
}

impl Drop for NativeGeneration {
    fn drop(&mut self) {
        if gpu::check_fork().is_ok() {
            self.end();
        }
    }
}
