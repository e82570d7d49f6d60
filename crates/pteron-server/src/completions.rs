//! `/v1/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pteron_llm::{ShowSpecial, TokenId};
use serde_json::{Map, Value, json};

use crate::backend::{Backend, Finish, Token, Usage};
use crate::chat::{stream_usage, usage};
use crate::error::{ApiError, json_response};
use crate::event_stream::{self, Events};
use crate::fields::Fields;
use crate::request::{Generation, Job};
use crate::sampling::{self, MAX_LOGPROBS};
use crate::slot::LoadedModel;
use crate::state::{App, Caller};
use crate::tools::Tools;
use crate::{format, id};

/// Tokens of a text where the request does not say, as the API has it.
const DEFAULT_MAX_TOKENS: usize = 16;

/// A prompt, as a text or as tokens.
pub(crate) enum Prompt {
    Text(String),
    Tokens(Vec<TokenId>),
}

/// What of a request decides how its answer is written.
struct Shape {
    id: String,
    created: u64,
    model: String,
    logprobs: bool,
    include_usage: bool,
    /// The texts of the prompts, where they are repeated.
    echo: Vec<String>,
    n: usize,
}

/// Answers a completion.
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let target = app.target(&fields)?;
    let model = target.slot.loaded()?;
    let info = model.backend.info();
    fields.refuse("suffix", &[json!("")], "the model continues texts and fills in nothing")?;
    let most = app.options.limits.choices;
    let prompts = prompts(&fields, "prompt", most, info.vocab_size)?;
    let most = u64::try_from(most / prompts.len().max(1)).unwrap_or(u64::MAX);
    let n = fields.count("n", 1..=most)?.unwrap_or(1);
    if fields.count("best_of", 1..=most)?.is_some_and(|best_of| best_of != n) {
        return Err(ApiError::unsupported("best_of", "best_of must be the same as n: this server returns every text"));
    }
    let max_tokens = fields.count("max_tokens", 0..=u64::from(u32::MAX))?.unwrap_or(DEFAULT_MAX_TOKENS);
    let mut options = sampling::options(&fields, "stop", &info)?.with_max_tokens(max_tokens);
    let logprobs = fields.integer("logprobs", 0..=MAX_LOGPROBS)?;
    options.sampling.logprobs = logprobs.map(|top| u32::try_from(top).unwrap_or(0));
    let echo = fields.boolean("echo")?.unwrap_or(false);
    if echo && logprobs.is_some() {
        return Err(ApiError::unsupported(
            "echo",
            "echo cannot be combined with logprobs: those of the prompt are not computed",
        ));
    }
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let include_usage = stream_usage(&fields, streams)?;

    let permit = app.admit()?;
    let constraints = format::constraints(&app, &model, &fields, &Tools::default()).await?;
    let prompts = encode(&app, &model, prompts).await?;
    let tokenizer = model.backend.tokenizer();
    let repeated = prompts.iter().filter(|_| echo).map(|tokens| tokenizer.decode(tokens, ShowSpecial::No)).collect();
    let shape = Shape {
        id: id::new("cmpl-"),
        created: id::now(),
        model: target.name().to_owned(),
        logprobs: logprobs.is_some(),
        include_usage,
        echo: repeated,
        n,
    };
    let job = Job { target, model, prompts, n, options, constraints, prompt_field: "prompt" };
    let mut generation = Generation::start(&app, caller, job, permit)?;
    if streams {
        let finished = vec![false; generation.len()];
        let backend = generation.shared_backend();
        let offsets = vec![0; generation.len()];
        return Ok(event_stream::respond(generation, CompletionEvents { shape, finished, offsets, backend }));
    }
    let mut texts: Vec<Text> = (0..generation.len()).map(|index| Text::starting(shape.echo_of(index))).collect();
    while let Some(next) = generation.next().await {
        let (index, token) = next?;
        if let Some(text) = texts.get_mut(index) {
            text.add(token, shape.logprobs);
        }
    }
    let backend = generation.backend();
    let choices = texts.iter().enumerate().map(|(index, text)| {
        let logprobs = if shape.logprobs { logprobs_value(backend, &text.tokens, 0) } else { Value::Null };
        choice(index, &text.text, &logprobs, Some(finish_reason(text.finish)))
    });
    let mut body = shape.envelope(choices.collect());
    body.insert("usage".to_owned(), usage(generation.usage()));
    Ok(json_response(StatusCode::OK, &Value::Object(body)))
}

/// Reads a field that is a text, tokens, or a list of either.
pub(crate) fn prompts(fields: &Fields<'_>, name: &str, most: usize, vocabulary: u32) -> Result<Vec<Prompt>, ApiError> {
    let wrong = || fields.invalid(name, "must be a string, a list of token ids, or a list of either");
    let tokens = |list: &[Value]| {
        let ids = list.iter().map(|value| value.as_u64().and_then(|id| u32::try_from(id).ok()));
        let ids = ids.collect::<Option<Vec<TokenId>>>().ok_or_else(wrong)?;
        match ids.iter().find(|id| **id >= vocabulary) {
            Some(id) => Err(fields.invalid(
                name,
                format_args!("has the token {id}, but the vocabulary ends at {}", vocabulary.saturating_sub(1)),
            )),
            None => Ok(Prompt::Tokens(ids)),
        }
    };
    let list = match fields.get(name) {
        None => return Err(fields.invalid(name, "is missing")),
        Some(Value::String(text)) => return Ok(vec![Prompt::Text(text.clone())]),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong()),
    };
    if list.first().is_none_or(Value::is_number) {
        return Ok(vec![tokens(list)?]);
    }
    fields.list(name, most)?;
    list.iter()
        .map(|entry| match entry {
            Value::String(text) => Ok(Prompt::Text(text.clone())),
            Value::Array(list) => tokens(list),
            _ => Err(wrong()),
        })
        .collect()
}

