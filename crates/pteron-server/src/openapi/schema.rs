//! JSON schemas, in as few words as the description needs.

use serde_json::{Map, Value, json};

/// An object of a request: fields that may be left out may be null.
pub(super) fn object(required: &[&str], properties: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let or_null = |name: &str, schema| if required.contains(&name) { schema } else { nullable(schema) };
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), or_null(name, schema))).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object of an answer: it has all of these fields, and may have others.
pub(super) fn record(properties: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    record_with(properties, [])
}

/// An object of an answer, with fields that it has sometimes.
pub(super) fn record_with(
    properties: impl IntoIterator<Item = (&'static str, Value)>,
    sometimes: impl IntoIterator<Item = (&'static str, Value)>,
) -> Value {
    let mut fields: Map<String, Value> = properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let required: Vec<String> = fields.keys().cloned().collect();
    fields.extend(sometimes.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    json!({ "type": "object", "required": required, "properties": fields })
}

pub(super) fn nullable(schema: Value) -> Value {
    any_of([schema, json!({ "type": "null" })])
}

pub(super) fn any_of(schemas: impl IntoIterator<Item = Value>) -> Value {
    json!({ "anyOf": schemas.into_iter().collect::<Vec<_>>() })
}

pub(super) fn number(minimum: f32, maximum: f32) -> Value {
    json!({ "type": "number", "minimum": minimum, "maximum": maximum })
}

pub(super) fn integer(minimum: u64, maximum: u64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

pub(super) fn count_from(minimum: u64) -> Value {
    integer(minimum, u64::from(u32::MAX))
}

pub(super) fn boolean() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn string() -> Value {
    json!({ "type": "string" })
}

pub(super) fn any_object() -> Value {
    json!({ "type": "object" })
}

pub(super) fn constant(value: &str) -> Value {
    json!({ "const": value })
}

pub(super) fn one_of(words: &[&str]) -> Value {
    json!({ "enum": words })
}

pub(super) fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}
