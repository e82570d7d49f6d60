//! The schemas of requests.

use serde_json::{Value, json};

use super::schema::{
    any_object, any_of, boolean, constant, count_from, integer, list, number, object, one_of, reference, string,
};
use crate::options::Limits;
use crate::sampling::MAX_LOGPROBS;

/// The fields of every request that generates.
fn common() -> Vec<(&'static str, Value)> {
    vec![
        ("model", string()),
        ("stream", boolean()),
        ("temperature", number(0.0, 2.0)),
        ("top_p", number(0.0, 1.0)),
        ("top_k", json!({ "type": "integer", "minimum": -1, "maximum": u32::MAX })),
        ("min_p", number(0.0, 1.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
        ("repetition_penalty", number(0.01, 100.0)),
        ("seed", json!({ "type": "integer", "minimum": i64::MIN, "maximum": u64::MAX })),
        ("ignore_eos", boolean()),
        ("logit_bias", json!({ "type": "object", "additionalProperties": number(-100.0, 100.0) })),
    ]
}

fn with_common(mut fields: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    fields.extend(common());
    fields
}

fn stop() -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 256 });
    any_of([text.clone(), json!({ "type": "array", "items": text, "maxItems": 16 })])
}

fn choices() -> Value {
    integer(1, u64::try_from(Limits::default().choices).unwrap_or(u64::MAX))
}

fn stream_options() -> Value {
    object(&[], [("include_usage", boolean())])
}

fn string_or_object() -> Value {
    json!({ "type": ["string", "object"] })
}

pub(super) fn chat_message() -> Value {
    let text = object(&["type", "text"], [("type", constant("text")), ("text", string())]);
    object(
        &["role", "content"],
        [
            ("role", one_of(&["system", "developer", "user", "assistant", "tool"])),
            ("content", any_of([string(), list(&text)])),
            ("tool_calls", list(&any_object())),
            ("tool_call_id", string()),
        ],
    )
}

fn messages() -> Value {
    json!({ "type": "array", "minItems": 1, "items": reference("Message") })
}

pub(super) fn chat() -> Value {
    let fields = vec![
        ("messages", messages()),
        ("max_tokens", count_from(1)),
        ("max_completion_tokens", count_from(1)),
        ("n", choices()),
        ("stop", stop()),
        ("stream_options", stream_options()),
        ("logprobs", boolean()),
        ("top_logprobs", integer(0, MAX_LOGPROBS)),
        ("response_format", object(&["type"], [("type", one_of(&["text", "json_object", "json_schema"]))])),
        ("structured_outputs", any_object()),
        ("tools", list(&any_object())),
        ("tool_choice", string_or_object()),
        ("chat_template_kwargs", any_object()),
    ];
    object(&["messages"], with_common(fields))
}

pub(super) fn completion() -> Value {
    let tokens = list(&count_from(0));
    let fields = vec![
        ("prompt", any_of([string(), tokens.clone(), list(&string()), list(&tokens)])),
        ("max_tokens", count_from(0)),
        ("n", choices()),
        ("echo", boolean()),
        ("stop", stop()),
        ("stream_options", stream_options()),
        ("logprobs", integer(0, MAX_LOGPROBS)),
        ("response_format", any_object()),
        ("structured_outputs", any_object()),
    ];
    object(&["prompt"], with_common(fields))
}

pub(super) fn response() -> Value {
    let fields = vec![
        ("input", any_of([string(), list(&any_object())])),
        ("instructions", string()),
        ("max_output_tokens", count_from(1)),
        ("text", any_object()),
        ("tools", list(&any_object())),
        ("tool_choice", string_or_object()),
    ];
    object(&["input"], with_common(fields))
}

fn conversation() -> Vec<(&'static str, Value)> {
    vec![
        ("messages", json!({ "type": "array", "minItems": 1, "items": { "type": "object" } })),
        ("system", json!({ "type": ["string", "array"] })),
        ("tools", list(&any_object())),
        ("tool_choice", any_object()),
    ]
}

pub(super) fn message() -> Value {
    let mut fields = conversation();
    fields.extend([("max_tokens", count_from(1)), ("stop_sequences", stop())]);
    object(&["messages", "max_tokens"], with_common(fields))
}

pub(super) fn count() -> Value {
    let mut fields = conversation();
    fields.push(("model", string()));
    object(&["messages"], fields)
}

pub(super) fn embedding() -> Value {
    let tokens = list(&count_from(0));
    let fields = [
        ("input", any_of([string(), tokens.clone(), list(&string()), list(&tokens)])),
        ("model", string()),
        ("dimensions", count_from(1)),
        ("encoding_format", json!({ "enum": ["float", "base64"] })),
    ];
    object(&["input"], fields)
}

/// Without `wait`, the answer comes at once.
pub(super) fn load_model() -> Value {
    object(&["model"], [("model", string()), ("wait", boolean())])
}

/// `lora_path` is a folder of the server.
pub(super) fn load_adapter() -> Value {
    object(&["lora_name", "lora_path"], [("lora_name", string()), ("lora_path", string()), ("model", string())])
}

pub(super) fn unload_adapter() -> Value {
    object(&["lora_name"], [("lora_name", string())])
}

pub(super) fn tokenize() -> Value {
    object(&[], [("model", string()), ("prompt", string()), ("messages", messages()), ("add_special_tokens", boolean())])
}

pub(super) fn detokenize() -> Value {
    object(&["tokens"], [("model", string()), ("tokens", list(&count_from(0)))])
}
