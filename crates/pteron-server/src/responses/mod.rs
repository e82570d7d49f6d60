//! `/v1/responses`, without anything that is stored: each request has the whole conversation.

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
use crate::reply::{self, Call, Reply};
use crate::request::{Generation, Job};
use crate::state::{App, Caller};
use crate::tools::Tools;
use crate::{format, id, sampling};

/// What of a request decides how its answer is written.
pub(super) struct Shape {
    id: String,
    created: u64,
    model: String,
    /// Fields that the answer repeats.
    echoed: Value,
    parser: ParserOptions,
}

/// Answers with a response.
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let target = app.target(&fields)?;
    let model = target.slot.loaded()?;
    fields.refuse("previous_response_id", &[], "this server stores no responses: send the whole conversation as input")?;
    fields.refuse("conversation", &[], "this server stores no conversations: send the whole conversation as input")?;
    fields.refuse("background", &[json!(false)], "this server answers while the client waits")?;
    let tools = Tools::openai(&fields, false)?;
    check_tools(&model, &tools)?;
    let conversation = read::conversation(&fields)?;
    let max_tokens = fields.count("max_output_tokens", 1..=u64::from(u32::MAX))?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let mut parser = ParserOptions::new(&model, &tools);
    let mut options = sampling::options(&fields, "stop", &model.backend.info())?.with_max_tokens(max_tokens);
    options.show_special = parser.calls.is_some();

    let permit = app.admit()?;
    let constraints = match (format::form_of_choice(&model, &tools)?, format::text_format(&fields)?) {
        (Some(form), None) | (None, Some(form)) => format::compile(&app, &model, form).await?,
        (None, None) => Constraints::default(),
        (Some(_), Some(form)) => {
            return Err(ApiError::unsupported(&form.field, "a format cannot be combined with a tool that must be called"));
        }
    };
    let echoed = echoed(&fields, &options, &tools);
    let prompt = conversation.prepare(&app, &model, tools, max_tokens, "input").await?;
    parser.in_reasoning = prompt.in_reasoning && !constraints.any();
    let shape = Shape { id: id::new("resp_"), created: id::now(), model: target.name().to_owned(), echoed, parser };
    let job = Job { target, model, prompts: vec![prompt.tokens], n: 1, options, constraints, prompt_field: "input" };
    let mut generation = Generation::start(&app, caller, job, permit)?;
    if streams {
        return Ok(event_stream::respond(generation, stream::ResponseEvents::new(shape)));
    }
    let replies = reply::collect(&mut generation, || shape.parser.parser(), false).await?;
    let reply = replies.into_iter().next().unwrap_or_default();
    let body = shape.response(reply.finish, output(&reply), Some(generation.usage()));
    Ok(json_response(StatusCode::OK, &body))
}

/// What clients expect to read of their own request.
fn echoed(fields: &Fields<'_>, options: &pteron_llm::GenerationOptions, tools: &Tools) -> Value {
    let or = |name: &str, other: Value| fields.get(name).cloned().unwrap_or(other);
    json!({
        "instructions": or("instructions", Value::Null),
        "metadata": or("metadata", json!({})),
        "temperature": options.sampling.temperature,
        "top_p": options.sampling.top_p,
        "max_output_tokens": options.max_tokens,
        "parallel_tool_calls": or("parallel_tool_calls", json!(true)),
        "tool_choice": or("tool_choice", json!("auto")),
        "tools": or("tools", json!(tools.definitions)),
        "text": or("text", json!({ "format": { "type": "text" } })),
        "truncation": "disabled",
        "previous_response_id": null,
        "store": false,
    })
}

/// Counts of tokens as this API names them.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
    })
}

pub(super) fn reasoning_item(id: &str, text: &str) -> Value {
    json!({ "id": id, "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": text }] })
}

pub(super) fn message_item(id: &str, status: &str, text: &str) -> Value {
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": [text_part(text)] })
}

pub(super) fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

pub(super) fn call_item(id: &str, status: &str, call: &Call) -> Value {
    json!({
        "id": id, "type": "function_call", "status": status, "call_id": call.id, "name": call.name, "arguments": call.arguments,
    })
}

fn output(reply: &Reply) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.reasoning.is_empty() {
        items.push(reasoning_item(&id::new("rs_"), &reply.reasoning));
    }
    if !reply.content.is_empty() || reply.calls.is_empty() {
        items.push(message_item(&id::new("msg_"), "completed", &reply.content));
    }
    items.extend(reply.calls.iter().map(|call| call_item(&id::new("fc_"), "completed", call)));
    items
}

impl Shape {
    /// The whole response; without `total` it has only begun.
    pub(super) fn response(&self, finish: Option<Finish>, output: Vec<Value>, total: Option<Usage>) -> Value {
        let is_cut = total.is_some() && matches!(finish, Some(Finish::Length) | None);
        let status = match total {
            None => "in_progress",
            Some(_) if is_cut => "incomplete",
            Some(_) => "completed",
        };
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": if is_cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null },
            "model": self.model,
            "output": output,
        });
        if let Some(total) = total {
            response["usage"] = usage(total);
        }
        if let (Value::Object(response), Value::Object(echoed)) = (&mut response, &self.echoed) {
            response.extend(echoed.clone());
        }
        response
    }
}
