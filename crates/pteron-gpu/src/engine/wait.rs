//! A future that waits for a callback.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// A value that a callback delivers once.
#[derive(Debug)]
pub(crate) struct OneShot<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

impl<T> OneShot<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new((None, None))))
    }

    /// The callback's side.
    pub(crate) fn sender(&self) -> impl FnOnce(T) + use<T> {
        let shared = Arc::clone(&self.0);
        move |value| {
            let mut slot = shared.lock().unwrap_or_else(PoisonError::into_inner);
            slot.0 = Some(value);
            if let Some(waker) = slot.1.take() {
                waker.wake();
            }
        }
    }

    /// Waits for the value.
    pub(crate) async fn wait(self) -> T {
        poll_fn(|cx| {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match slot.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    slot.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Lets one call through at a time; the others wait without blocking a thread.
#[derive(Debug, Default)]
pub(crate) struct AsyncLock(Mutex<(bool, VecDeque<Waker>)>);

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(crate) struct AsyncLockGuard<'a>(&'a AsyncLock);

impl AsyncLock {
    pub(crate) async fn lock(&self) -> AsyncLockGuard<'_> {
        poll_fn(|cx| {
            let mut lock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::replace(&mut lock.0, true) {
                lock.1.push_back(cx.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(AsyncLockGuard(self))
            }
        })
        .await
    }
}

impl Drop for AsyncLockGuard<'_> {
    fn drop(&mut self) {
        let mut lock = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        lock.0 = false;
        // Wakes all: a single wake-up would be lost if that future was dropped.
        lock.1.drain(..).for_each(Waker::wake);
    }
}
