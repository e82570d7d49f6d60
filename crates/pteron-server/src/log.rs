//! Events, one per line, as text or JSON.

use std::io::Write;
use std::sync::Arc;

use pteron_format::EscapedText;
use serde_json::{Map, Value};

use crate::id;

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A line of JSON.
    Json,
    /// Nothing.
    Off,
}

type Sink = dyn Fn(&str) + Send + Sync;

/// Writes events, to standard error unless told otherwise.
#[derive(Clone, Default)]
pub struct Log {
    format: LogFormat,
    sink: Option<Arc<Sink>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Log {
    /// Writes to standard error.
    #[must_use]
    pub fn new(format: LogFormat) -> Self {
        Self { format, sink: None }
    }

    /// Passes each line, without its end, to a function instead.
    #[must_use]
    pub fn with_sink(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Writes an event with its fields. Text of clients must be in a field: it is escaped.
    pub(crate) fn event(&self, event: &str, fields: &[(&str, Value)]) {
        let line = match self.format {
            LogFormat::Off => return,
            LogFormat::Text => text(event, fields),
            LogFormat::Json => json(event, fields),
        };
        match &self.sink {
            Some(sink) => sink(&line),
            // Nothing can be done about a log that cannot be written.
            None => drop(writeln!(std::io::stderr().lock(), "{line}")),
        }
    }
}

fn text(event: &str, fields: &[(&str, Value)]) -> String {
    fields.iter().fold(event.to_owned(), |line, (name, value)| match value {
        Value::String(text) => format!("{line} {name}={}", EscapedText::sentence(text)),
        other => format!("{line} {name}={other}"),
    })
}

fn json(event: &str, fields: &[(&str, Value)]) -> String {
    let first = [("time", Value::from(id::now())), ("event", Value::from(event))];
    let all = first.into_iter().chain(fields.iter().cloned()).map(|(name, value)| (name.to_owned(), value));
    Value::Object(all.collect::<Map<_, _>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_escaped_in_both_formats() {
        let fields = [("path", Value::from("/a\nforged event")), ("status", Value::from(404))];
        assert_eq!(text("request", &fields).lines().count(), 1);
        let line: Value = serde_json::from_str(&json("request", &fields)).unwrap();
        assert_eq!((line["event"].as_str(), line["status"].as_u64()), (Some("request"), Some(404)));
    }
}
