//! Chat requests: the messages of a conversation and how the reply is generated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::options::GenerationOptions;
use crate::sampling::Sampling;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author: `system`, `user`, `assistant`, or another role that the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// Creates a message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// Creates an instruction to the model that precedes the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// Creates a reply of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}

/// How a chat template is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// The template's name, where a model has several; `default` otherwise.
    pub template: Option<String>,
    /// Whether the text ends where the model's reply starts.
    pub add_generation_prompt: bool,
    /// The time for templates that print a date, in seconds since 1970, shifted to the time zone that is meant. Without it, such
    /// templates fail.
    pub now: Option<i64>,
    /// Further variables, such as `tools` or `enable_thinking`, as JSON. JSON text keeps the order of keys, which models see.
    pub variables: BTreeMap<String, String>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { template: None, add_generation_prompt: true, now: None, variables: BTreeMap::new() }
    }
}

impl RenderOptions {
    /// Selects a template by name.
    #[must_use]
    pub fn with_template(mut self, name: impl Into<String>) -> Self {
        self.template = Some(name.into());
        self
    }

    /// Sets whether the text ends where the model's reply starts.
    #[must_use]
    pub fn with_generation_prompt(mut self, add: bool) -> Self {
        self.add_generation_prompt = add;
        self
    }

    /// Sets the time for templates that print a date, in seconds since 1970.
    #[must_use]
    pub fn with_now(mut self, unix_seconds: i64) -> Self {
        self.now = Some(unix_seconds);
        self
    }

    /// Sets a variable to a JSON value.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, json: impl Into<String>) -> Self {
        self.variables.insert(name.into(), json.into());
        self
    }
}

/// A request for the next reply in a conversation. Start it with [`Session::chat`](crate::Session::chat).
///
/// ```
/// use pteron_llm::{ChatRequest, Sampling};
///
/// let request = ChatRequest::new()
///     .system("Answer in one sentence.")
///     .user("What is a lifetime?")
///     .with_sampling(Sampling::default().with_temperature(0.7).with_seed(1))
///     .with_stop_string("\n\n")
///     .with_max_tokens(200);
/// assert_eq!(request.messages.len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The whole conversation, oldest message first. The session reuses the cached prefix.
    pub messages: Vec<Message>,
    /// The beginning of the reply, which the model continues.
    pub reply_prefix: String,
    /// How the chat template is rendered.
    pub render: RenderOptions,
    /// How the reply is generated.
    pub generation: GenerationOptions,
}

impl ChatRequest {
    /// Creates a request without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Appends messages.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// Appends a system message.
    #[must_use]
    pub fn system(self, content: impl Into<String>) -> Self {
        self.message(Message::system(content))
    }

    /// Appends a user message.
    #[must_use]
    pub fn user(self, content: impl Into<String>) -> Self {
        self.message(Message::user(content))
    }

    /// Appends an earlier reply of the model.
    #[must_use]
    pub fn assistant(self, content: impl Into<String>) -> Self {
        self.message(Message::assistant(content))
    }

    /// Sets the beginning of the reply, which the model continues.
    #[must_use]
    pub fn with_reply_prefix(mut self, text: impl Into<String>) -> Self {
        self.reply_prefix = text.into();
        self
    }

    /// Describes the tools that the model may call: a JSON list, passed to the template as `tools`. Calls appear in the reply's
    /// text, in the format that the template taught the model; nothing parses them.
    #[must_use]
    pub fn with_tools(mut self, json: impl Into<String>) -> Self {
        self.render = self.render.with_variable("tools", json);
        self
    }

    /// Sets how the chat template is rendered.
    #[must_use]
    pub fn with_render(mut self, render: RenderOptions) -> Self {
        self.render = render;
        self
    }

    /// Sets all options of the generation.
    #[must_use]
    pub fn with_generation(mut self, generation: GenerationOptions) -> Self {
        self.generation = generation;
        self
    }

    /// Sets how tokens are sampled.
    #[must_use]
    pub fn with_sampling(mut self, sampling: Sampling) -> Self {
        self.generation.sampling = sampling;
        self
    }

    /// Ends the reply before this string.
    #[must_use]
    pub fn with_stop_string(mut self, text: impl Into<String>) -> Self {
        self.generation.stop_strings.push(text.into());
        self
    }

    /// Limits the reply to this many tokens.
    #[must_use]
    pub fn with_max_tokens(mut self, count: usize) -> Self {
        self.generation.max_tokens = Some(count);
        self
    }
}
