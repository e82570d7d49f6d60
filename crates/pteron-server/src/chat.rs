//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pteron_llm::TokenId;
use serde_json::{Map, Value, json};

use crate::backend::{Backend, Finish, Token, Usage};
use crate::error::{ApiError, json_response};
use crate::event_stream::{self, Events};
use crate::fields::Fields;
use crate::output::{OutputParser, Part};
use crate::prompt::Conversation;
use crate::reply::{self, Call, Reply};
use crate::request::{Generation, Job};
use crate::sampling::{self, MAX_LOGPROBS};
use crate::slot::LoadedModel;
use crate::state::{App, Caller};
use crate::tools::Tools;
use crate::{format, id};

/// What of a request decides how its answer is written.
#[derive(Clone, Debug)]
struct Shape {
    id: String,
    created: u64,
    model: String,
    logprobs: bool,
    include_usage: bool,
    parser: ParserOptions,
}

/// How replies are split.
#[derive(Clone, Debug)]
pub(crate) struct ParserOptions {
    pub(crate) calls: Option<crate::output::CallFormat>,
    pub(crate) names: Vec<String>,
    pub(crate) in_reasoning: bool,
}

impl ParserOptions {
    pub(crate) fn new(model: &LoadedModel, tools: &Tools) -> Self {
        let calls = model.tools.filter(|_| tools.are_offered()).map(|family| family.format);
        Self { calls, names: tools.names.clone(), in_reasoning: false }
    }

    pub(crate) fn parser(&self) -> OutputParser {
        OutputParser::new(self.calls, self.names.clone(), true, self.in_reasoning)
    }
}

/// Answers a chat completion.
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
    refuse_unsupported(&fields)?;

    let tools = Tools::openai(&fields, true)?;
    check_tools(&model, &tools)?;
    let conversation = Conversation::openai(&fields)?;
    let logprobs = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=MAX_LOGPROBS)?;
    if top.is_some() && !logprobs {
        return Err(fields.invalid("top_logprobs", "needs logprobs to be true"));
    }
    let max_tokens = match fields.count("max_completion_tokens", 1..=u64::from(u32::MAX))? {
        Some(most) => Some(most),
        None => fields.count("max_tokens", 1..=u64::from(u32::MAX))?,
    };
    let most = u64::try_from(app.options.limits.choices).unwrap_or(u64::MAX);
    let n = fields.count("n", 1..=most)?.unwrap_or(1);
    let mut parser = ParserOptions::new(&model, &tools);
    let mut options = sampling::options(&fields, "stop", &info)?.with_max_tokens(max_tokens);
    options.show_special = parser.calls.is_some();
    options.sampling.logprobs = logprobs.then(|| u32::try_from(top.unwrap_or(0)).unwrap_or(0));
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let include_usage = stream_usage(&fields, streams)?;

    let permit = app.admit()?;
    let constraints = format::constraints(&app, &model, &fields, &tools).await?;
    let prompt = conversation.prepare(&app, &model, tools, max_tokens, "messages").await?;
    // What a grammar demands is the reply itself.
    parser.in_reasoning = prompt.in_reasoning && !constraints.any();
    let shape = Shape {
        id: id::new("chatcmpl-"),
        created: id::now(),
        model: target.name().to_owned(),
        logprobs,
        include_usage,
        parser,
    };
    let job = Job { target, model, prompts: vec![prompt.tokens], n, options, constraints, prompt_field: "messages" };
    let mut generation = Generation::start(&app, caller, job, permit)?;
    if streams {
        let choices = (0..n).map(|_| StreamedChoice::new(&shape)).collect();
        let backend = generation.shared_backend();
        return Ok(event_stream::respond(generation, ChatEvents { shape, choices, backend }));
    }
    let replies = reply::collect(&mut generation, || shape.parser.parser(), logprobs).await?;
    let backend = generation.backend();
    let choices: Vec<Value> = replies.iter().enumerate().map(|(index, reply)| shape.choice(index, reply, backend)).collect();
    let mut body = shape.envelope("chat.completion", choices);
    body.insert("usage".to_owned(), usage(generation.usage()));
    Ok(json_response(StatusCode::OK, &Value::Object(body)))
}

