//! JSON as Python writes it, which is what templates were written for.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// On one line, with a space after commas and colons.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        writer.write_all(b": ")
    }
}

/// A value as JSON; on several lines if an indent is given.
pub(super) fn write(value: &impl Serialize, indent: Option<usize>) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine))?,
        Some(indent) => {
            let indent = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn python_writes_the_same() {
        let value = json!({"a": [1, 2.5, "<é>"], "b": {}, "c": [], "d": null, "e": true});
        let line = r#"{"a": [1, 2.5, "<é>"], "b": {}, "c": [], "d": null, "e": true}"#;
        assert_eq!(write(&value, None).unwrap(), line);
        assert_eq!(
            write(&json!({"a": [1, 2], "b": {}}), Some(2)).unwrap(),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}"
        );
    }
}
