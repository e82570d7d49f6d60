//! A model that can be lost and loaded again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::backend::{Backend, BackendError};
use crate::error::ApiError;
#[cfg(feature = "grammars")]
use crate::grammar::Grammars;
use crate::log::Log;
use crate::tools::ToolFamily;

/// Pauses between attempts to load a model: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

type Open = dyn Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync;

/// A model by its names, and how it is loaded.
#[derive(Clone)]
pub struct ModelSource {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    open: Arc<Open>,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource").field("name", &self.name).field("aliases", &self.aliases).finish_non_exhaustive()
    }
}

impl ModelSource {
    /// Names a model. `open` loads it, on a thread that it may block; it is called again after its device was lost.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), aliases: Vec::new(), open: Arc::new(open) }
    }

    /// Adds another name.
    #[must_use]
    pub fn with_alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }
}

/// A loaded model, and what the server derives from it.
pub(crate) struct LoadedModel {
    pub(crate) backend: Arc<dyn Backend>,
    /// How its template writes calls of tools.
    pub(crate) tools: Option<ToolFamily>,
    #[cfg(feature = "grammars")]
    pub(crate) grammars: Grammars,
}

impl LoadedModel {
    fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            tools: ToolFamily::detect(&*backend),
            #[cfg(feature = "grammars")]
            grammars: Grammars::new(),
            backend,
        }
    }
}

enum State {
    Loading,
    Loaded(Arc<LoadedModel>),
    Stopped,
}

/// One served model.
pub(crate) struct Slot {
    pub(crate) source: ModelSource,
    pub(crate) created: u64,
    log: Log,
    state: Mutex<State>,
}

impl Slot {
    pub(crate) fn new(source: ModelSource, log: Log) -> Self {
        Self { source, created: crate::id::now(), log, state: Mutex::new(State::Loading) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the model. Blocks.
    pub(crate) fn load(&self) -> Result<(), String> {
        let started = std::time::Instant::now();
        // A model that panics while it is loaded must not take its thread's caller with it.
        let open = std::panic::AssertUnwindSafe(|| (self.source.open)().map(LoadedModel::new));
        let loaded = std::panic::catch_unwind(open).unwrap_or_else(|_| Err("loading stopped unexpectedly".to_owned()))?;
        let seconds = started.elapsed().as_secs_f64();
        let mut state = self.lock();
        if matches!(*state, State::Stopped) {
            return Ok(());
        }
        *state = State::Loaded(Arc::new(loaded));
        drop(state);
        let fields = [("model", Value::from(self.source.name.as_str())), ("seconds", Value::from(seconds))];
        self.log.event("model loaded", &fields);
        Ok(())
    }

    pub(crate) fn is_loaded(&self) -> bool {
        matches!(*self.lock(), State::Loaded(_))
    }

    pub(crate) fn loaded(&self) -> Result<Arc<LoadedModel>, ApiError> {
        match &*self.lock() {
            State::Loaded(model) => Ok(Arc::clone(model)),
            State::Loading => Err(ApiError::unavailable(format!("the model {} is being loaded", self.source.name))),
            State::Stopped => Err(BackendError::Draining.into()),
        }
    }

    /// Refuses requests from here on.
    pub(crate) fn stop(&self) {
        if let State::Loaded(model) = std::mem::replace(&mut *self.lock(), State::Stopped) {
            model.backend.drain();
        }
    }

    /// Notes an error of a model. After a lost device, the model is loaded again on a thread of its own; requests are refused meanwhile.
    pub(crate) fn note(self: &Arc<Self>, model: &Arc<LoadedModel>, error: &BackendError) {
        let BackendError::Lost(reason) = error else { return };
        let mut state = self.lock();
        // Every request of a lost device ends so. The first one counts.
        if !matches!(&*state, State::Loaded(current) if Arc::ptr_eq(current, model)) {
            return;
        }
        *state = State::Loading;
        drop(state);
        let fields = [("model", Value::from(self.source.name.as_str())), ("reason", Value::from(reason.as_str()))];
        self.log.event("model lost", &fields);
        let slot = Arc::clone(self);
        let thread = std::thread::Builder::new().name("reload".to_owned()).spawn(move || slot.reload());
        if let Err(error) = thread {
            self.log.event("reload failed", &[("reason", Value::from(error.to_string()))]);
        }
    }

    fn reload(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err(reason) = self.load() {
            self.log.event("reload failed", &[("reason", Value::from(reason))]);
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
            if matches!(*self.lock(), State::Stopped) {
                return;
            }
        }
    }
}