/// Refuses tools where no template could show them to the model.
pub(crate) fn check_tools(model: &LoadedModel, tools: &Tools) -> Result<(), ApiError> {
    if tools.are_offered() && model.tools.is_none() {
        let message = match model.backend.info().has_chat_template {
            true => "the model's chat template has no form for tools that this server knows",
            false => "the model has no chat template, which tools need",
        };
        return Err(ApiError::unsupported("tools", message));
    }
    Ok(())
}

/// Refuses what OpenAI's API has and this server does not, by name. Unknown fields are ignored.
fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), ApiError> {
    let text_only = [json!([]), json!(["text"])];
    fields.refuse("modalities", &text_only, "the model writes text only")?;
    fields.refuse("audio", &[], "the model writes text only")?;
    fields.refuse("functions", &[json!([])], "use tools in place of functions")?;
    fields.refuse("function_call", &[json!("auto"), json!("none")], "use tool_choice in place of function_call")?;
    fields.refuse("web_search_options", &[], "this server searches nothing")
}

/// Reads `stream_options`.
pub(crate) fn stream_usage(fields: &Fields<'_>, streams: bool) -> Result<bool, ApiError> {
    let Some(options) = fields.object("stream_options")? else { return Ok(false) };
    if !streams {
        return Err(fields.invalid("stream_options", "needs stream to be true"));
    }
    Ok(options.boolean("include_usage")?.unwrap_or(false))
}

/// Counts of tokens as OpenAI names them.
pub(crate) fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
    })
}

/// A token with its text and bytes.
fn token_value(backend: &dyn Backend, id: TokenId, logprob: f32) -> Map<String, Value> {
    let bytes = backend.tokenizer().token_bytes(id).unwrap_or_default();
    let mut map = Map::new();
    map.insert("token".to_owned(), String::from_utf8_lossy(&bytes).into());
    // JSON has no infinity; the API's own number for a token that could not be.
    map.insert("logprob".to_owned(), json!(logprob.max(-9999.0)));
    map.insert("bytes".to_owned(), bytes.into());
    map
}

fn logprobs_value(backend: &dyn Backend, tokens: &[Token]) -> Value {
    let content = tokens.iter().filter_map(|token| {
        let mut entry = token_value(backend, token.id, token.logprob?);
        let top = token.top_logprobs.iter().map(|(id, logprob)| Value::Object(token_value(backend, *id, *logprob)));
        entry.insert("top_logprobs".to_owned(), top.collect());
        Some(Value::Object(entry))
    });
    json!({ "content": content.collect::<Vec<_>>(), "refusal": null })
}

fn finish_reason(finish: Option<Finish>, calls: usize) -> &'static str {
    match finish {
        Some(Finish::Length) => "length",
        _ if calls > 0 => "tool_calls",
        _ => "stop",
    }
}

fn call_value(call: &Call) -> Value {
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
}

impl Shape {
    fn envelope(&self, object: &str, choices: Vec<Value>) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("id".to_owned(), self.id.as_str().into());
        map.insert("object".to_owned(), object.into());
        map.insert("created".to_owned(), self.created.into());
        map.insert("model".to_owned(), self.model.as_str().into());
        map.insert("choices".to_owned(), choices.into());
        map
    }

    fn choice(&self, index: usize, reply: &Reply, backend: &dyn Backend) -> Value {
        let content = match reply.content.is_empty() && !reply.calls.is_empty() {
            true => Value::Null,
            false => reply.content.as_str().into(),
        };
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), content);
        message.insert("refusal".to_owned(), Value::Null);
        if !reply.reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), reply.reasoning.as_str().into());
        }
        if !reply.calls.is_empty() {
            message.insert("tool_calls".to_owned(), reply.calls.iter().map(call_value).collect());
        }
        json!({
            "index": index,
            "message": message,
            "logprobs": if self.logprobs { logprobs_value(backend, &reply.tokens) } else { Value::Null },
            "finish_reason": finish_reason(reply.finish, reply.calls.len()),
        })
    }
}

