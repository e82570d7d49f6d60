//! Loading progress.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::load::PreparedGraph;

/// Loading progress. Totals are known before anything is uploaded and do not change; counts grow until they reach them.
/// Constants are uploaded while pipelines compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes of constants that have been handed to the device.
    pub uploaded_bytes: u64,
    /// Bytes of all constants, in their form on the device; constants that operators of a graph share count once.
    pub total_bytes: u64,
    /// Pipelines that are ready.
    pub ready_pipelines: u64,
    /// All pipelines that are needed, including those the device has from earlier loads.
    pub total_pipelines: u64,
}

#[cfg(not(target_arch = "wasm32"))]
type Callback = dyn Fn(LoadProgress) + Send + Sync;
/// A browser has one thread, and closures there are not `Send`.
#[cfg(target_arch = "wasm32")]
type Callback = dyn Fn(LoadProgress);

/// A callback for loading progress. It is called often and from the loading threads, one call at a time, so it should be
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

/// Counts loaded constants and pipelines, of one graph or of several, and reports them. The default has no callback.
#[derive(Debug, Default)]
pub struct ProgressCounter<'a> {
    /// Locked while progress is reported, so that reported counts never decrease.
    now: Mutex<LoadProgress>,
    listener: Option<&'a OnProgress>,
}

impl<'a> ProgressCounter<'a> {
    /// Creates a counter at zero.
    #[must_use]
    pub fn new(listener: Option<&'a OnProgress>) -> Self {
        Self { now: Mutex::default(), listener }
    }

    /// Adds a graph to be loaded to the totals.
    pub fn expect(&mut self, graph: &PreparedGraph) {
        self.expect_pipelines(graph);
        self.now.get_mut().unwrap_or_else(PoisonError::into_inner).total_bytes += graph.constant_bytes();
    }

    /// Adds a graph whose constants are uploaded later and not reported.
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
