//! The form that a request demands of its texts: JSON, a schema, a grammar, or a call of a tool.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::constraint::Constraints;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::slot::LoadedModel;
use crate::state::App;
use crate::tools::{ToolChoice, Tools};

/// A form, and the field that demands it.
#[cfg_attr(not(feature = "grammars"), allow(dead_code, reason = "grammars read it"))]
pub(crate) struct Form {
    pub(crate) field: String,
    pub(crate) kind: FormKind,
}

/// The form of a text.
#[cfg_attr(not(feature = "grammars"), allow(dead_code, reason = "grammars read it"))]
pub(crate) enum FormKind {
    /// JSON of a schema.
    Json(Value),
    /// A regular expression.
    Regex(String),
    /// A grammar in Lark's language.
    Lark(String),
}

/// Compiles what `response_format`, `structured_outputs` or `tool_choice` demand.
pub(crate) async fn constraints(
    app: &App,
    model: &Arc<LoadedModel>,
    fields: &Fields<'_>,
    tools: &Tools,
) -> Result<Constraints, ApiError> {
    let asked = [form_of_choice(model, tools)?, response_format(fields)?, structured_outputs(fields)?];
    let mut asked = asked.into_iter().flatten();
    let Some(form) = asked.next() else { return Ok(Constraints::default()) };
    if let Some(second) = asked.next() {
        let message = format!("{} cannot be combined with {}", second.field, form.field);
        return Err(ApiError::unsupported(&second.field, message));
    }
    compile(app, model, form).await
}

#[cfg(feature = "grammars")]
pub(crate) async fn compile(app: &App, model: &Arc<LoadedModel>, form: Form) -> Result<Constraints, ApiError> {
    app.compute(model, move |model| {
        let compiled = model.grammars.compile(&*model.backend, form.kind);
        compiled.map(Constraints::of_grammar).map_err(|reason| ApiError::invalid(&form.field, reason))
    })
    .await
}

#[cfg(not(feature = "grammars"))]
pub(crate) async fn compile(_: &App, _: &Arc<LoadedModel>, form: Form) -> Result<Constraints, ApiError> {
    Err(ApiError::unsupported(&form.field, "this server was built without grammars"))
}

/// Reads `response_format`.
fn response_format(fields: &Fields<'_>) -> Result<Option<Form>, ApiError> {
    let Some(format) = fields.object("response_format")? else { return Ok(None) };
    let kind = format.one_of("type", &["text", "json_object", "json_schema"])?;
    match kind.ok_or_else(|| format.invalid("type", "is missing"))? {
        "json_object" => Ok(Some(Form { field: fields.path("response_format"), kind: json_object() })),
        "json_schema" => {
            let schema = format.object("json_schema")?.ok_or_else(|| format.invalid("json_schema", "is missing"))?;
            schema.required_string("name")?;
            Ok(Some(schema_form(&schema, "schema")?))
        }
        _ => Ok(None),
    }
}

/// Reads the `text.format` of a response.
pub(crate) fn text_format(fields: &Fields<'_>) -> Result<Option<Form>, ApiError> {
    let Some(format) = fields.object("text")?.map(|text| text.object("format")).transpose()?.flatten() else {
        return Ok(None);
    };
    match format.one_of("type", &["text", "json_object", "json_schema"])? {
        Some("json_object") => Ok(Some(Form { field: format.path("type"), kind: json_object() })),
        Some("json_schema") => Ok(Some(schema_form(&format, "schema")?)),
        _ => Ok(None),
    }
}

fn json_object() -> FormKind {
    FormKind::Json(json!({ "type": "object" }))
}

/// The schema in a field.
fn schema_form(fields: &Fields<'_>, name: &str) -> Result<Form, ApiError> {
    let schema = fields.get(name).filter(|schema| schema.is_object() || schema.is_boolean());
    let schema = schema.ok_or_else(|| fields.invalid(name, "must be a JSON schema"))?;
    Ok(Form { field: fields.path(name), kind: FormKind::Json(schema.clone()) })
}

/// Reads `structured_outputs`: `json`, `regex`, `choice` or `grammar`.
fn structured_outputs(fields: &Fields<'_>) -> Result<Option<Form>, ApiError> {
    let Some(outputs) = fields.object("structured_outputs")? else { return Ok(None) };
    let form = |name: &str, kind| Some(Form { field: outputs.path(name), kind });
    if outputs.get("json").is_some() {
        return Ok(Some(schema_form(&outputs, "json")?));
    }
    if let Some(regex) = outputs.string("regex")? {
        return Ok(form("regex", FormKind::Regex(regex.to_owned())));
    }
    if let Some(grammar) = outputs.string("grammar")? {
        return Ok(form("grammar", FormKind::Lark(grammar.to_owned())));
    }
    if let Some(choices) = outputs.list("choice", 1024)? {
        let texts: Option<Vec<String>> =
            choices.iter().map(|choice| choice.as_str().map(|text| Value::from(text).to_string())).collect();
        let texts = texts.filter(|texts| !texts.is_empty());
        let texts = texts.ok_or_else(|| outputs.invalid("choice", "must be a list of strings"))?;
        return Ok(form("choice", FormKind::Lark(format!("start: {}", texts.join(" | ")))));
    }
    Err(fields.invalid("structured_outputs", "must have one of json, regex, choice and grammar"))
}

/// The grammar of a call, where the model must make one.
pub(crate) fn form_of_choice(model: &LoadedModel, tools: &Tools) -> Result<Option<Form>, ApiError> {
    let ToolChoice::Required(name) = &tools.choice else { return Ok(None) };
    let Some(family) = model.tools else { return Ok(None) };
    let chosen = tools.definitions.iter().filter_map(|tool| tool.get("function"));
    let chosen = chosen.filter(|function| name.as_ref().is_none_or(|name| function["name"] == name.as_str()));
    let lark = family.format.grammar(chosen);
    Ok(Some(Form { field: "tool_choice".to_owned(), kind: FormKind::Lark(lark) }))
}
