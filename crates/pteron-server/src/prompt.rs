//! Conversations, whichever API they came through, and the prompts they become.

use std::sync::Arc;

use pteron_llm::{ChatRequest, Message, ShowSpecial, TokenId};
use serde_json::{Map, Value, json};

use crate::backend::BackendError;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::slot::LoadedModel;
use crate::state::App;
use crate::tools::Tools;

/// Bounds of what a request may list.
const MAX_MESSAGES: usize = 4096;
const MAX_PARTS: usize = 256;
const MAX_CALLS: usize = 128;
const MAX_VARIABLES: usize = 16;
/// Variables that the server sets itself.
const OWN_VARIABLES: [&str; 4] = ["messages", "tools", "add_generation_prompt", "documents"];
/// Tokens at the end of a prompt in which a template may open the reasoning.
const TAIL: usize = 8;

/// A conversation.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    /// The same for templates, with what only they can show: calls of tools and their results.
    full: Vec<Value>,
    /// Whether any message is more than a role and a text.
    is_rich: bool,
    variables: Vec<(String, String)>,
    pub(crate) reply_prefix: String,
}

/// A prompt of a conversation.
pub(crate) struct PreparedPrompt {
    pub(crate) tokens: Vec<TokenId>,
    /// Whether the reply begins within the model's reasoning.
    pub(crate) in_reasoning: bool,
}

impl Conversation {
    /// Adds a message of a role and a text.
    pub(crate) fn push(&mut self, role: &str, text: &str) {
        self.messages.push(Message::new(role, text));
        self.full.push(json!({ "role": role, "content": text }));
    }

