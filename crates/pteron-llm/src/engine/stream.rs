//! The tokens of one request, from the engine's thread to whoever waits for them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::error::EngineError;
use super::shared::Shared;
use crate::batch::RequestId;
use crate::generation::GeneratedToken;

/// Counts of the tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were not computed, because their prefix was cached.
    pub cached_tokens: usize,
    /// Tokens of the text so far, without one that ended it.
    pub generated_tokens: usize,
}

type Item = Result<GeneratedToken, EngineError>;

/// A queue of tokens. The engine's thread never waits for the reader: a text is no longer than the context.
#[derive(Debug, Default)]
pub(super) struct Channel {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    closed: bool,
    waker: Option<Waker>,
    usage: Usage,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds items, the last ones if `closed`. Returns who must be woken, after all locks are released.
    pub(super) fn push(&self, items: impl IntoIterator<Item = Item>, closed: bool, usage: Usage) -> Option<Waker> {
        let mut queue = self.lock();
        queue.items.extend(items);
        queue.closed |= closed;
        queue.usage = usage;
        self.ready.notify_all();
        queue.waker.take()
    }
}

/// The tokens of one request as they are generated: a [`Stream`] that ends after the token with a
/// [`FinishReason`](crate::FinishReason), or after an error.
///
/// Polling never blocks a thread. Dropping the stream cancels the request at once, also while it waits. Dropping a future of
/// [`next`](Self::next) loses nothing.
#[derive(Debug)]
pub struct TokenStream {
    shared: Arc<Shared>,
    channel: Arc<Channel>,
    request: RequestId,
    ended: bool,
}

impl TokenStream {
    pub(super) fn new(shared: Arc<Shared>, channel: Arc<Channel>, request: RequestId) -> Self {
        Self { shared, channel, request, ended: false }
    }

    /// Returns the next token and its text; `None` when the text has ended.
    ///
    /// # Errors
    /// Why the request ended without its text being complete. `None` follows.
    pub async fn next(&mut self) -> Result<Option<GeneratedToken>, EngineError> {
        poll_fn(|context| self.poll_item(context)).await.transpose()
    }

    /// Returns the next token as [`next`](Self::next) does, and blocks the thread until it is there.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_blocking(&mut self) -> Result<Option<GeneratedToken>, EngineError> {
        let mut queue = self.channel.lock();
        loop {
            if let Some(item) = queue.items.pop_front() {
                return item.map(Some);
            }
            if queue.closed {
                break;
            }
            queue = self.channel.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        self.ended = true;
        Ok(None)
    }

    /// Counts of the tokens so far. Once the stream has ended they are those of the whole request.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.channel.lock().usage
    }

    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut queue = self.channel.lock();
        if let Some(item) = queue.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        if queue.closed {
            drop(queue);
            self.ended = true;
            return Poll::Ready(None);
        }
        let replaced = queue.waker.replace(context.waker().clone());
        drop(queue);
        drop(replaced);
        Poll::Pending
    }
}

impl Stream for TokenStream {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_item(context)
    }
}

impl Drop for TokenStream {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.cancel(self.request);
        }
    }
}
