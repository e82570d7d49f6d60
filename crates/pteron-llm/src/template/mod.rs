//! Chat templates: render a conversation to the text that a model was trained to continue.
//!
//! Templates are written in Jinja and come in `tokenizer_config.json` or `chat_template.jinja`. They are run as the
//! `transformers` library runs them: blocks are trimmed, methods of Python's strings and dictionaries work, and there are
//! `raise_exception`, `strftime_now` and a `tojson` that escapes nothing.
//!
//! # Limits
//!
//! A template is code from a file. It can read its inputs and nothing else, and it always terminates. The engine counts steps and
//! bytes; a template that exceeds a limit fails with [`TemplateError::Limit`], which names the limit:
//!
//! - a template has up to 1 MiB; blocks, brackets and calls nest up to 200 deep, lists and dictionaries up to 128, which fits the
//!   stack of a browser;
//! - steps, memory and output depend on the size of the template and its inputs: 100 steps, 128 bytes of memory and 64 bytes of
//!   output per byte, in addition to 4 million steps, 64 MiB and 4 MiB. Reading and creating texts costs steps, too, so the limit
//!   on steps bounds the time;
//! - `range` returns up to 100,000 numbers, and fields are up to 65,536 characters wide.
//!
//! Real templates, with conversations of any length, use a small part of that.

mod ast;
mod budget;
mod builtin;
mod date;
mod evaluate;
mod expression;
mod fault;
mod json;
mod lexer;
mod operators;
mod parser;
mod render;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use ast::Body;
use budget::Budget;
pub use budget::Limit;
pub use date::strftime;
use fault::Fault;
use lexer::SyntaxError;
use parser::{ParseError, parse};
use pteron_format::{EscapedText, escaped_names};
use render::Renderer;
use value::Value;

use crate::chat::{Message, RenderOptions};
use crate::tokenizer_config::TokenizerConfig;

