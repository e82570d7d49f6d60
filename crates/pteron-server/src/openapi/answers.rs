//! The schemas of answers.

use serde_json::{Value, json};

use super::schema::{
    any_object, any_of, boolean, constant, count_from, list, nullable, one_of, record, record_with, reference, string,
};

/// An error as OpenAI's clients read it.
pub(super) fn openai_error() -> Value {
    let fields = [
        ("message", json!({ "type": "string", "minLength": 1 })),
        ("type", string()),
        ("param", nullable(string())),
        ("code", nullable(string())),
    ];
    record([("error", record(fields))])
}

/// An error as Anthropic's clients read it.
pub(super) fn anthropic_error() -> Value {
    let fields = [("type", string()), ("message", json!({ "type": "string", "minLength": 1 }))];
    record([("type", constant("error")), ("error", record(fields))])
}

/// An event of a stream. Its data is JSON, or a mark at the end of OpenAI's older streams.
pub(super) fn event() -> Value {
    record_with([("data", string())], [("event", string())])
}

pub(super) fn status() -> Value {
    record([("status", one_of(&["ok", "ready"]))])
}

pub(super) fn description() -> Value {
    record([("openapi", string()), ("info", any_object()), ("paths", any_object())])
}

fn model_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("id", string()),
        ("object", constant("model")),
        ("type", constant("model")),
        ("created", count_from(0)),
        ("created_at", string()),
        ("display_name", string()),
        ("owned_by", string()),
        ("max_model_len", nullable(count_from(1))),
        ("loaded", boolean()),
        ("root", string()),
        ("parent", nullable(string())),
        ("status", record([("value", one_of(&["loaded", "loading", "unloading", "unloaded"]))])),
    ]
}

pub(super) fn model() -> Value {
    record(model_fields())
}

pub(super) fn changed_model() -> Value {
    record(model_fields().into_iter().chain([("success", boolean())]))
}

pub(super) fn unloaded_adapter() -> Value {
    record([("id", string()), ("success", boolean())])
}

pub(super) fn embeddings() -> Value {
    let numbers = list(&json!({ "type": "number" }));
    let embedding =
        [("object", constant("embedding")), ("index", count_from(0)), ("embedding", any_of([numbers, string()]))];
    record([
        ("object", constant("list")),
        ("data", list(&record(embedding))),
        ("model", string()),
        ("usage", record([("prompt_tokens", count_from(0)), ("total_tokens", count_from(0))])),
    ])
}

pub(super) fn models() -> Value {
    record([
        ("object", constant("list")),
        ("data", list(&reference("Model"))),
        ("first_id", nullable(string())),
        ("last_id", nullable(string())),
        ("has_more", boolean()),
    ])
}

/// Counts of tokens as OpenAI's completions name them.
fn usage() -> Value {
    record([
        ("prompt_tokens", count_from(0)),
        ("completion_tokens", count_from(0)),
        ("total_tokens", count_from(0)),
        ("prompt_tokens_details", record([("cached_tokens", count_from(0))])),
    ])
}

fn logprob() -> Value {
    // Zero is the logarithm of certainty.
    json!({ "type": "number", "maximum": 0.001 })
}

