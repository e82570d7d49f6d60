//! The events of a streamed message.

use serde_json::{Value, json};

use super::{Shape, call_id, usage};
use crate::backend::{Finish, Token, Usage};
use crate::error::ApiError;
use crate::event_stream::{Events, named};
use crate::output::{OutputParser, Part};

/// The kind of a block of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
    /// The call of this number.
    Tool(usize),
}

pub(super) struct MessageEvents {
    shape: Shape,
    parser: OutputParser,
    /// The block that is open, and the number of the next one.
    open: Option<Block>,
    next: usize,
    finish: Option<Finish>,
}

impl MessageEvents {
    pub(super) fn new(shape: Shape) -> Self {
        Self { parser: shape.parser.parser(), shape, open: None, next: 0, finish: None }
    }

    /// Opens a block, unless it is open.
    fn open(&mut self, block: Block, content: &Value, out: &mut String) {
        if self.open == Some(block) {
            return;
        }
        self.close(out);
        let event = json!({ "type": "content_block_start", "index": self.next, "content_block": content });
        named(out, "content_block_start", &event);
        self.open = Some(block);
        self.next += 1;
    }

    fn close(&mut self, out: &mut String) {
        if self.open.take().is_some() {
            named(out, "content_block_stop", &json!({ "type": "content_block_stop", "index": self.next - 1 }));
        }
    }

    fn delta(&self, delta: &Value, out: &mut String) {
        let event = json!({ "type": "content_block_delta", "index": self.next.saturating_sub(1), "delta": delta });
        named(out, "content_block_delta", &event);
    }

    fn parts(&mut self, parts: Vec<Part>, out: &mut String) {
        for part in parts {
            match part {
                Part::Content(text) => {
                    self.open(Block::Text, &json!({ "type": "text", "text": "" }), out);
                    self.delta(&json!({ "type": "text_delta", "text": text }), out);
                }
                Part::Reasoning(text) => {
                    self.open(Block::Thinking, &json!({ "type": "thinking", "thinking": "", "signature": "" }), out);
                    self.delta(&json!({ "type": "thinking_delta", "thinking": text }), out);
                }
                Part::Call { index, name } => {
                    let content = json!({ "type": "tool_use", "id": call_id(), "name": name, "input": {} });
                    self.open(Block::Tool(index), &content, out);
                }
                Part::Arguments { text, .. } => {
                    self.delta(&json!({ "type": "input_json_delta", "partial_json": text }), out);
                }
            }
        }
    }
}

impl Events for MessageEvents {
    fn begin(&mut self, out: &mut String) {
        let so_far = Usage { prompt_tokens: self.shape.prompt_tokens, ..Usage::default() };
        let message = json!({
            "id": self.shape.id, "type": "message", "role": "assistant", "model": self.shape.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(so_far),
        });
        named(out, "message_start", &json!({ "type": "message_start", "message": message }));
    }

    fn token(&mut self, _: usize, token: Token, out: &mut String) {
        let parts = self.parser.push(&token.text);
        self.parts(parts, out);
        self.finish = token.finish.or(self.finish);
    }

    fn end(&mut self, total: Usage, out: &mut String) {
        let parts = self.parser.finish();
        self.parts(parts, out);
        if self.next == 0 {
            self.open(Block::Text, &json!({ "type": "text", "text": "" }), out);
        }
        self.close(out);
        let (reason, sequence) = self.shape.stop(self.finish, self.parser.calls());
        let delta = json!({ "stop_reason": reason, "stop_sequence": sequence });
        named(out, "message_delta", &json!({ "type": "message_delta", "delta": delta, "usage": usage(total) }));
        named(out, "message_stop", &json!({ "type": "message_stop" }));
    }

    fn error(&mut self, error: &ApiError, out: &mut String) {
        named(out, "error", &error.anthropic());
    }
}
