//! How far loading is, for those who wait.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::load::PreparedGraph;

/// How far loading is. The totals are known before anything is uploaded and stay; what is done grows until it is equal.
/// Constants are uploaded while pipelines compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes of constants that have been handed to the device.
    pub uploaded_bytes: u64,
    /// Bytes of all constants, as the device holds them; what operators of a graph share counts once.
    pub total_bytes: u64,
    /// Pipelines that are ready.
    pub ready_pipelines: u64,
    /// All pipelines that are needed, those the device has from earlier loads among them.
    pub total_pipelines: u64,
}

#[cfg(not(target_arch = "wasm32"))]
type Callback = dyn Fn(LoadProgress) + Send + Sync;
/// A browser has one thread, and what its closures hold cannot be sent to another.
#[cfg(target_arch = "wasm32")]
type Callback = dyn Fn(LoadProgress);

/// A function that is told how far loading is. It is called often and by the threads that load, one call at a time, so it should be
/// quick.
///
/// ```
/// use pteron_gpu::engine::OnProgress;
///
/// let progress = OnProgress::new(|now| eprintln!("{} of {} bytes", now.uploaded_bytes, now.total_bytes));
/// ```
#[derive(Clone)]
pub struct OnProgress(Arc<Callback>);

impl OnProgress {
    /// Wraps a function.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(callback: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    /// Wraps a function.
    #[cfg(target_arch = "wasm32")]
    pub fn new(callback: impl Fn(LoadProgress) + 'static) -> Self {
        Self(Arc::new(callback))
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress(..)")
    }
}

/// Counts what has been loaded, of one graph or of several, and tells it. The default tells nobody.
#[derive(Debug, Default)]
pub struct ProgressCounter<'a> {
    /// Held while it is told, so that what is told never shrinks.
    now: Mutex<LoadProgress>,
    listener: Option<&'a OnProgress>,
}

impl<'a> ProgressCounter<'a> {
    /// Nothing is loaded yet.
    #[must_use]
    pub fn new(listener: Option<&'a OnProgress>) -> Self {
        Self { now: Mutex::default(), listener }
    }

    /// Adds a graph that will be loaded to the totals.
    pub fn expect(&mut self, graph: &PreparedGraph) {
        self.expect_pipelines(graph);
        self.now.get_mut().unwrap_or_else(PoisonError::into_inner).total_bytes += graph.constant_bytes();
    }

    /// The same for a graph whose constants come later and are not told of.
    pub fn expect_pipelines(&mut self, graph: &PreparedGraph) {
        self.now.get_mut().unwrap_or_else(PoisonError::into_inner).total_pipelines += graph.pipelines();
    }

    pub(super) fn uploaded(&self, bytes: u64) {
        self.tell(|now| now.uploaded_bytes += bytes);
    }

    pub(super) fn compiled(&self, pipelines: u64) {
        self.tell(|now| now.ready_pipelines += pipelines);
    }

    fn tell(&self, change: impl FnOnce(&mut LoadProgress)) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *now;
        change(&mut now);
        if let Some(OnProgress(callback)) = self.listener.filter(|_| *now != before) {
            callback(*now);
        }
    }
}
