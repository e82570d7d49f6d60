//! The events of a streamed response.

use serde_json::{Value, json};

use super::{Shape, call_item, message_item, reasoning_item, text_part};
use crate::backend::{Finish, Token, Usage};
use crate::error::ApiError;
use crate::event_stream::{Events, named};
use crate::id;
use crate::output::{OutputParser, Part};
use crate::reply::Call;

/// An item of the output while it is written.
enum Item {
    Message(String),
    Reasoning(String),
    Call(Call),
}

pub(super) struct ResponseEvents {
    shape: Shape,
    parser: OutputParser,
    /// The item that is open, with its identifier.
    open: Option<(String, Item)>,
    done: Vec<Value>,
    number: u64,
    finish: Option<Finish>,
}

impl ResponseEvents {
    pub(super) fn new(shape: Shape) -> Self {
        Self { parser: shape.parser.parser(), shape, open: None, done: Vec::new(), number: 0, finish: None }
    }

    /// Writes an event with its name and number.
    fn event(&mut self, name: &str, mut value: Value, out: &mut String) {
        if let Value::Object(map) = &mut value {
            map.insert("type".to_owned(), name.into());
            map.insert("sequence_number".to_owned(), self.number.into());
        }
        self.number += 1;
        named(out, name, &value);
    }

    fn index(&self) -> usize {
        self.done.len()
    }

    fn begin_item(&mut self, prefix: &str, item: Item, out: &mut String) {
        self.end_item(out);
        let id = id::new(prefix);
        let value = match &item {
            Item::Message(_) => {
                json!({ "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [] })
            }
            Item::Reasoning(_) => json!({ "id": id, "type": "reasoning", "summary": [] }),
            Item::Call(call) => call_item(&id, "in_progress", call),
        };
        let index = self.index();
        self.event("response.output_item.added", json!({ "output_index": index, "item": value }), out);
        if matches!(item, Item::Message(_)) {
            let part = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": text_part("") });
            self.event("response.content_part.added", part, out);
        }
        self.open = Some((id, item));
    }

    fn end_item(&mut self, out: &mut String) {
        let Some((id, item)) = self.open.take() else { return };
        let index = self.index();
        let at = |more: Value| {
            let mut value = json!({ "item_id": id, "output_index": index });
            if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
                value.extend(more);
            }
            value
        };
        let value = match &item {
            Item::Message(text) => {
                self.event(
                    "response.output_text.done",
                    at(json!({ "content_index": 0, "text": text, "logprobs": [] })),
                    out,
                );
                self.event("response.content_part.done", at(json!({ "content_index": 0, "part": text_part(text) })), out);
                message_item(&id, "completed", text)
            }
            Item::Reasoning(text) => {
                self.event("response.reasoning_text.done", at(json!({ "content_index": 0, "text": text })), out);
                reasoning_item(&id, text)
            }
            Item::Call(call) => {
                let done = at(json!({ "name": call.name, "arguments": call.arguments }));
                self.event("response.function_call_arguments.done", done, out);
                call_item(&id, "completed", call)
            }
        };
        self.event("response.output_item.done", json!({ "output_index": index, "item": value }), out);
        self.done.push(value);
    }

    /// Writes a piece of the open item.
    fn delta(&mut self, name: &str, text: &str, out: &mut String) {
        let id = self.open.as_ref().map(|(id, _)| id.clone());
        let value =
            json!({ "item_id": id, "output_index": self.index(), "content_index": 0, "delta": text, "logprobs": [] });
        self.event(name, value, out);
    }

    fn parts(&mut self, parts: Vec<Part>, out: &mut String) {
        for part in parts {
            match part {
                Part::Content(piece) => {
                    if !matches!(self.open, Some((_, Item::Message(_)))) {
                        self.begin_item("msg_", Item::Message(String::new()), out);
                    }
                    if let Some((_, Item::Message(text))) = &mut self.open {
                        *text += &piece;
                    }
                    self.delta("response.output_text.delta", &piece, out);
                }
                Part::Reasoning(piece) => {
                    if !matches!(self.open, Some((_, Item::Reasoning(_)))) {
                        self.begin_item("rs_", Item::Reasoning(String::new()), out);
                    }
                    if let Some((_, Item::Reasoning(text))) = &mut self.open {
                        *text += &piece;
                    }
                    self.delta("response.reasoning_text.delta", &piece, out);
                }
                Part::Call { name, .. } => {
                    let call = Call { id: id::new("call_"), name, arguments: String::new() };
                    self.begin_item("fc_", Item::Call(call), out);
                }
                Part::Arguments { text, .. } => {
                    if let Some((_, Item::Call(call))) = &mut self.open {
                        call.arguments += &text;
                    }
                    self.delta("response.function_call_arguments.delta", &text, out);
                }
            }
        }
    }
}

impl Events for ResponseEvents {
    fn begin(&mut self, out: &mut String) {
        let response = self.shape.response(None, Vec::new(), None);
        self.event("response.created", json!({ "response": response }), out);
        self.event("response.in_progress", json!({ "response": response }), out);
    }

    fn token(&mut self, _: usize, token: Token, out: &mut String) {
        let parts = self.parser.push(&token.text);
        self.parts(parts, out);
        self.finish = token.finish.or(self.finish);
    }

    fn end(&mut self, total: Usage, out: &mut String) {
        let parts = self.parser.finish();
        self.parts(parts, out);
        if self.open.is_none() && self.done.is_empty() {
            self.begin_item("msg_", Item::Message(String::new()), out);
        }
        self.end_item(out);
        let response = self.shape.response(self.finish, self.done.clone(), Some(total));
        let name = if response["status"] == "completed" { "response.completed" } else { "response.incomplete" };
        self.event(name, json!({ "response": response }), out);
    }

    fn error(&mut self, error: &ApiError, out: &mut String) {
        let mut response = self.shape.response(None, self.done.clone(), None);
        response["status"] = "failed".into();
        response["error"] = json!({ "code": "server_error", "message": error.message });
        self.event("response.failed", json!({ "response": response }), out);
    }
}
