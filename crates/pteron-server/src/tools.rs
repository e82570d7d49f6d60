//! Tools of a request, and the format in which a model's template has it call them.

use pteron_llm::{ChatRequest, ShowSpecial};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::output::CallFormat;

/// The most tools of a request.
const MAX_TOOLS: usize = 128;

/// How a model's template writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolFamily {
    pub(crate) format: CallFormat,
}

impl ToolFamily {
    /// Renders a conversation with a call and looks at what the template makes of it. Where the template renders none, the tokens of the
    /// vocabulary decide.
    pub(crate) fn detect(backend: &dyn Backend) -> Option<Self> {
        if !backend.info().has_chat_template {
            return None;
        }
        let tokenizer = backend.tokenizer();
        let rendered = render_call(backend).unwrap_or_default();
        let is_marker = |marker: &str| {
            let token = tokenizer.token_id(marker).is_some();
            rendered.contains(marker) || token
        };
        let format = if rendered.contains("<tool_call>") {
            CallFormat::Hermes
        } else if rendered.contains("[TOOL_CALLS]") {
            CallFormat::Mistral
        } else if is_marker("<|python_tag|>") {
            CallFormat::Llama3
        } else if is_marker("<tool_call>") {
            CallFormat::Hermes
        } else if is_marker("[TOOL_CALLS]") {
            CallFormat::Mistral
        } else {
            return None;
        };
        Some(Self { format })
    }
}

fn render_call(backend: &dyn Backend) -> Option<String> {
    let tools = json!([{ "type": "function", "function": {
        "name": "probe", "description": "A probe.", "parameters": { "type": "object", "properties": {} } } }]);
    let messages = json!([
        { "role": "user", "content": "Probe." },
        { "role": "assistant", "content": "", "tool_calls": [
            { "id": "call00000", "type": "function", "function": { "name": "probe", "arguments": {} } }] },
    ]);
    let request = ChatRequest::new().user("Probe.").with_tools(tools.to_string());
    let render = request.render.clone().with_variable("messages", messages.to_string()).with_generation_prompt(false);
    let prompt = backend.chat_prompt(&request.with_render(render)).ok()?;
    Some(backend.tokenizer().decode(&prompt.tokens, ShowSpecial::Yes))
}

/// The tools of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tools {
    /// As templates see them, in OpenAI's form.
    pub(crate) definitions: Vec<Value>,
    pub(crate) names: Vec<String>,
    pub(crate) choice: ToolChoice,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    /// Any of them, or the one that is named.
    Required(Option<String>),
}

impl Tools {
    /// Whether the model may call any.
    pub(crate) fn are_offered(&self) -> bool {
        !self.definitions.is_empty() && self.choice != ToolChoice::None
    }

    /// Adds a tool from a description in any of the APIs.
    fn add(&mut self, fields: &Fields<'_>, parameters: &str, path: &str) -> Result<(), ApiError> {
        let name = fields.required_string("name")?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_allowed) {
            return Err(fields.invalid("name", "must have up to 128 letters, digits, _, - and ."));
        }
        if self.names.iter().any(|other| other == name) {
            return Err(ApiError::invalid(path, format_args!("has the name of an earlier tool, {name}")));
        }
        let schema = match fields.object(parameters)? {
            Some(_) => fields.get(parameters).cloned().unwrap_or_default(),
            None => json!({ "type": "object", "properties": {} }),
        };
        let description = fields.string("description")?.unwrap_or_default();
        self.definitions.push(json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": schema },
        }));
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Reads `tools` and `tool_choice` of a chat completion, or of a response, where a tool's fields are not nested.
    pub(crate) fn openai(fields: &Fields<'_>, nested: bool) -> Result<Self, ApiError> {
        let mut tools = Self::default();
        for (index, value) in fields.list("tools", MAX_TOOLS)?.unwrap_or_default().iter().enumerate() {
            let path = fields.path(&format!("tools.{index}"));
            let tool = Fields::of(value, path.as_str())?;
            if tool.required_string("type")? != "function" {
                return Err(ApiError::unsupported(&tool.path("type"), "tools must be of the type function"));
            }
            let function =
                if nested { tool.object("function")?.ok_or_else(|| tool.invalid("function", "is missing"))? } else { tool };
            tools.add(&function, "parameters", &path)?;
        }
        let choice = match fields.get("tool_choice") {
            Some(Value::Object(_)) => {
                let choice = fields.object("tool_choice")?.ok_or_else(|| fields.invalid("tool_choice", "is missing"))?;
                let function = if nested { choice.object("function")?.unwrap_or(choice) } else { choice };
                Some(ToolChoice::Required(Some(function.required_string("name")?.to_owned())))
            }
            _ => fields.one_of("tool_choice", &["auto", "none", "required"])?.map(|word| match word {
                "none" => ToolChoice::None,
                "required" => ToolChoice::Required(None),
                _ => ToolChoice::Auto,
            }),
        };
        tools.with_choice(fields, choice)
    }

    /// Reads `tools` and `tool_choice` of a message.
    pub(crate) fn anthropic(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let mut tools = Self::default();
        for (index, value) in fields.list("tools", MAX_TOOLS)?.unwrap_or_default().iter().enumerate() {
            let path = fields.path(&format!("tools.{index}"));
            let tool = Fields::of(value, path.as_str())?;
            if tool.string("type")?.is_some_and(|kind| kind != "custom") {
                return Err(ApiError::unsupported(
                    &tool.path("type"),
                    "tools must be of the type custom: this server runs none itself",
                ));
            }
            tools.add(&tool, "input_schema", &path)?;
        }
        let choice = match fields.object("tool_choice")? {
            None => None,
            Some(choice) => match choice.one_of("type", &["auto", "any", "tool", "none"])? {
                Some("any") => Some(ToolChoice::Required(None)),
                Some("tool") => Some(ToolChoice::Required(Some(choice.required_string("name")?.to_owned()))),
                Some("none") => Some(ToolChoice::None),
                Some(_) => Some(ToolChoice::Auto),
                None => return Err(choice.invalid("type", "is missing")),
            },
        };
        tools.with_choice(fields, choice)
    }

    fn with_choice(mut self, fields: &Fields<'_>, choice: Option<ToolChoice>) -> Result<Self, ApiError> {
        self.choice = choice.unwrap_or_default();
        if let ToolChoice::Required(name) = &self.choice {
            if self.definitions.is_empty() {
                return Err(fields.invalid("tool_choice", "asks for a tool, but there is none in tools"));
            }
            if let Some(name) = name.as_ref().filter(|name| !self.names.contains(name)) {
                let name = pteron_format::EscapedText::name(name);
                return Err(fields.invalid("tool_choice", format_args!("names {name:?}, which is not in tools")));
            }
        }
        Ok(self)
    }
}
