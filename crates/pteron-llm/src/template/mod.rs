//! Chat templates: from a conversation to the text that a model was trained to continue.
//!
//! Templates are written in Jinja and come in `tokenizer_config.json` or `chat_template.jinja`. They are run as the
//! `transformers` library runs them: blocks are trimmed, methods of Python's strings and dictionaries work, and there are
//! `raise_exception`, `strftime_now` and a `tojson` that escapes nothing.
//!
//! A template is code from a file. It can read what it is given and nothing else, and is stopped after two million steps. What
//! the engine does not limit is memory: a template that doubles a text again and again, or puts lists into lists thousands
//! deep, ends the program. Take templates from where you take models.

mod config;
mod date;
mod json;
mod prepare;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error as _;

pub use config::TokenizerConfig;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use prepare::{TooLarge, prepare};
use serde::Serialize;

/// How many steps a template may take; real ones take some thousand.
const FUEL: u64 = 2_000_000;

/// What somebody said in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Message {
    /// Who: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What.
    pub content: String,
}

impl Message {
    /// A message in this role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// What the model should know before the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}

/// How a conversation is rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderOptions {
    /// The template, where there are several; else the one called `default`.
    pub template: Option<String>,
    /// Whether the text ends where the model's answer starts.
    pub add_generation_prompt: bool,
    /// The time for templates that show a date, in seconds since 1970, in the time zone that is meant. Without it, such
    /// templates are errors.
    pub now: Option<i64>,
    /// More variables, such as `tools` or `enable_thinking`, each as JSON. As text, because models see the order of keys.
    pub variables: BTreeMap<String, String>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { template: None, add_generation_prompt: true, now: None, variables: BTreeMap::new() }
    }
}

/// A template that is not there, is broken, or refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A configuration that cannot be read.
    #[error("tokenizer_config.json: {0}")]
    Config(String),
    /// A template that is not there.
    #[error("there is no chat template {name:?}; there are {}", .names.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        names: Vec<String>,
    },
    /// A variable that is not JSON.
    #[error("the variable {name:?} for the chat template is not JSON: {reason}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A template that is not written correctly.
    #[error("chat template {name:?}, line {line}: {reason}")]
    Syntax {
        /// The template.
        name: String,
        /// The line, counted from 1; 0 if it is not known.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A template that fails on this conversation.
    #[error("chat template {name:?} fails in line {line}: {reason}")]
    Render {
        /// The template.
        name: String,
        /// The line, counted from 1; 0 if it is not known.
        line: usize,
        /// What went wrong.
        reason: String,
    },
    /// A template that does not take this conversation, in its own words.
    #[error("the chat template refuses this conversation: {message}")]
    Refused {
        /// What it says.
        message: String,
    },
}

/// What `raise_exception` carries through the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// The chat templates of a model, ready to render.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    names: Vec<String>,
    tokens: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// One template, as `chat_template.jinja` holds it. `tokens` are those that the template can name, by their roles, such as
    /// `bos_token`: see [`TokenizerConfig::tokens`].
    ///
    /// # Errors
    /// A template that is not written correctly.
    pub fn new(source: &str, tokens: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        Self::from_templates(&[("default".to_owned(), source.to_owned())], tokens)
    }

    /// The templates of a configuration; `None` if it has none.
    ///
    /// # Errors
    /// A template that is not written correctly.
    pub fn from_config(config: &TokenizerConfig) -> Result<Option<Self>, TemplateError> {
        if config.templates.is_empty() {
            return Ok(None);
        }
        Self::from_templates(&config.templates, config.tokens.clone()).map(Some)
    }

    fn from_templates(templates: &[(String, String)], tokens: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let syntax = |name: &str, error: &Error| {
            let (name, line) = (name.to_owned(), error.line().unwrap_or(0));
            TemplateError::Syntax { name, line, reason: reason(error) }
        };
        let mut environment = environment().map_err(|error| syntax("", &error))?;
        let mut names = Vec::new();
        for (name, source) in templates {
            let too_large = |TooLarge { line, reason }| TemplateError::Syntax { name: name.clone(), line, reason };
            let source = prepare(source).map_err(too_large)?;
            environment.add_template_owned(name.clone(), source).map_err(|error| syntax(name, &error))?;
            names.push(name.clone());
        }
        Ok(Self { environment, names, tokens })
    }

    /// The names of the templates.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// A template that is not there, fails, or refuses the conversation.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, TemplateError> {
        let wanted = options.template.as_deref();
        let name = match (wanted, self.names.as_slice()) {
            (None, [only]) => only,
            _ => wanted.unwrap_or("default"),
        };
        let unknown = |_| TemplateError::Unknown { name: name.to_owned(), names: self.names.clone() };
        let template = self.environment.get_template(name).map_err(unknown)?;
        let now = options.now;
        let strftime = Value::from_function(move |format: &str| strftime(now, format));
        let mut variables: BTreeMap<&str, Value> = BTreeMap::new();
        variables.extend(self.tokens.iter().map(|(name, token)| (name.as_str(), Value::from(token.as_str()))));
        variables.insert("messages", Value::from(Serde(messages)));
        variables.insert("add_generation_prompt", Value::from(options.add_generation_prompt));
        variables.insert("strftime_now", strftime);
        // Templates ask whether these are none, not whether they are defined.
        variables.extend([("tools", Value::from(())), ("documents", Value::from(()))]);
        for (name, json) in &options.variables {
            let value = serde_json::from_str(json);
            let wrong = |error: serde_json::Error| TemplateError::Variable { name: name.clone(), reason: error.to_string() };
            variables.insert(name, value.map_err(wrong)?);
        }
        template.render(Value::from_pairs(variables)).map_err(|error| failure(name, &error))
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(|state, value, method, args| match method {
        prepare::SLICE => prepare::slice(value, args),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    });
    environment.set_fuel(Some(FUEL));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    environment.add_filter("tojson", |value: Value, options: Kwargs| -> Result<String, Error> {
        let indent: Option<usize> = options.get("indent")?;
        // Python's other options change nothing here: no character is escaped and no key moved.
        let text = json::write(&value, indent);
        text.map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("tojson: {error}")))
    });
    as_in_python(&mut environment);
    Ok(environment)
}

/// Where the engine is stricter than Python's, looser, or fails.
fn as_in_python(environment: &mut Environment<'_>) {
    // The engine's own divides by zero.
    environment.add_test("divisibleby", |value: i64, by: i64| value.checked_rem(by) == Some(0));
    // None is not.
    environment.add_test("iterable", |value: &Value| {
        let kind = value.kind();
        matches!(kind, ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
    });
    // What is not defined has the length 0.
    for name in ["length", "count"] {
        environment.add_filter(name, |value: &Value| {
            let len = if value.is_undefined() { Some(0) } else { value.len() };
            len.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("a {} has no length", value.kind())))
        });
    }
}

fn strftime(now: Option<i64>, format: &str) -> Result<String, Error> {
    let fail = |reason: String| Error::new(ErrorKind::InvalidOperation, reason);
    let now = now.ok_or_else(|| fail("it shows a date, and none was given".to_owned()))?;
    date::format(now, format).map_err(fail)
}

fn failure(name: &str, error: &Error) -> TemplateError {
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(Raised(message)) = source.downcast_ref() {
            return TemplateError::Refused { message: message.clone() };
        }
        cause = source.source();
    }
    TemplateError::Render { name: name.to_owned(), line: error.line().unwrap_or(0), reason: reason(error) }
}

/// What went wrong, without the place.
fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
