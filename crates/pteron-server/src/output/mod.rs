//! Reasoning and tool calls in generated text.
//!
//! [`OutputParser`] takes the text of a reply piece by piece and returns what clients see: content, reasoning, calls. It reads
//! character by character and keeps no more than a marker, or the part of a call before its name is known, so what it returns does not
//! depend on where the text was cut.

mod call;

use call::{CallEvent, CallScanner};
use serde_json::{Value, json};

/// How calls of tools are marked in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFormat {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen.
    Hermes,
    /// `{"name": …, "parameters": …}` as the whole reply, or after `<|python_tag|>`: Llama 3.
    Llama3,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`: Mistral.
    Mistral,
}

impl CallFormat {
    fn open(self) -> &'static str {
        match self {
            Self::Hermes => "<tool_call>",
            Self::Llama3 => "<|python_tag|>",
            Self::Mistral => "[TOOL_CALLS]",
        }
    }

    fn close(self) -> Option<&'static str> {
        (self == Self::Hermes).then_some("</tool_call>")
    }

    /// A grammar, in Lark's language, of a reply that is one call of one of these functions, described as in OpenAI's API.
    pub(crate) fn grammar<'a>(self, functions: impl Iterator<Item = &'a Value>) -> String {
        let arguments = if self == Self::Llama3 { "parameters" } else { "arguments" };
        let calls: Vec<Value> = functions
            .map(|function| {
                json!({
                    "type": "object",
                    "properties": { "name": { "const": function["name"] }, arguments: function["parameters"] },
                    "required": ["name", arguments],
                    "additionalProperties": false,
                })
            })
            .collect();
        let schema = json!({ "anyOf": calls, "x-guidance": { "whitespace_flexible": false, "key_separator": ": ", "item_separator": ", " } });
        match self {
            Self::Hermes => format!("start: \"<tool_call>\\n\" call \"\\n</tool_call>\"\ncall: %json {schema}\n"),
            Self::Llama3 => format!("start: call\ncall: %json {schema}\n"),
            Self::Mistral => format!("start: \"[TOOL_CALLS][\" call \"]\"\ncall: %json {schema}\n"),
        }
    }

    /// Whether a reply that begins with `{` may be a call.
    fn may_begin_without_marker(self) -> bool {
        self == Self::Llama3
    }

    /// Whether a character may stand between two calls.
    fn separates(self, c: char) -> bool {
        c.is_whitespace()
            || match self {
                Self::Hermes => false,
                Self::Llama3 => matches!(c, ';' | ','),
                Self::Mistral => matches!(c, '[' | ',' | ']'),
            }
    }
}

/// The markers of reasoning.
const THINK: &str = "<think>";
const END_THINK: &str = "</think>";

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Text for the user.
    Content(String),
    /// The model's reasoning.
    Reasoning(String),
    /// A call begins. Its arguments follow, in pieces.
    Call {
        /// Its place among the calls of the reply.
        index: usize,
        /// The tool.
        name: String,
    },
    /// A piece of the arguments of a call, which are JSON.
    Arguments {
        /// The call.
        index: usize,
        /// The piece.
        text: String,
    },
}

/// Splits the text of a reply into content, reasoning and calls.
#[derive(Debug)]
pub struct OutputParser {
    calls: Option<CallFormat>,
    names: Vec<String>,
    reasoning: bool,
    mode: Mode,
    /// The beginning of what may become a marker.
    held: String,
    /// Whether nothing but white space has been content so far, and whether white space is left out.
    at_start: bool,
    trim: bool,
    count: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Mode {
    Content,
    Reasoning,
    /// Between calls, after the opening marker.
    BetweenCalls,
    InCall(Box<CallScanner>),
}

impl OutputParser {
    /// Creates a parser of a reply. `calls` is the format of calls, where the request has tools; `names` are those of the tools.
    /// `reasoning` splits reasoning off, and `begins_in_reasoning` says that the prompt has opened it.
    #[must_use]
    pub fn new(calls: Option<CallFormat>, names: Vec<String>, reasoning: bool, begins_in_reasoning: bool) -> Self {
        let mode = if reasoning && begins_in_reasoning { Mode::Reasoning } else { Mode::Content };
        let trim = matches!(mode, Mode::Reasoning);
        Self { calls, names, reasoning, mode, held: String::new(), at_start: true, trim, count: 0, parts: Vec::new() }
    }

    /// Takes a piece of the text and returns what it completes.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        for c in text.chars() {
            self.take(c);
        }
        std::mem::take(&mut self.parts)
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> Vec<Part> {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.mode, Mode::Content) {
            Mode::InCall(mut scanner) => {
                let events = scanner.finish();
                self.take_events(events);
            }
            Mode::Reasoning => self.emit(&held, true),
            Mode::Content | Mode::BetweenCalls => self.emit(&held, false),
        }
        std::mem::take(&mut self.parts)
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.count
    }

    fn take(&mut self, c: char) {
        match &mut self.mode {
            Mode::InCall(scanner) => {
                let events = scanner.push(c);
                self.take_events(events);
            }
            Mode::BetweenCalls => self.take_between_calls(c),
            Mode::Content => {
                let begins_call = c == '{' && self.at_start && self.held.is_empty();
                if begins_call && self.calls.is_some_and(CallFormat::may_begin_without_marker) {
                    return self.begin_call(true);
                }
                self.take_text(c);
            }
            Mode::Reasoning => self.take_text(c),
        }
    }

    /// Content or reasoning: looks for the markers that end it.
    fn take_text(&mut self, c: char) {
        let in_reasoning = matches!(self.mode, Mode::Reasoning);
        let open = self.calls.map(CallFormat::open).filter(|_| !in_reasoning);
        let think = self.reasoning.then_some(if in_reasoning { END_THINK } else { THINK });
        let markers = [open, think];
        let markers = || markers.iter().flatten().copied();
        self.held.push(c);
        loop {
            if let Some(marker) = markers().find(|marker| *marker == self.held) {
                self.held.clear();
                self.trim = true;
                self.mode = match marker {
                    THINK => Mode::Reasoning,
                    END_THINK => Mode::Content,
                    _ => Mode::BetweenCalls,
                };
                return;
            }
            if self.held.is_empty() || markers().any(|marker| marker.starts_with(self.held.as_str())) {
                return;
            }
            // Its first character belongs to no marker; the rest may.
            let first: String = self.held.drain(..self.held.chars().next().map_or(0, char::len_utf8)).collect();
            self.emit(&first, in_reasoning);
        }
    }

    fn take_between_calls(&mut self, c: char) {
        let Some(format) = self.calls else { return };
        let close = format.close().unwrap_or_default();
        if self.held.is_empty() {
            match c {
                '{' => return self.begin_call(false),
                c if format.separates(c) => return,
                _ => {}
            }
        }
        self.held.push(c);
        if self.held == close {
            self.held.clear();
            self.trim = true;
            self.mode = Mode::Content;
        } else if !close.starts_with(&self.held) {
            // Neither a call nor the end of one.
            self.mode = Mode::Content;
            for c in std::mem::take(&mut self.held).chars() {
                self.take_text(c);
            }
        }
    }

    fn begin_call(&mut self, only_known_names: bool) {
        let names = only_known_names.then(|| self.names.clone());
        let mut scanner = Box::new(CallScanner::new(names));
        let events = scanner.push('{');
        self.mode = Mode::InCall(scanner);
        self.take_events(events);
    }

    fn take_events(&mut self, events: Vec<CallEvent>) {
        for event in events {
            match event {
                CallEvent::Name(name) => {
                    self.at_start = false;
                    self.parts.push(Part::Call { index: self.count, name });
                    self.count += 1;
                }
                CallEvent::Arguments(text) => {
                    let index = self.count.saturating_sub(1);
                    match self.parts.last_mut() {
                        Some(Part::Arguments { index: last, text: before }) if *last == index => *before += &text,
                        _ => self.parts.push(Part::Arguments { index, text }),
                    }
                }
                CallEvent::End => self.mode = Mode::BetweenCalls,
                CallEvent::NoCall(text) => {
                    self.mode = Mode::Content;
                    self.emit(&text, false);
                }
            }
        }
    }

    fn emit(&mut self, text: &str, reasoning: bool) {
        let text = if self.trim { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        self.trim = false;
        if !reasoning {
            self.at_start &= text.trim().is_empty();
        }
        match (self.parts.last_mut(), reasoning) {
            (Some(Part::Content(before)), false) | (Some(Part::Reasoning(before)), true) => *before += text,
            (_, false) => self.parts.push(Part::Content(text.to_owned())),
            (_, true) => self.parts.push(Part::Reasoning(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