/// One text of a streamed completion.
struct StreamedChoice {
    parser: OutputParser,
    finish: Option<Finish>,
}

impl StreamedChoice {
    fn new(shape: &Shape) -> Self {
        Self { parser: shape.parser.parser(), finish: None }
    }
}

struct ChatEvents {
    shape: Shape,
    choices: Vec<StreamedChoice>,
    backend: Arc<dyn Backend>,
}

impl ChatEvents {
    fn chunk(&self, choices: Vec<Value>, out: &mut String) {
        let mut chunk = self.shape.envelope("chat.completion.chunk", choices);
        if self.shape.include_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        event_stream::data(out, &Value::Object(chunk));
    }

    fn delta(&self, index: usize, delta: &Value, logprobs: &Value, finish: Option<&str>, out: &mut String) {
        let choice = json!({ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
        self.chunk(vec![choice], out);
    }

    /// Writes parts; the log probabilities of a token go with the first of them.
    fn parts(&self, index: usize, parts: Vec<Part>, mut logprobs: Value, out: &mut String) {
        if parts.is_empty() && !logprobs.is_null() {
            self.delta(index, &json!({}), &logprobs, None, out);
        }
        for part in parts {
            let delta = match part {
                Part::Content(text) => json!({ "content": text }),
                Part::Reasoning(text) => json!({ "reasoning_content": text }),
                Part::Call { index, name } => json!({ "tool_calls": [{
                    "index": index, "id": id::new("call_"), "type": "function", "function": { "name": name, "arguments": "" } }] }),
                Part::Arguments { index, text } => {
                    json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
                }
            };
            self.delta(index, &delta, &logprobs.take(), None, out);
        }
    }
}

impl Events for ChatEvents {
    fn begin(&mut self, out: &mut String) {
        for index in 0..self.choices.len() {
            self.delta(index, &json!({ "role": "assistant", "content": "" }), &Value::Null, None, out);
        }
    }

    fn token(&mut self, choice: usize, token: Token, out: &mut String) {
        let Some(streamed) = self.choices.get_mut(choice) else { return };
        let mut parts = streamed.parser.push(&token.text);
        let finish = token.finish;
        streamed.finish = finish.or(streamed.finish);
        if finish.is_some() {
            parts.extend(streamed.parser.finish());
        }
        let calls = streamed.parser.calls();
        let logprobs = match self.shape.logprobs {
            true => logprobs_value(&*self.backend, std::slice::from_ref(&token)),
            false => Value::Null,
        };
        self.parts(choice, parts, logprobs, out);
        if finish.is_some() {
            self.delta(choice, &json!({}), &Value::Null, Some(finish_reason(finish, calls)), out);
        }
    }

    fn end(&mut self, total: Usage, out: &mut String) {
        // A text without any token, of a prompt that fills the context.
        for index in 0..self.choices.len() {
            if self.choices[index].finish.is_none() {
                let parts = self.choices[index].parser.finish();
                self.parts(index, parts, Value::Null, out);
                self.delta(index, &json!({}), &Value::Null, Some("length"), out);
            }
        }
        if self.shape.include_usage {
            let mut chunk = self.shape.envelope("chat.completion.chunk", Vec::new());
            chunk.insert("usage".to_owned(), usage(total));
            event_stream::data(out, &Value::Object(chunk));
        }
        *out += "data: [DONE]\n\n";
    }

    fn error(&mut self, error: &ApiError, out: &mut String) {
        event_stream::data(out, &error.openai());
    }
}
