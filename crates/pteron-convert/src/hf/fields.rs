//! JSON objects with errors that name file, field and value.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The fields of a JSON object. Most accessors treat null as missing.
pub(super) struct Fields {
    file: &'static str,
    /// The path of the object in the file, `rope_scaling.`.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    pub(super) fn parse(file: &'static str, bytes: &[u8]) -> Result<Self> {
        let malformed = |problem| Error::Malformed { file: file.to_owned(), problem };
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Self { file, path: String::new(), map }),
            Ok(_) => Err(malformed("it is not a JSON object".to_owned())),
            Err(error) => Err(malformed(format!("it is not JSON: {error}"))),
        }
    }

    /// Returns a field that is not null.
    pub(super) fn value(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// Whether a field is null.
    pub(super) fn is_null(&self, field: &str) -> bool {
        self.map.get(field).is_some_and(Value::is_null)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    /// A whole number that is not zero.
    pub(super) fn count(&self, field: &str) -> Result<Option<u32>> {
        let count = |value: &Value| whole(value).filter(|count| *count > 0);
        self.typed(field, "should be a whole number from 1 to 4294967295", count)
    }

    /// A number above zero.
    pub(super) fn number(&self, field: &str) -> Result<Option<f64>> {
        let positive = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number > 0.0);
        self.typed(field, "should be a number above zero", positive)
    }

    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>> {
        self.typed(field, "should be true or false", Value::as_bool)
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&str>> {
        self.typed(field, "should be a text", Value::as_str)
    }

    /// A list of texts.
    pub(super) fn texts(&self, field: &str) -> Result<Option<Vec<&str>>> {
        self.typed(field, "should be a list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Token ids: one, or a list.
    pub(super) fn tokens(&self, field: &str) -> Result<Option<Vec<u32>>> {
        self.typed(field, "should be a token id or a list of them", |value| match value {
            Value::Array(list) => list.iter().map(whole).collect(),
            one => whole(one).map(|token| vec![token]),
        })
    }

    /// An object whose fields are all texts.
    pub(super) fn text_map(&self, field: &str) -> Result<Option<BTreeMap<String, String>>> {
        let entry = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        self.typed(field, "should be an object of texts", |value| value.as_object()?.iter().map(entry).collect())
    }

    /// An object within this one.
    pub(super) fn object(&self, field: &str) -> Result<Option<Self>> {
        let map = self.typed(field, "should be an object", Value::as_object)?;
        let path = format!("{}{field}.", self.path);
        Ok(map.map(|map| Self { file: self.file, path, map: map.clone() }))
    }

    fn typed<'a, T>(&'a self, field: &str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.value(field) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(field, shown(value), expected))
    }

    /// An error about a field's value; `expected` says what it should be.
    pub(super) fn wrong(&self, field: &str, value: impl Display, expected: &str) -> Error {
        Error::Malformed { file: self.file.to_owned(), problem: format!("{}{field} = {value} {expected}", self.path) }
    }

    /// An error about a missing field.
    pub(super) fn missing(&self, field: &str) -> Error {
        Error::Malformed { file: self.file.to_owned(), problem: format!("{}{field} is missing", self.path) }
    }

    /// An error about a valid value that is not supported.
    pub(super) fn unsupported(&self, field: &str, alternatives: &[&str]) -> Error {
        let value = self.value(field).map(shown).unwrap_or_default();
        Error::Unsupported {
            what: format!("{}{field} = {value} in {}", self.path, self.file),
            alternatives: alternatives.iter().map(ToString::to_string).collect(),
        }
    }
}

fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Formats a value, truncated.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        Fields::parse("config.json", json.as_bytes()).unwrap()
    }

    #[test]
    fn typed_values_are_read_and_null_is_missing() {
        let fields = fields(
            r#"{"n": 4, "x": 1e-5, "i": 10000, "b": true, "t": "silu", "e": [1, 2], "l": ["a"], "o": {"k": 3}, "z": null}"#,
        );
        assert_eq!((fields.count("n").unwrap(), fields.number("x").unwrap()), (Some(4), Some(1e-5)));
        assert_eq!((fields.number("i").unwrap(), fields.flag("b").unwrap()), (Some(10000.0), Some(true)));
        assert_eq!((fields.text("t").unwrap(), fields.texts("l").unwrap()), (Some("silu"), Some(vec!["a"])));
        assert_eq!((fields.tokens("e").unwrap(), fields.tokens("n").unwrap()), (Some(vec![1, 2]), Some(vec![4])));
        assert_eq!(fields.object("o").unwrap().unwrap().count("k").unwrap(), Some(3));
        assert_eq!((fields.count("z").unwrap(), fields.count("none").unwrap()), (None, None));
        assert_eq!((fields.is_null("z"), fields.is_null("none"), fields.is_null("n")), (true, false, false));
    }

    #[test]
    fn errors_name_file_field_and_value() {
        let fields = fields(r#"{"n": 0, "f": 4.5, "big": 4294967296, "x": -1, "b": "yes", "e": [1, -2], "o": {"k": "v"}}"#);
        let count = "should be a whole number from 1 to 4294967295";
        assert_eq!(fields.count("n").unwrap_err().to_string(), format!("config.json: n = 0 {count}"));
        assert_eq!(fields.count("f").unwrap_err().to_string(), format!("config.json: f = 4.5 {count}"));
        assert_eq!(fields.count("big").unwrap_err().to_string(), format!("config.json: big = 4294967296 {count}"));
        assert_eq!(fields.number("x").unwrap_err().to_string(), "config.json: x = -1 should be a number above zero");
        assert_eq!(fields.flag("b").unwrap_err().to_string(), r#"config.json: b = "yes" should be true or false"#);
        let tokens = fields.tokens("e").unwrap_err().to_string();
        assert_eq!(tokens, "config.json: e = [1,-2] should be a token id or a list of them");
        let inner = fields.object("o").unwrap().unwrap();
        assert_eq!(inner.count("k").unwrap_err().to_string(), format!(r#"config.json: o.k = "v" {count}"#));
        assert_eq!(inner.missing("m").to_string(), "config.json: o.m is missing");
    }

    #[test]
    fn long_values_are_truncated() {
        let fields = fields(&format!(r#"{{"t": "{}"}}"#, "é".repeat(500)));
        let error = fields.flag("t").unwrap_err().to_string();
        assert!(error.contains("é…") && error.len() < 250, "{error}");
    }

    #[test]
    fn json_that_is_not_an_object_is_rejected() {
        for (json, problem) in [("[1]", "it is not a JSON object"), ("{", "it is not JSON: EOF while parsing")] {
            let error = Fields::parse("config.json", json.as_bytes()).err().unwrap().to_string();
            assert!(error.starts_with(&format!("config.json: {problem}")), "{error}");
        }
    }
}