/// A template that is missing or malformed, or that rejects the conversation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A template that does not exist.
    #[error("there is no chat template {:?}; there are {}", EscapedText::name(.name), escaped_names(.names.iter().map(String::as_str)))]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing names.
        names: Vec<String>,
    },
    /// A variable that is not JSON.
    #[error("the variable {:?} for the chat template is not JSON: {}", EscapedText::name(.name), EscapedText::sentence(.reason))]
    Variable {
        /// The variable.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A template with a syntax error.
    #[error("chat template {:?}, line {line}: {}", EscapedText::name(.name), EscapedText::sentence(.reason))]
    Syntax {
        /// The template.
        name: String,
        /// The line, counted from 1; 0 if it is not known.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A template that fails on this conversation.
    #[error("chat template {:?} fails in line {line}: {}", EscapedText::name(.name), EscapedText::sentence(.reason))]
    Render {
        /// The template.
        name: String,
        /// The line, counted from 1; 0 if it is not known.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A template that exceeds a limit.
    #[error("chat template {:?} is stopped in line {line}: {limit}; use the template that belongs to the model", EscapedText::name(.name))]
    Limit {
        /// The template.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The limit that was exceeded.
        limit: Limit,
    },
    /// A template that rejects this conversation with `raise_exception`.
    #[error("the chat template rejects this conversation: {}", EscapedText::sentence(.message))]
    Refused {
        /// The template's message.
        message: String,
    },
}

/// The chat templates of a model, ready to render.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    templates: Vec<Arc<Template>>,
    names: Vec<String>,
    tokens: BTreeMap<String, String>,
}

/// One template.
#[derive(Debug)]
struct Template {
    body: Body,
    /// The length of its source in bytes.
    size: usize,
}

impl ChatTemplate {
    /// Parses one template, the content of `chat_template.jinja`. `tokens` are the tokens that the template can name, by role, such
    /// as `bos_token`: see [`TokenizerConfig::tokens`].
    ///
    /// # Errors
    /// A template with a syntax error.
    pub fn new(source: &str, tokens: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        Self::from_templates(&[("default".to_owned(), source.to_owned())], tokens)
    }

    /// Parses the templates of a configuration; `None` if it has none.
    ///
    /// # Errors
    /// A template with a syntax error.
    pub fn from_config(config: &TokenizerConfig) -> Result<Option<Self>, TemplateError> {
        if config.templates.is_empty() {
            return Ok(None);
        }
        Self::from_templates(&config.templates, config.tokens.clone()).map(Some)
    }

    fn from_templates(templates: &[(String, String)], tokens: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let (mut parsed, mut names) = (Vec::new(), Vec::new());
        for (name, source) in templates {
            let body = parse(source).map_err(|error| match (name.clone(), error) {
                (name, ParseError::Syntax(SyntaxError { line, reason })) => {
                    TemplateError::Syntax { name, line, reason: format!("syntax error: {reason}") }
                }
                (name, ParseError::Limit { line, limit }) => TemplateError::Limit { name, line, limit },
            })?;
            parsed.push(Arc::new(Template { body, size: source.len() }));
            names.push(name.clone());
        }
        Ok(Self { templates: parsed, names, tokens })
    }

    /// The names of the templates.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// The template does not exist, fails, or rejects the conversation.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, TemplateError> {
        let wanted = options.template.as_deref();
        let name = match (wanted, self.names.as_slice()) {
            (None, [only]) => only,
            _ => wanted.unwrap_or("default"),
        };
        let Some(index) = self.names.iter().rposition(|known| known == name) else {
            return Err(TemplateError::Unknown { name: name.to_owned(), names: self.names.clone() });
        };
        let Some(template) = self.templates.get(index) else {
            return Err(TemplateError::Unknown { name: name.to_owned(), names: self.names.clone() });
        };
        let mut budget = Budget::new(self.size(template, messages, options));
        let failed = |fault| failure(name, 0, fault);
        let mut variables: Vec<(&str, Value)> = Vec::new();
        for (name, token) in &self.tokens {
            variables.push((name, Value::text(token, &mut budget).map_err(failed)?));
        }
        variables.push(("messages", conversation(messages, &mut budget).map_err(failed)?));
        variables.push(("add_generation_prompt", Value::Bool(options.add_generation_prompt)));
        // Templates ask whether these are none, not whether they are defined.
        variables.extend([("tools", Value::None), ("documents", Value::None)]);
        for (name, json) in &options.variables {
            let value = json::read(json, &mut budget);
            let wrong = |error: json::ReadError| TemplateError::Variable { name: name.clone(), reason: error.to_string() };
            variables.push((name, value.map_err(wrong)?));
        }
        let mut renderer = Renderer::new(budget, options.now, variables);
        renderer.render(&template.body).map_err(|fault| failure(name, renderer.line, fault))
    }

    /// The total bytes of a template and its inputs.
    fn size(&self, template: &Template, messages: &[Message], options: &RenderOptions) -> usize {
        // A message takes more than its text.
        let messages = messages.iter().map(|message| message.role.len() + message.content.len() + 256);
        let variables = options.variables.iter().map(|(name, json)| name.len() + json.len());
        let tokens = self.tokens.iter().map(|(name, token)| name.len() + token.len());
        messages.chain(variables).chain(tokens).fold(template.size, usize::saturating_add)
    }
}

/// The messages as templates see them.
fn conversation(messages: &[Message], budget: &mut Budget) -> Result<Value, Fault> {
    let mut list = Vec::new();
    for Message { role, content } in messages {
        let mut entries = Vec::new();
        for (name, text) in [("role", role), ("content", content)] {
            entries.push((Value::Text(name.into()), Value::text(text, budget)?));
        }
        list.push(Value::unique_dict(entries, budget)?);
    }
    Value::list(list, budget)
}

fn failure(name: &str, line: usize, fault: Fault) -> TemplateError {
    let name = name.to_owned();
    match fault {
        Fault::Failed(reason) => TemplateError::Render { name, line, reason },
        Fault::Limit(limit) => TemplateError::Limit { name, line, limit },
        Fault::Raised(message) => TemplateError::Refused { message },
    }
}
