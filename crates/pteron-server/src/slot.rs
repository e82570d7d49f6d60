//! A model that can be lost and loaded again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::backend::{Backend, BackendError};
use crate::error::ApiError;
#[cfg(feature = "grammars")]
use crate::grammar::Grammars;
use crate::log::Log;
use crate::tools::ToolFamily;

/// Pauses between attempts to load a model: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a model that is loaded again looks whether the requests of the last one have ended.
const LEAVING_PAUSE: Duration = Duration::from_millis(20);

type Open = dyn Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync;

/// A model by its names, and how it is loaded.
#[derive(Clone)]
pub struct ModelSource {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) adapters: Vec<AdapterSource>,
    open: Arc<Open>,
}

/// A LoRA adapter by its name, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdapterSource {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

impl std::fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelSource")
            .field("name", &self.name)
            .field("aliases", &self.aliases)
            .field("adapters", &self.adapters)
            .finish_non_exhaustive()
    }
}

impl ModelSource {
    /// Names a model. `open` loads it, on a thread that it may block; it is called again after its device was lost, and after the model
    /// was unloaded.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn() -> Result<Arc<dyn Backend>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), aliases: Vec::new(), adapters: Vec::new(), open: Arc::new(open) }
    }

    /// Adds another name.
    #[must_use]
    pub fn with_alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// The names of the model itself.
    pub(crate) fn model_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }

    /// All names that requests may use.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.model_names().chain(self.adapters.iter().map(|adapter| adapter.name.as_str()))
    }

    /// Adds a LoRA adapter, which requests choose by its name as if it were a model.
    #[must_use]
    pub fn with_adapter(mut self, name: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.adapters.push(AdapterSource { name: name.into(), folder: folder.into() });
        self
    }
}

/// A loaded model, and what the server derives from it.
pub(crate) struct LoadedModel {
    pub(crate) backend: Arc<dyn Backend>,
    /// A permit for the request whose texts are embedded.
    pub(crate) embedding: Semaphore,
    /// How its template writes calls of tools.
    pub(crate) tools: Option<ToolFamily>,
    #[cfg(feature = "grammars")]
    pub(crate) grammars: Grammars,
}

impl LoadedModel {
    fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            embedding: Semaphore::new(1),
            tools: ToolFamily::detect(&*backend),
            #[cfg(feature = "grammars")]
            grammars: Grammars::new(),
            backend,
        }
    }
}

enum State {
    /// Nobody has asked for it, or it was unloaded.
    Unloaded,
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
    /// Held while the model is loaded, so that it is loaded once.
    loading: Mutex<()>,
    /// A model that was unloaded and that requests may still use.
    leaving: Mutex<Weak<LoadedModel>>,
    adapters: Mutex<Vec<AdapterSource>>,
    /// Why it could not be loaded the last time.
    failure: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// A model that is about to be loaded.
    pub(crate) fn new(source: ModelSource, log: Log) -> Self {
        Self {
            created: crate::id::now(),
            log,
            state: Mutex::new(State::Loading),
            loading: Mutex::default(),
            leaving: Mutex::default(),
            adapters: Mutex::new(source.adapters.clone()),
            failure: Mutex::default(),
            source,
        }
    }

    /// Loads the model, if it is still wanted. Blocks.
    pub(crate) fn load(&self) -> Result<(), String> {
        let _loading = lock(&self.loading);
        while matches!(*lock(&self.state), State::Loading) && lock(&self.leaving).strong_count() > 0 {
            // Its requests finish first, and then there is memory for it again.
            std::thread::sleep(LEAVING_PAUSE);
        }
        if !matches!(*lock(&self.state), State::Loading) {
            return Ok(());
        }
        let started = std::time::Instant::now();
        let loaded = self.open()?;
        let seconds = started.elapsed().as_secs_f64();
        let mut state = lock(&self.state);
        if !matches!(*state, State::Loading) {
            return Ok(());
        }
        *state = State::Loaded(Arc::new(loaded));
        drop(state);
        *lock(&self.failure) = None;
        self.event("model loaded", ("seconds", seconds.into()));
        Ok(())
    }

    fn open(&self) -> Result<LoadedModel, String> {
        // A model that panics while it is loaded must not take its thread's caller with it.
        let open = std::panic::AssertUnwindSafe(|| (self.source.open)().map(LoadedModel::new));
        let loaded = std::panic::catch_unwind(open).unwrap_or_else(|_| Err("loading stopped unexpectedly".to_owned()))?;
        for AdapterSource { name, folder } in self.adapters() {
            let fail = |error| format!("the adapter {name}: {error}");
            loaded.backend.load_adapter(&name, &folder).map_err(fail)?;
        }
        Ok(loaded)
    }