async fn encode(app: &App, model: &Arc<LoadedModel>, prompts: Vec<Prompt>) -> Result<Vec<Vec<TokenId>>, ApiError> {
    app.compute(model, move |model| {
        let encode = |prompt| match prompt {
            Prompt::Tokens(tokens) => Ok(tokens),
            Prompt::Text(text) => model.backend.text_prompt(&text).map_err(|error| ApiError::from(error).at("prompt")),
        };
        prompts.into_iter().map(encode).collect()
    })
    .await
}

/// A text so far.
struct Text {
    text: String,
    tokens: Vec<Token>,
    finish: Option<Finish>,
}

impl Text {
    fn starting(text: &str) -> Self {
        Self { text: text.to_owned(), tokens: Vec::new(), finish: None }
    }

    fn add(&mut self, token: Token, keep: bool) {
        self.text += &token.text;
        self.finish = token.finish;
        if keep {
            self.tokens.push(token);
        }
    }
}

fn finish_reason(finish: Option<Finish>) -> &'static str {
    match finish {
        Some(Finish::Stop | Finish::StopString(_)) => "stop",
        Some(Finish::Length) | None => "length",
    }
}

fn choice(index: usize, text: &str, logprobs: &Value, finish: Option<&str>) -> Value {
    json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": finish })
}

/// The older form of log probabilities: parallel lists.
fn logprobs_value(backend: &dyn Backend, tokens: &[Token], mut offset: usize) -> Value {
    let name = |id| String::from_utf8_lossy(&backend.tokenizer().token_bytes(id).unwrap_or_default()).into_owned();
    let (mut names, mut offsets, mut values, mut tops) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        let Some(logprob) = token.logprob else { continue };
        names.push(name(token.id));
        offsets.push(offset);
        offset += token.text.chars().count();
        values.push(logprob.max(-9999.0));
        let top = token.top_logprobs.iter().map(|(id, logprob)| (name(*id), Value::from(logprob.max(-9999.0))));
        tops.push(Value::Object(top.collect::<Map<_, _>>()));
    }
    json!({ "tokens": names, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets })
}

impl Shape {
    fn envelope(&self, choices: Vec<Value>) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("id".to_owned(), self.id.as_str().into());
        map.insert("object".to_owned(), "text_completion".into());
        map.insert("created".to_owned(), self.created.into());
        map.insert("model".to_owned(), self.model.as_str().into());
        map.insert("choices".to_owned(), choices.into());
        map
    }

    /// What the text of a choice begins with.
    fn echo_of(&self, index: usize) -> &str {
        self.echo.get(index / self.n).map_or("", String::as_str)
    }
}

struct CompletionEvents {
    shape: Shape,
    finished: Vec<bool>,
    /// Characters of each text so far.
    offsets: Vec<usize>,
    backend: Arc<dyn Backend>,
}

impl CompletionEvents {
    fn chunk(&self, choice: Value, out: &mut String) {
        let mut chunk = self.shape.envelope(vec![choice]);
        if self.shape.include_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        event_stream::data(out, &Value::Object(chunk));
    }
}

impl Events for CompletionEvents {
    fn begin(&mut self, out: &mut String) {
        for index in 0..self.finished.len() {
            let echo = self.shape.echo_of(index);
            if !echo.is_empty() {
                self.chunk(choice(index, echo, &Value::Null, None), out);
            }
        }
    }

    fn token(&mut self, index: usize, token: Token, out: &mut String) {
        let Some(offset) = self.offsets.get_mut(index) else { return };
        let before = *offset;
        *offset += token.text.chars().count();
        let finish = token.finish.map(|finish| finish_reason(Some(finish)));
        self.finished[index] |= finish.is_some();
        if token.text.is_empty() && finish.is_none() && !self.shape.logprobs {
            return;
        }
        let logprobs = match self.shape.logprobs {
            true => logprobs_value(&*self.backend, std::slice::from_ref(&token), before),
            false => Value::Null,
        };
        self.chunk(choice(index, &token.text, &logprobs, finish), out);
    }

    fn end(&mut self, total: Usage, out: &mut String) {
        for index in 0..self.finished.len() {
            if !self.finished[index] {
                self.chunk(choice(index, "", &Value::Null, Some("length")), out);
            }
        }
        if self.shape.include_usage {
            let mut chunk = self.shape.envelope(Vec::new());
            chunk.insert("usage".to_owned(), usage(total));
            event_stream::data(out, &Value::Object(chunk));
        }
        *out += "data: [DONE]\n\n";
    }

    fn error(&mut self, error: &ApiError, out: &mut String) {
        event_stream::data(out, &error.openai());
    }
}
