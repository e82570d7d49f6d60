//! Reads the fields of a JSON object, and names the field in every error.

use std::ops::RangeInclusive;

use pteron_format::EscapedText;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// The fields of an object, and its path in the request. A field that is null counts as absent, as clients send it.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of a request.
    pub(crate) fn of_request(value: &'a Value) -> Result<Self, ApiError> {
        let map = value.as_object().ok_or_else(|| ApiError::bad_request("the request must be a JSON object"))?;
        Ok(Self { map, path: String::new() })
    }

    /// The fields of a value below a request.
    pub(crate) fn of(value: &'a Value, path: impl Into<String>) -> Result<Self, ApiError> {
        let path = path.into();
        match value.as_object() {
            Some(map) => Ok(Self { map, path }),
            None => Err(ApiError::invalid(&path, "must be an object")),
        }
    }

    /// The path of a field in the request.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// An error at a field. `message` continues its name.
    pub(crate) fn invalid(&self, name: &str, message: impl std::fmt::Display) -> ApiError {
        ApiError::invalid(&self.path(name), message)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        let read = |value: &'a Value| value.as_str().ok_or_else(|| self.invalid(name, "must be a string"));
        self.get(name).map(read).transpose()
    }

    pub(crate) fn required_string(&self, name: &str) -> Result<&'a str, ApiError> {
        self.string(name)?.ok_or_else(|| self.invalid(name, "is missing"))
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let read = |value: &'a Value| value.as_bool().ok_or_else(|| self.invalid(name, "must be true or false"));
        self.get(name).map(read).transpose()
    }

    pub(crate) fn number(&self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        #[expect(clippy::cast_possible_truncation, reason = "sampling computes with f32; the range is checked after")]
        let number = value.as_f64().map(|number| number as f32);
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(name, format_args!("must be a number from {} to {}", range.start(), range.end()))),
        }
    }

    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(name, format_args!("must be an integer from {} to {}", range.start(), range.end()))),
        }
    }

    /// An integer that counts something in memory.
    pub(crate) fn count(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<usize>, ApiError> {
        Ok(self.integer(name, range)?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// A list with a bounded number of entries.
    pub(crate) fn list(&self, name: &str, most: usize) -> Result<Option<&'a [Value]>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| self.invalid(name, "must be a list"))?;
        match list.len() > most {
            true => Err(self.invalid(name, format_args!("has {} entries, but may have {most}", list.len()))),
            false => Ok(Some(list)),
        }
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.get(name).map(|value| Fields::of(value, self.path(name))).transpose()
    }

    /// One of some words.
    pub(crate) fn one_of(&self, name: &str, words: &[&'static str]) -> Result<Option<&'static str>, ApiError> {
        let Some(given) = self.string(name)? else { return Ok(None) };
        match words.iter().find(|word| **word == given) {
            Some(word) => Ok(Some(word)),
            None => {
                let given = EscapedText::name(given);
                Err(self.invalid(name, format_args!("is {:?}, but must be one of {}", given, words.join(", "))))
            }
        }
    }

    /// Refuses a field that asks for something that the server does not have. `allowed` are the values that ask for nothing.
    pub(crate) fn refuse(&self, name: &str, allowed: &[Value], reason: &str) -> Result<(), ApiError> {
        match self.get(name) {
            Some(value) if !allowed.contains(value) => Err(ApiError::unsupported(&self.path(name), reason)),
            _ => Ok(()),
        }
    }
}

/// Parses a request.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let reason = error.to_string();
        ApiError::bad_request(format!("the request is not JSON: {}", EscapedText::sentence(&reason)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_path_of_the_field() {
        let value = json!({ "options": { "depth": 3.5, "words": "x", "mode": "fast", "off": null } });
        let fields = Fields::of_request(&value).unwrap();
        let options = fields.object("options").unwrap().unwrap();
        assert_eq!(options.integer("depth", 0..=9).unwrap_err().param.as_deref(), Some("options.depth"));
        assert_eq!(options.list("words", 2).unwrap_err().message, "options.words must be a list");
        let wrong = options.one_of("mode", &["slow", "safe"]).unwrap_err();
        assert_eq!(wrong.message, "options.mode is \"fast\", but must be one of slow, safe");
        assert_eq!(options.boolean("off").unwrap(), None, "null is absent");
        assert_eq!(fields.object("options.x").unwrap().map(|_| ()), None);
    }

    #[test]
    fn numbers_beyond_f32_and_the_range_are_refused() {
        let value = json!({ "a": 1e300, "b": -0.5, "c": 2 });
        let fields = Fields::of_request(&value).unwrap();
        assert!(fields.number("a", 0.0..=2.0).is_err() && fields.number("b", 0.0..=2.0).is_err());
        assert_eq!(fields.number("c", 0.0..=2.0).unwrap(), Some(2.0));
    }

    #[test]
    fn text_that_is_not_json_and_json_too_deep_are_refused() {
        assert!(parse(b"{\"a\": ").unwrap_err().message.starts_with("the request is not JSON"));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
