//! Reads the conversation of a message.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompt::{self, Conversation};

/// Bounds of what a request may list.
const MAX_MESSAGES: usize = 4096;
const MAX_BLOCKS: usize = 256;

/// Reads `system` and `messages`. A last message of the assistant is what the model continues.
pub(super) fn conversation(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let mut conversation = Conversation::default();
    if fields.get("system").is_some() {
        conversation.push("system", &prompt::text(fields, "system", &["text"])?);
    }
    let messages = fields.list("messages", MAX_MESSAGES)?.ok_or_else(|| fields.invalid("messages", "is missing"))?;
    if messages.is_empty() {
        return Err(fields.invalid("messages", "must have at least one message"));
    }
    for (index, value) in messages.iter().enumerate() {
        let message = Fields::of(value, fields.path(&format!("messages.{index}")))?;
        let role = message.one_of("role", &["user", "assistant", "system"])?;
        let role = role.ok_or_else(|| message.invalid("role", "is missing"))?;
        match message.string("content") {
            Ok(Some(text)) => conversation.push(role, text),
            _ => blocks(&mut conversation, &message, role)?,
        }
    }
    conversation.take_reply_prefix();
    Ok(conversation)
}

/// Reads the content of a message that is a list of blocks.
fn blocks(conversation: &mut Conversation, message: &Fields<'_>, role: &str) -> Result<(), ApiError> {
    let blocks = message.list("content", MAX_BLOCKS)?.ok_or_else(|| message.invalid("content", "is missing"))?;
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut reasoning = String::new();
    for (index, value) in blocks.iter().enumerate() {
        let block = Fields::of(value, message.path(&format!("content.{index}")))?;
        match block.required_string("type")? {
            "text" => text += block.required_string("text")?,
            "thinking" => reasoning += block.string("thinking")?.unwrap_or_default(),
            "redacted_thinking" => {}
            "tool_use" => {
                let input = block.get("input").map(Value::to_string).unwrap_or_else(|| "{}".to_owned());
                calls.push(prompt::tool_call(block.required_string("id")?, block.required_string("name")?, &input));
            }
            "tool_result" => {
                let result =
                    if block.get("content").is_some() { prompt::text(&block, "content", &["text"])? } else { String::new() };
                let id = block.required_string("tool_use_id")?;
                conversation.push_full("tool", &result, Map::from_iter([("tool_call_id".to_owned(), id.into())]));
            }
            _ => {
                let message = "blocks must be text, thinking, tool_use or tool_result: the model takes no pictures or files";
                return Err(ApiError::unsupported(&block.path("type"), message));
            }
        }
    }
    let is_results_only = text.is_empty() && calls.is_empty() && role == "user" && !blocks.is_empty();
    if is_results_only && blocks.iter().all(|block| block["type"] == "tool_result") {
        return Ok(());
    }
    let mut more = Map::new();
    if !calls.is_empty() {
        more.insert("tool_calls".to_owned(), calls.into());
    }
    if !reasoning.is_empty() {
        more.insert("reasoning_content".to_owned(), reasoning.into());
    }
    conversation.push_full(role, &text, more);
    Ok(())
}