    /// Whether the model is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        matches!(*lock(&self.state), State::Loading)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        matches!(*lock(&self.state), State::Loaded(_))
    }

    pub(crate) fn loaded(&self) -> Result<Arc<LoadedModel>, ApiError> {
        match &*lock(&self.state) {
            State::Loaded(model) => return Ok(Arc::clone(model)),
            State::Loading => return Err(ApiError::unavailable(format!("the model {} is being loaded", self.source.name))),
            State::Stopped => return Err(BackendError::Draining.into()),
            State::Unloaded => {}
        }
        Err(ApiError::not_loaded(&self.source.name, self.status()))
    }

    /// The state in a word, as `/v1/models` has it.
    pub(crate) fn status(&self) -> &'static str {
        match *lock(&self.state) {
            State::Loaded(_) => "loaded",
            State::Loading => "loading",
            State::Unloaded | State::Stopped if lock(&self.leaving).strong_count() > 0 => "unloading",
            State::Unloaded | State::Stopped => "unloaded",
        }
    }

    /// Why the model could not be loaded the last time.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Begins to load a model that is unloaded. Returns whether it was; then [`load_now`](Self::load_now) must follow.
    pub(crate) fn begin_load(&self) -> bool {
        let mut state = lock(&self.state);
        let is_unloaded = matches!(*state, State::Unloaded);
        if is_unloaded {
            *state = State::Loading;
        }
        is_unloaded
    }

    /// Loads a model for a client. Without success it is unloaded again. Blocks.
    pub(crate) fn load_now(&self) -> Result<(), String> {
        self.load().inspect_err(|reason| {
            let mut state = lock(&self.state);
            if matches!(*state, State::Loading) {
                *state = State::Unloaded;
            }
            drop(state);
            *lock(&self.failure) = Some(reason.clone());
            self.event("load failed", ("reason", reason.as_str().into()));
        })
    }

    /// Unloads the model: new requests are refused, and those that run go on; the last of them frees it.
    pub(crate) fn unload(&self) {
        let mut state = lock(&self.state);
        match &*state {
            State::Loaded(model) => *lock(&self.leaving) = Arc::downgrade(model),
            State::Loading => {}
            State::Unloaded | State::Stopped => return,
        }
        // Freed after the lock is released.
        let unloaded = std::mem::replace(&mut *state, State::Unloaded);
        drop(state);
        drop(unloaded);
        self.event("model unloaded", ("active", lock(&self.leaving).strong_count().into()));
    }

    /// Refuses requests from here on.
    pub(crate) fn stop(&self) {
        let state = std::mem::replace(&mut *lock(&self.state), State::Stopped);
        if let State::Loaded(model) = state {
            model.backend.drain();
        }
    }

    /// The adapters that the model has whenever it is loaded.
    pub(crate) fn adapters(&self) -> Vec<AdapterSource> {
        lock(&self.adapters).clone()
    }

    pub(crate) fn has_adapter(&self, name: &str) -> bool {
        lock(&self.adapters).iter().any(|adapter| adapter.name == name)
    }

    /// Loads an adapter; the model has it again after it was loaded again. Blocks.
    pub(crate) fn load_adapter(self: &Arc<Self>, adapter: AdapterSource) -> Result<(), ApiError> {
        let model = self.loaded()?;
        model.backend.load_adapter(&adapter.name, &adapter.folder).inspect_err(|error| self.note(&model, error))?;
        self.event("adapter loaded", ("adapter", adapter.name.as_str().into()));
        lock(&self.adapters).push(adapter);
        Ok(())
    }

    /// Unloads an adapter. Requests that use it go on.
    pub(crate) fn unload_adapter(&self, name: &str) -> Result<(), ApiError> {
        lock(&self.adapters).retain(|adapter| adapter.name != name);
        if let Ok(model) = self.loaded() {
            model.backend.unload_adapter(name)?;
        }
        self.event("adapter unloaded", ("adapter", name.into()));
        Ok(())
    }

    /// Notes an error of a model. After a lost device, the model is loaded again on a thread of its own; requests are refused meanwhile.
    pub(crate) fn note(self: &Arc<Self>, model: &Arc<LoadedModel>, error: &BackendError) {
        let BackendError::Lost(reason) = error else { return };
        let mut state = lock(&self.state);
        // Every request of a lost device ends so. The first one counts.
        if !matches!(&*state, State::Loaded(current) if Arc::ptr_eq(current, model)) {
            return;
        }
        *state = State::Loading;
        drop(state);
        self.event("model lost", ("reason", reason.as_str().into()));
        let slot = Arc::clone(self);
        let thread = std::thread::Builder::new().name("reload".to_owned()).spawn(move || slot.reload());
        if let Err(error) = thread {
            self.event("reload failed", ("reason", error.to_string().into()));
        }
    }

    fn reload(&self) {
        let mut pause = FIRST_PAUSE;
        while let Err(reason) = self.load() {
            self.event("reload failed", ("reason", reason.into()));
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
            if !self.is_loading() {
                return;
            }
        }
    }

    fn event(&self, event: &str, field: (&str, Value)) {
        self.log.event(event, &[("model", Value::from(self.source.name.as_str())), field]);
    }
}
