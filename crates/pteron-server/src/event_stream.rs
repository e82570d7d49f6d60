//! Server-sent events.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_core::Stream;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};

use crate::backend::{Token, Usage};
use crate::error::ApiError;
use crate::request::Generation;

/// A stream without an event for this long gets a comment, so that nothing between client and server takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Tokens that are ready at once go into one write, up to about this many bytes.
const CHUNK: usize = 8 << 10;

/// Writes the events of one API.
pub(crate) trait Events: Send + Unpin + 'static {
    /// The first events.
    fn begin(&mut self, out: &mut String);
    /// The events of a token.
    fn token(&mut self, choice: usize, token: Token, out: &mut String);
    /// The last events.
    fn end(&mut self, usage: Usage, out: &mut String);
    /// The events of an error, after which nothing follows.
    fn error(&mut self, error: &ApiError, out: &mut String);
}

/// Appends an event without a name.
pub(crate) fn data(out: &mut String, value: &Value) {
    *out += "data: ";
    *out += &value.to_string();
    *out += "\n\n";
}

/// Appends an event with a name.
pub(crate) fn named(out: &mut String, name: &str, value: &Value) {
    *out += "event: ";
    *out += name;
    out.push('\n');
    data(out, value);
}

/// A response that streams the events of a generation. Dropping it, as hyper does when the client is gone, cancels the request.
pub(crate) fn respond(generation: Generation, events: impl Events) -> Response {
    let stream = EventStream { generation: Some(generation), events, begun: false, idle: Box::pin(sleep(KEEP_ALIVE)) };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Proxies that collect answers would hold back the text.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (StatusCode::OK, headers, Body::from_stream(stream)).into_response()
}

struct EventStream<E> {
    generation: Option<Generation>,
    events: E,
    begun: bool,
    idle: Pin<Box<Sleep>>,
}

impl<E: Events> EventStream<E> {
    /// Appends what is ready. Returns whether the stream has ended.
    fn take_ready(&mut self, context: &mut Context<'_>, out: &mut String) -> bool {
        let Some(generation) = &mut self.generation else { return true };
        if !self.begun {
            self.begun = true;
            self.events.begin(out);
        }
        while out.len() < CHUNK {
            match generation.poll_next(context) {
                Poll::Ready(Some(Ok((choice, token)))) => self.events.token(choice, token, out),
                Poll::Ready(Some(Err(error))) => {
                    self.events.error(&error, out);
                    self.generation = None;
                    return true;
                }
                Poll::Ready(None) => {
                    self.events.end(generation.usage(), out);
                    self.generation = None;
                    return true;
                }
                Poll::Pending => return false,
            }
        }
        false
    }
}

impl<E: Events> Stream for EventStream<E> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let mut out = String::new();
        let ended = this.take_ready(context, &mut out);
        if out.is_empty() && !ended && this.idle.as_mut().poll(context).is_ready() {
            out += ": keep-alive\n\n";
        }
        if !out.is_empty() {
            this.idle.as_mut().reset(Instant::now() + KEEP_ALIVE);
            return Poll::Ready(Some(Ok(Bytes::from(out))));
        }
        if ended { Poll::Ready(None) } else { Poll::Pending }
    }
}
