//! Anthropic's API: `/v1/messages`.

mod read;
mod stream;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::backend::{Finish, Usage};
use crate::chat::{ParserOptions, check_tools};
use crate::constraint::Constraints;
use crate::error::{ApiError, json_response};
use crate::event_stream;
use crate::fields::Fields;
use crate::reply::{self, Reply};
use crate::request::{Generation, Job};
use crate::slot::LoadedModel;
use crate::state::{App, Caller};
use crate::tools::Tools;
use crate::{format, id, sampling};

/// Whether a path belongs to this API, whose errors have another shape.
pub(crate) fn is_route(path: &str) -> bool {
    path.starts_with("/v1/messages")
}

/// Answers with a message.
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Response {
    answer(&app, caller, request).await.unwrap_or_else(|error| error.respond(&error.anthropic()))
}

/// Answers with the number of tokens of a message's prompt.
pub(crate) async fn count_tokens(State(app): State<Arc<App>>, request: Request<Body>) -> Response {
    count(&app, request).await.unwrap_or_else(|error| error.respond(&error.anthropic()))
}

async fn count(app: &App, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let model = app.target(&fields)?.slot.loaded()?;
    let tools = Tools::anthropic(&fields)?;
    let prompt = read::conversation(&fields)?.prepare(app, &model, tools, None, "messages").await?;
    Ok(json_response(StatusCode::OK, &json!({ "input_tokens": prompt.tokens.len() })))
}

/// What of a request decides how its answer is written.
pub(super) struct Shape {
    id: String,
    model: String,
    stop_strings: Vec<String>,
    parser: ParserOptions,
    prompt_tokens: usize,
}

async fn answer(app: &App, caller: Caller, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let target = app.target(&fields)?;
    let model = target.slot.loaded()?;
    let tools = Tools::anthropic(&fields)?;
    check_tools(&model, &tools)?;
    fields.refuse("mcp_servers", &[json!([])], "this server calls no other servers")?;
    let max_tokens = fields.count("max_tokens", 1..=u64::from(u32::MAX))?;
    let max_tokens = max_tokens.ok_or_else(|| fields.invalid("max_tokens", "is missing"))?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let mut parser = ParserOptions::new(&model, &tools);
    let mut options = sampling::options(&fields, "stop_sequences", &model.backend.info())?.with_max_tokens(max_tokens);
    options.show_special = parser.calls.is_some();

    let permit = app.admit()?;
    let conversation = read::conversation(&fields)?;
    let constraints = tool_constraints(app, &model, &tools).await?;
    let prompt = conversation.prepare(app, &model, tools, Some(max_tokens), "messages").await?;
    parser.in_reasoning = prompt.in_reasoning && !constraints.any();
    let shape = Shape {
        id: id::new("msg_"),
        model: target.name().to_owned(),
        stop_strings: options.stop_strings.clone(),
        parser,
        prompt_tokens: prompt.tokens.len(),
    };
    let job = Job { target, model, prompts: vec![prompt.tokens], n: 1, options, constraints, prompt_field: "messages" };
    let mut generation = Generation::start(app, caller, job, permit)?;
    if streams {
        return Ok(event_stream::respond(generation, stream::MessageEvents::new(shape)));
    }
    let replies = reply::collect(&mut generation, || shape.parser.parser(), false).await?;
    let reply = replies.into_iter().next().unwrap_or_default();
    Ok(json_response(StatusCode::OK, &shape.message(&reply, generation.usage())))
}

async fn tool_constraints(app: &App, model: &Arc<LoadedModel>, tools: &Tools) -> Result<Constraints, ApiError> {
    match format::form_of_choice(model, tools)? {
        Some(form) => format::compile(app, model, form).await,
        None => Ok(Constraints::default()),
    }
}

/// Counts of tokens as Anthropic names them: those that were cached apart.
pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.generated_tokens,
    })
}

/// A number for a call that Anthropic's clients take.
pub(super) fn call_id() -> String {
    id::new("toolu_")
}

impl Shape {
    /// Why a message ended, and the stop sequence that ended it.
    pub(super) fn stop(&self, finish: Option<Finish>, calls: usize) -> (&'static str, Value) {
        match finish {
            Some(Finish::Length) | None => ("max_tokens", Value::Null),
            Some(Finish::StopString(index)) => {
                ("stop_sequence", self.stop_strings.get(index).map_or(Value::Null, |text| text.as_str().into()))
            }
            Some(Finish::Stop) if calls > 0 => ("tool_use", Value::Null),
            Some(Finish::Stop) => ("end_turn", Value::Null),
        }
    }

    fn message(&self, reply: &Reply, total: Usage) -> Value {
        let mut content = Vec::new();
        if !reply.reasoning.is_empty() {
            content.push(json!({ "type": "thinking", "thinking": reply.reasoning, "signature": "" }));
        }
        if !reply.content.is_empty() || reply.calls.is_empty() {
            content.push(json!({ "type": "text", "text": reply.content }));
        }
        for call in &reply.calls {
            let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            content.push(json!({ "type": "tool_use", "id": call_id(), "name": call.name, "input": input }));
        }
        let (reason, sequence) = self.stop(reply.finish, reply.calls.len());
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": reason, "stop_sequence": sequence, "usage": usage(total),
        })
    }
}