    /// Adds a message with further fields.
    pub(crate) fn push_full(&mut self, role: &str, text: &str, more: Map<String, Value>) {
        self.push(role, text);
        if let Some(Value::Object(last)) = self.full.last_mut().filter(|_| !more.is_empty()) {
            self.is_rich = true;
            last.extend(more);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes the last message off, if it is the model's: what it will continue.
    pub(crate) fn take_reply_prefix(&mut self) {
        if self.messages.last().is_some_and(|message| message.role == "assistant") && self.messages.len() > 1 {
            self.full.pop();
            self.reply_prefix = self.messages.pop().map(|message| message.content).unwrap_or_default();
        }
    }

    /// Reads `messages` and `chat_template_kwargs` of a chat completion.
    pub(crate) fn openai(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let mut conversation = Self::default();
        let messages = fields.list("messages", MAX_MESSAGES)?.ok_or_else(|| fields.invalid("messages", "is missing"))?;
        for (index, value) in messages.iter().enumerate() {
            let message = Fields::of(value, fields.path(&format!("messages.{index}")))?;
            let role = message.one_of("role", &["system", "developer", "user", "assistant", "tool", "function"])?;
            let role = role.ok_or_else(|| message.invalid("role", "is missing"))?;
            // Templates know the older names.
            let role = match role {
                "developer" => "system",
                "function" => "tool",
                other => other,
            };
            let mut more = Map::new();
            if let Some(calls) = message.list("tool_calls", MAX_CALLS)?.filter(|calls| !calls.is_empty()) {
                more.insert("tool_calls".to_owned(), tool_calls(&message, calls)?);
            }
            for name in ["tool_call_id", "name", "reasoning_content"] {
                more.extend(message.string(name)?.map(|text| (name.to_owned(), Value::from(text))));
            }
            let text = match message.get("content") {
                None if role == "assistant" => String::new(),
                _ => text(&message, "content", &["text", "refusal"])?,
            };
            conversation.push_full(role, &text, more);
        }
        if conversation.is_empty() {
            return Err(fields.invalid("messages", "must have at least one message"));
        }
        conversation.read_variables(fields)?;
        Ok(conversation)
    }

    fn read_variables(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let Some(Value::Object(map)) = fields.get("chat_template_kwargs") else {
            return fields.object("chat_template_kwargs").map(drop);
        };
        if map.len() > MAX_VARIABLES {
            return Err(fields.invalid("chat_template_kwargs", format_args!("may have {MAX_VARIABLES} entries")));
        }
        for (name, value) in map {
            if OWN_VARIABLES.contains(&name.as_str()) {
                return Err(fields.invalid(&format!("chat_template_kwargs.{name}"), "is set by the server"));
            }
            self.variables.push((name.clone(), value.to_string()));
        }
        Ok(())
    }

    /// The request that the template renders.
    fn into_request(self, tools: &Tools, has_template: bool, reserve: Option<usize>) -> ChatRequest {
        let mut request = ChatRequest::new().messages(self.messages).with_reply_prefix(self.reply_prefix);
        if tools.are_offered() {
            request = request.with_tools(Value::from(tools.definitions.clone()).to_string());
        }
        let mut render = request.render.clone();
        if has_template && self.is_rich {
            render = render.with_variable("messages", Value::from(self.full).to_string());
        }
        for (name, json) in self.variables {
            render = render.with_variable(name, json);
        }
        request.generation.max_tokens = reserve;
        request.with_render(render)
    }

    /// Renders and tokenizes the conversation, on a thread for it.
    pub(crate) async fn prepare(
        self,
        app: &App,
        model: &Arc<LoadedModel>,
        tools: Tools,
        reserve: Option<usize>,
        field: &'static str,
    ) -> Result<PreparedPrompt, ApiError> {
        app.compute(model, move |model| {
            let info = model.backend.info();
            let begins_reply = !self.reply_prefix.is_empty();
            let request = self.into_request(&tools, info.has_chat_template, reserve);
            let prompt = model.backend.chat_prompt(&request).map_err(|error| ApiError::from(error).at(field))?;
            if prompt.dropped_messages > 0 {
                let message = format!(
                    "the conversation does not fit the model's context of {} tokens: shorten it, or leave out older messages",
                    info.context_length
                );
                return Err(ApiError::from(BackendError::PromptTooLong(message)).at(field));
            }
            let tail = &prompt.tokens[prompt.tokens.len().saturating_sub(TAIL)..];
            let tail = model.backend.tokenizer().decode(tail, ShowSpecial::Yes);
            let in_reasoning = !begins_reply && info.has_chat_template && tail.trim_end().ends_with("<think>");
            Ok(PreparedPrompt { tokens: prompt.tokens, in_reasoning })
        })
        .await
    }
}

/// The calls of an earlier reply, as templates take them: with arguments as JSON, not as text.
fn tool_calls(message: &Fields<'_>, calls: &[Value]) -> Result<Value, ApiError> {
    let mut list = Vec::with_capacity(calls.len());
    for (index, value) in calls.iter().enumerate() {
        let call = Fields::of(value, message.path(&format!("tool_calls.{index}")))?;
        let function = call.object("function")?.ok_or_else(|| call.invalid("function", "is missing"))?;
        let name = function.required_string("name")?;
        list.push(tool_call(call.string("id")?.unwrap_or_default(), name, function.required_string("arguments")?));
    }
    Ok(Value::from(list))
}

/// A call as templates take it.
pub(crate) fn tool_call(id: &str, name: &str, arguments: &str) -> Value {
    let parsed = serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object);
    let arguments = parsed.unwrap_or_else(|| Value::from(arguments));
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

/// Text that is a string or a list of parts of these types.
pub(crate) fn text(fields: &Fields<'_>, name: &str, types: &[&str]) -> Result<String, ApiError> {
    if let Some(Value::String(text)) = fields.get(name) {
        return Ok(text.clone());
    }
    let Some(parts) = fields.list(name, MAX_PARTS)? else { return Err(fields.invalid(name, "is missing")) };
    let mut texts = Vec::with_capacity(parts.len());
    for (index, value) in parts.iter().enumerate() {
        let part = Fields::of(value, fields.path(&format!("{name}.{index}")))?;
        let kind = part.required_string("type")?;
        if !types.contains(&kind) {
            let message = "parts must be text: the model takes no pictures, sound or files";
            return Err(ApiError::unsupported(&part.path("type"), message));
        }
        texts.push(part.required_string(if kind == "refusal" { "refusal" } else { "text" })?);
    }
    Ok(texts.concat())
}
