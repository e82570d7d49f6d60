//! Many texts at once: the engine of a model, and its texts as they are generated.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pteron_llm::{Engine, EngineError, EngineRequest, TokenId, TokenStream};
use pyo3::prelude::*;

use crate::errors::{self, Error, InputError};
use crate::gpu::{self, OnGpu};
use crate::grammar::NativeGrammar;
use crate::llm::Token;
use crate::sampling::Options;

/// How long a thread waits for a token before it looks for signals, such as Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

fn failed(py: Python<'_>, error: EngineError) -> PyErr {
    let sentence = error.to_string();
    match error {
        EngineError::Submit(_) | EngineError::Options(_) | EngineError::Constraint(_) | EngineError::Sampling(_) => {
            InputError::new_err(sentence)
        }
        EngineError::Model(error) => {
            if matches!(*error, pteron_llm::Error::DeviceLost(_)) {
                gpu::forget(py);
                return errors::DeviceLostError::new_err(sentence);
            }
            Error::new_err(sentence)
        }
        _ => Error::new_err(sentence),
    }
}

/// A model that generates many texts in the same steps.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeEngine(OnGpu<Engine>);

impl NativeEngine {
    pub(crate) fn new(engine: Engine) -> Self {
        Self(OnGpu::new(engine))
    }
}

#[pymethods]
impl NativeEngine {
    /// Queues a text, and returns at once.
    #[pyo3(signature = (prompt, options, grammar = None))]
    fn submit(
        &self,
        py: Python<'_>,
        prompt: Vec<TokenId>,
        options: &Options,
        grammar: Option<&NativeGrammar>,
    ) -> PyResult<NativeStream> {
        gpu::check_fork()?;
        let mut request = EngineRequest::new(prompt).with_options(options.0.clone());
        request.constraint = grammar.map(|grammar| grammar.0.constraint());
        let stream = py.detach(|| self.0.submit(request)).map_err(|error| failed(py, error))?;
        Ok(NativeStream(Mutex::new(Some(OnGpu::new(stream)))))
    }

    /// Texts that were generated, steps that computed them, and texts that were cancelled.
    fn statistics(&self) -> (u64, u64, u64) {
        let statistics = self.0.statistics();
        (statistics.finished, statistics.steps, statistics.cancelled)
    }
}

/// A text of an engine.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeStream(Mutex<Option<OnGpu<TokenStream>>>);

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[pymethods]
impl NativeStream {
    /// The next token; `None` when the text has ended. Signals are handled while it waits.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Token>> {
        gpu::check_fork()?;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let poll = || {
            let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(stream) = stream.as_mut() else { return Poll::Ready(Ok(None)) };
            pin!(stream.next()).poll(&mut Context::from_waker(&waker))
        };
        let poll_or_wait = || {
            let polled = poll();
            if polled.is_pending() {
                thread::park_timeout(PATIENCE);
            }
            polled
        };
        loop {
            if let Poll::Ready(token) = py.detach(poll_or_wait) {
                return Ok(token.map_err(|error| failed(py, error))?.map(Token::new));
            }
            py.check_signals()?;
        }
    }

    /// Cancels the text, if it has not ended.
    fn close(&self, py: Python<'_>) {
        if gpu::check_fork().is_ok() {
            py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
        }
    }
}
