//! Reads the conversation of a response.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompt::{self, Conversation};

/// Bounds of what a request may list.
const MAX_ITEMS: usize = 4096;
/// Kinds of text in the content of a message.
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];

/// Reads `instructions` and `input`: a text, or messages, calls and their results.
pub(super) fn conversation(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let mut conversation = Conversation::default();
    if let Some(text) = fields.string("instructions")? {
        conversation.push("system", text);
    }
    if let Some(Value::String(text)) = fields.get("input") {
        conversation.push("user", text);
        return Ok(conversation);
    }
    let items = fields.list("input", MAX_ITEMS)?.ok_or_else(|| fields.invalid("input", "is missing"))?;
    if items.is_empty() {
        return Err(fields.invalid("input", "must have at least one item"));
    }
    for (index, value) in items.iter().enumerate() {
        item(&mut conversation, &Fields::of(value, fields.path(&format!("input.{index}")))?)?;
    }
    Ok(conversation)
}

fn item(conversation: &mut Conversation, item: &Fields<'_>) -> Result<(), ApiError> {
    match item.string("type")?.unwrap_or("message") {
        "message" => {
            let role = item.one_of("role", &["system", "developer", "user", "assistant"])?;
            let role = role.ok_or_else(|| item.invalid("role", "is missing"))?;
            let role = if role == "developer" { "system" } else { role };
            conversation.push(role, &prompt::text(item, "content", &TEXTS)?);
        }
        "function_call" => {
            let id = item.required_string("call_id")?;
            let call = prompt::tool_call(id, item.required_string("name")?, item.required_string("arguments")?);
            conversation.push_full("assistant", "", Map::from_iter([("tool_calls".to_owned(), Value::from(vec![call]))]));
        }
        "function_call_output" => {
            let id = item.required_string("call_id")?;
            let text = prompt::text(item, "output", &TEXTS)?;
            conversation.push_full("tool", &text, Map::from_iter([("tool_call_id".to_owned(), id.into())]));
        }
        // Templates leave out what earlier replies have thought.
        "reasoning" => {}
        _ => {
            let message = "items must be message, function_call, function_call_output or reasoning";
            return Err(ApiError::unsupported(&item.path("type"), message));
        }
    }
    Ok(())
}