fn token() -> [(&'static str, Value); 3] {
    [
        ("token", string()),
        ("logprob", logprob()),
        ("bytes", list(&json!({ "type": "integer", "minimum": 0, "maximum": 255 }))),
    ]
}

fn completion_with(object: &str, choice: &Value) -> Value {
    record([
        ("id", string()),
        ("object", constant(object)),
        ("created", count_from(0)),
        ("model", string()),
        ("choices", list(choice)),
        ("usage", usage()),
    ])
}

fn call() -> Value {
    let function = record([("name", string()), ("arguments", string())]);
    record([("id", string()), ("type", constant("function")), ("function", function)])
}

pub(super) fn chat() -> Value {
    let message = record_with(
        [("role", constant("assistant")), ("content", nullable(string())), ("refusal", json!({ "type": "null" }))],
        [("reasoning_content", string()), ("tool_calls", list(&call()))],
    );
    let token_with_others = record(token().into_iter().chain([("top_logprobs", list(&record(token())))]));
    let logprobs = record([("content", list(&token_with_others)), ("refusal", json!({ "type": "null" }))]);
    let choice = record([
        ("index", count_from(0)),
        ("message", message),
        ("logprobs", nullable(logprobs)),
        ("finish_reason", one_of(&["stop", "length", "tool_calls"])),
    ]);
    completion_with("chat.completion", &choice)
}

pub(super) fn completion() -> Value {
    let logprobs = record([
        ("tokens", list(&string())),
        ("token_logprobs", list(&logprob())),
        ("top_logprobs", list(&json!({ "type": "object", "additionalProperties": logprob() }))),
        ("text_offset", list(&count_from(0))),
    ]);
    let choice = record([
        ("index", count_from(0)),
        ("text", string()),
        ("logprobs", nullable(logprobs)),
        ("finish_reason", one_of(&["stop", "length"])),
    ]);
    completion_with("text_completion", &choice)
}

pub(super) fn response() -> Value {
    let text = record([
        ("type", constant("output_text")),
        ("text", string()),
        ("annotations", list(&any_object())),
        ("logprobs", list(&any_object())),
    ]);
    let message = record([
        ("type", constant("message")),
        ("id", string()),
        ("status", string()),
        ("role", constant("assistant")),
        ("content", list(&text)),
    ]);
    let reasoning = record([("type", constant("reasoning")), ("id", string()), ("summary", list(&any_object()))]);
    let call = record([
        ("type", constant("function_call")),
        ("id", string()),
        ("status", string()),
        ("call_id", string()),
        ("name", string()),
        ("arguments", string()),
    ]);
    let usage = record([
        ("input_tokens", count_from(0)),
        ("input_tokens_details", record([("cached_tokens", count_from(0)), ("cache_write_tokens", count_from(0))])),
        ("output_tokens", count_from(0)),
        ("output_tokens_details", record([("reasoning_tokens", count_from(0))])),
        ("total_tokens", count_from(0)),
    ]);
    record([
        ("id", string()),
        ("object", constant("response")),
        ("created_at", count_from(0)),
        ("status", one_of(&["completed", "incomplete"])),
        ("error", json!({ "type": "null" })),
        ("incomplete_details", nullable(record([("reason", constant("max_output_tokens"))]))),
        ("model", string()),
        ("output", list(&any_of([message, reasoning, call]))),
        ("usage", usage),
    ])
}

pub(super) fn message() -> Value {
    let text = record([("type", constant("text")), ("text", string())]);
    let thinking = record([("type", constant("thinking")), ("thinking", string()), ("signature", string())]);
    let call = record([("type", constant("tool_use")), ("id", string()), ("name", string()), ("input", any_object())]);
    let usage = record([
        ("input_tokens", count_from(0)),
        ("cache_creation_input_tokens", count_from(0)),
        ("cache_read_input_tokens", count_from(0)),
        ("output_tokens", count_from(0)),
    ]);
    record([
        ("id", string()),
        ("type", constant("message")),
        ("role", constant("assistant")),
        ("model", string()),
        ("content", list(&any_of([text, thinking, call]))),
        ("stop_reason", one_of(&["end_turn", "max_tokens", "stop_sequence", "tool_use"])),
        ("stop_sequence", nullable(string())),
        ("usage", usage),
    ])
}

pub(super) fn count() -> Value {
    record([("input_tokens", count_from(0))])
}

pub(super) fn tokens() -> Value {
    record([("tokens", list(&count_from(0))), ("count", count_from(0)), ("max_model_len", count_from(1))])
}

pub(super) fn text() -> Value {
    record([("prompt", string()), ("content", string())])
}
