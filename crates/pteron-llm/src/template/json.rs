//! Writes JSON as Python does, which templates expect, and parses JSON into values.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::budget::{Budget, Limit};
use super::fault::{Fault, failed};
use super::value::{Value, write_float};

/// The widest indent.
const MAX_INDENT: usize = 16;

/// How JSON is written.
#[derive(Debug, Default)]
pub(super) struct Style {
    /// The number of spaces per level, for output on several lines.
    pub(super) indent: Option<usize>,
    /// The signs between values, and between keys and values.
    pub(super) separators: Option<(Arc<str>, Arc<str>)>,
    /// Whether other characters than those of ASCII are escaped.
    pub(super) ascii: bool,
}

/// A value as JSON.
pub(super) fn write(value: &Value, style: Style, budget: &mut Budget) -> Result<Value, Fault> {
    let Style { indent, separators, ascii } = style;
    let (comma, colon) = separators.unwrap_or_else(|| (if indent.is_some() { "," } else { ", " }.into(), ": ".into()));
    let indent = indent.map(|indent| indent.min(MAX_INDENT));
    let mut writer = Writer { out: String::new(), indent, comma, colon, ascii };
    writer.value(value, 0, budget)?;
    budget.allocate(writer.out.len())?;
    Ok(Value::Text(writer.out.into()))
}

struct Writer {
    out: String,
    indent: Option<usize>,
    comma: Arc<str>,
    colon: Arc<str>,
    ascii: bool,
}

impl Writer {
    fn push(&mut self, text: &str, budget: &mut Budget) -> Result<(), Fault> {
        budget.allocate(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn line(&mut self, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
        let Some(indent) = self.indent else { return Ok(()) };
        self.push("\n", budget)?;
        self.push(&" ".repeat(indent * depth), budget)
    }

    fn value(&mut self, value: &Value, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
        budget.step(1)?;
        match value {
            Value::None => self.push("null", budget),
            Value::Bool(value) => self.push(if *value { "true" } else { "false" }, budget),
            Value::Int(value) => self.push(&value.to_string(), budget),
            Value::Float(value) => {
                let mut text = String::new();
                write_float(*value, &mut text);
                self.push(&text.replace("nan", "NaN").replace("inf", "Infinity"), budget)
            }
            Value::Text(text) => self.text(text, budget),
            Value::List(_) => {
                let items = value.as_list().unwrap_or_default();
                self.push("[", budget)?;
                for (index, item) in items.iter().enumerate() {
                    self.before(index, depth, budget)?;
                    self.value(item, depth + 1, budget)?;
                }
                self.close("]", items.is_empty(), depth, budget)
            }
            Value::Dict(_) => {
                let entries = value.as_dict().unwrap_or_default();
                self.push("{", budget)?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.before(index, depth, budget)?;
                    self.key(key, budget)?;
                    let colon = Arc::clone(&self.colon);
                    self.push(&colon, budget)?;
                    self.value(value, depth + 1, budget)?;
                }
                self.close("}", entries.is_empty(), depth, budget)
            }
            _ => failed(format!("tojson: {} is no JSON", value.kind())),
        }
    }

    fn before(&mut self, index: usize, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
        if index > 0 {
            let comma = Arc::clone(&self.comma);
            self.push(&comma, budget)?;
        }
        self.line(depth + 1, budget)
    }

    fn close(&mut self, sign: &str, empty: bool, depth: usize, budget: &mut Budget) -> Result<(), Fault> {
        if !empty {
            self.line(depth, budget)?;
        }
        self.push(sign, budget)
    }

    fn key(&mut self, key: &Value, budget: &mut Budget) -> Result<(), Fault> {
        match key {
            Value::Text(text) => self.text(text, budget),
            _ => {
                self.push("\"", budget)?;
                self.value(key, 0, budget)?;
                self.push("\"", budget)
            }
        }
    }

    fn text(&mut self, text: &str, budget: &mut Budget) -> Result<(), Fault> {
        // Escaped text is up to six times as long.
        budget.allocate(text.len())?;
        match serde_json::to_string(text) {
            Ok(text) if self.ascii => {
                budget.allocate(3 * text.len())?;
                self.push(&escaped(&text), budget)
            }
            Ok(text) => self.push(&text, budget),
            Err(error) => failed(format!("tojson: {error}")),
        }
    }
}

/// A text with all characters beyond ASCII escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        out.extend(character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
    }
    out
}

/// Reads JSON, with keys in their order. It is not larger than has been paid for.
pub(super) fn read(json: &str, budget: &mut Budget) -> Result<Value, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = Reader(budget).deserialize(&mut deserializer).map_err(ReadError)?;
    deserializer.end().map_err(ReadError)?;
    Ok(value)
}

/// JSON that cannot be read.
#[derive(Debug)]
pub(super) struct ReadError(serde_json::Error);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

struct Reader<'b>(&'b mut Budget);

/// A budget fault as the deserializer's error.
fn wrong<E: serde::de::Error>(fault: Fault) -> E {
    match fault {
        Fault::Failed(reason) | Fault::Raised(reason) => E::custom(reason),
        Fault::Limit(Limit::Depth) => E::custom("it is too deep"),
        Fault::Limit(_) => E::custom("it is too large"),
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Int).map_err(|_| E::custom("a number is too large"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        Value::text(text, self.0).map_err(wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Reader(self.0))? {
            items.push(item);
        }
        Value::list(items, self.0).map_err(wrong)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let key: Arc<str> = key.into();
            if !keys.insert(Arc::clone(&key)) {
                return Err(A::Error::custom("a key is there twice"));
            }
            entries.push((Value::Text(key), map.next_value_seed(Reader(self.0))?));
        }
        Value::unique_dict(entries, self.0).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str, indent: Option<usize>) -> String {
        let mut budget = Budget::new(json.len());
        let value = read(json, &mut budget).unwrap();
        write(&value, Style { indent, ..Style::default() }, &mut budget).unwrap().as_text().unwrap().to_owned()
    }

    #[test]
    fn python_writes_the_same() {
        let line = r#"{"z": [1, 2.5, "<é>\n"], "b": {}, "c": [], "d": null, "e": true, "f": 1e+30}"#;
        assert_eq!(written(line, None), line);
        let lines = "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}";
        assert_eq!(written(r#"{"a": [1, 2], "b": {}}"#, Some(2)), lines);
    }

    #[test]
    fn characters_beyond_ascii_are_escaped_on_request() {
        let mut budget = Budget::new(10);
        let value = read(r#"["é🪽"]"#, &mut budget).unwrap();
        let text = write(&value, Style { ascii: true, ..Style::default() }, &mut budget).unwrap();
        assert_eq!(text.as_text(), Some(r#"["\u00e9\ud83e\udebd"]"#));
    }

    #[test]
    fn json_that_is_no_value_is_an_error() {
        let deep = "[".repeat(100_000);
        for json in ["", "[", "[1,]", r#"{"a": 1, "a": 2}"#, "18446744073709551615", "1 2", &deep] {
            assert!(read(json, &mut Budget::new(json.len())).is_err(), "{json:.20}");
        }
    }
}
