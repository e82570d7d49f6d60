//! The LoRA adapters of an engine: their names, the requests that use them, and changes that wait for the engine's thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use pteron::LoraAdapter;

use super::Engine;
use super::error::EngineError;
use super::shared::Shared;
use crate::batch::AdapterId;

/// An adapter that an [`Engine`] holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineAdapter {
    /// Its name.
    pub name: String,
    /// Its rank.
    pub rank: u32,
    /// Requests with it that have not ended.
    pub requests: usize,
}

/// An adapter that the engine's thread is to load.
pub(super) struct LoadRequest {
    pub(super) name: String,
    pub(super) adapter: Arc<LoraAdapter>,
    pub(super) reply: SyncSender<Result<(), EngineError>>,
}

impl std::fmt::Debug for LoadRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The adapters, by name and by id. Ids are never used twice, so that no request finds prefixes of another adapter in the cache.
#[derive(Debug, Default)]
pub(super) struct Adapters {
    named: BTreeMap<String, AdapterId>,
    held: BTreeMap<AdapterId, Held>,
    next: u32,
    /// Names that are being loaded.
    loading: BTreeSet<String>,
    loads: Vec<LoadRequest>,
    /// Adapters without a name and without requests: their slots can be freed.
    unused: Vec<AdapterId>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    rank: u32,
    requests: usize,
    is_named: bool,
}

impl Adapters {
    /// Counts a request with the adapter of a name.
    pub(super) fn acquire(&mut self, name: &str) -> Result<AdapterId, EngineError> {
        let found = self.named.get(name).and_then(|id| Some((*id, self.held.get_mut(id)?)));
        let Some((id, held)) = found else { return Err(self.unknown(name)) };
        held.requests += 1;
        Ok(id)
    }

    /// Counts the end of a request with an adapter.
    pub(super) fn release(&mut self, id: AdapterId) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.requests = held.requests.saturating_sub(1);
        self.drop_if_unused(id);
    }

    /// Takes the name from an adapter. It is kept as long as requests use it.
    fn unload(&mut self, name: &str) -> Result<(), EngineError> {
        let Some(id) = self.named.remove(name) else { return Err(self.unknown(name)) };
        if let Some(held) = self.held.get_mut(&id) {
            held.is_named = false;
        }
        self.drop_if_unused(id);
        Ok(())
    }

    fn drop_if_unused(&mut self, id: AdapterId) {
        if self.held.get(&id).is_some_and(|held| held.requests == 0 && !held.is_named) {
            self.held.remove(&id);
            self.unused.push(id);
        }
    }

    fn unknown(&self, name: &str) -> EngineError {
        EngineError::UnknownAdapter { name: name.to_owned(), known: self.named.keys().cloned().collect() }
    }

    /// Queues an adapter for the engine's thread.
    fn queue(&mut self, load: LoadRequest) -> Result<(), EngineError> {
        if self.named.contains_key(&load.name) || !self.loading.insert(load.name.clone()) {
            return Err(EngineError::AdapterExists(load.name));
        }
        self.loads.push(load);
        Ok(())
    }

    /// Whether adapters wait to be loaded.
    pub(super) fn has_loads(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Takes what waits for the engine's thread: adapters whose slots are free, and adapters to load after that.
    pub(super) fn take_changes(&mut self) -> (Vec<AdapterId>, Vec<LoadRequest>) {
        (std::mem::take(&mut self.unused), std::mem::take(&mut self.loads))
    }

    /// Names an adapter that the model holds now; without a rank, one that it does not take.
    pub(super) fn finish_load(&mut self, name: &str, rank: Option<u32>) -> Option<AdapterId> {
        self.loading.remove(name);
        let id = AdapterId(self.next);
        self.held.insert(id, Held { rank: rank?, requests: 0, is_named: true });
        self.next += 1;
        self.named.insert(name.to_owned(), id);
        Some(id)
    }

    /// Gives up what waits for the engine's thread. Those who wait for it are told so as their senders are dropped.
    pub(super) fn abandon(&mut self) {
        self.loads.clear();
        self.loading.clear();
    }

    fn list(&self) -> Vec<EngineAdapter> {
        let own = |(name, id): (&String, &AdapterId)| {
            let held = self.held.get(id)?;
            Some(EngineAdapter { name: name.clone(), rank: held.rank, requests: held.requests })
        };
        self.named.iter().filter_map(own).collect()
    }
}

impl Engine {
    /// Loads a LoRA adapter under a name, which [requests](super::EngineRequest::with_adapter) choose it by. Blocks the thread until the
    /// engine has written it to the GPU, between two steps; requests go on.
    ///
    /// # Errors
    /// A name that is taken, an adapter that does not fit the model, or no room: the engine was loaded [without](super::EngineOptions::with_adapters),
    /// or with as many adapters as it holds. One that was unloaded takes its room until its last request has ended.
    pub fn load_adapter(&self, name: &str, adapter: impl Into<Arc<LoraAdapter>>) -> Result<(), EngineError> {
        let (reply, result) = sync_channel(1);
        self.handle.shared.queue_adapter(LoadRequest { name: name.to_owned(), adapter: adapter.into(), reply })?;
        result.recv().unwrap_or(Err(EngineError::Stopped))
    }

    /// Unloads an adapter. Requests that use it go on; no further ones can.
    ///
    /// # Errors
    /// No adapter has this name.
    pub fn unload_adapter(&self, name: &str) -> Result<(), EngineError> {
        self.handle.shared.with_work(|state| state.adapters.unload(name))
    }

    /// The adapters, by name.
    #[must_use]
    pub fn adapters(&self) -> Vec<EngineAdapter> {
        self.handle.shared.with(|state| state.adapters.list())
    }
}

impl Shared {
    fn queue_adapter(&self, load: LoadRequest) -> Result<(), EngineError> {
        self.with_work(|state| match state.failure() {
            Some(failure) => Err(failure.clone()),
            None => state.adapters.queue(load),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(adapters: &mut Adapters, name: &str) -> AdapterId {
        adapters.finish_load(name, Some(4)).unwrap()
    }

    #[test]
    fn an_adapter_that_is_unloaded_is_kept_until_its_last_request_ends() {
        let mut adapters = Adapters::default();
        let first = load(&mut adapters, "a");
        assert_eq!([adapters.acquire("a").unwrap(), adapters.acquire("a").unwrap()], [first; 2]);
        adapters.unload("a").unwrap();
        assert!(matches!(adapters.acquire("a"), Err(EngineError::UnknownAdapter { .. })));
        // Its name is free at once, for an adapter with another id.
        let second = load(&mut adapters, "a");
        assert_ne!(first, second);
        adapters.release(first);
        assert!(adapters.take_changes().0.is_empty());
        adapters.release(first);
        assert_eq!(adapters.take_changes().0, [first]);
        assert_eq!(adapters.list(), [EngineAdapter { name: "a".to_owned(), rank: 4, requests: 0 }]);
        adapters.unload("a").unwrap();
        assert_eq!(adapters.take_changes().0, [second]);
        let error = adapters.unload("a").unwrap_err().to_string();
        assert_eq!(error, "there is no adapter \"a\"; there is none at all");
    }

    #[test]
    fn a_name_is_taken_as_soon_as_its_adapter_is_queued() {
        let mut adapters = Adapters::default();
        let update = pteron::LowRankUpdate {
            layer: 0,
            projection: pteron::Projection::Query,
            rank: 1,
            columns: 1,
            rows: 1,
            scale: 1.0,
            a: vec![1.0],
            b: vec![1.0],
        };
        let adapter = Arc::new(LoraAdapter::new(vec![update]).unwrap());
        let (reply, _result) = sync_channel(1);
        let queue = |adapters: &mut Adapters| {
            adapters.queue(LoadRequest { name: "a".to_owned(), adapter: adapter.clone(), reply: reply.clone() })
        };
        queue(&mut adapters).unwrap();
        assert!(matches!(queue(&mut adapters), Err(EngineError::AdapterExists(_))));
        assert_eq!(adapters.take_changes().1.len(), 1);
        assert!(queue(&mut adapters).is_err(), "it is being loaded");
        // The model did not take it.
        assert_eq!(adapters.finish_load("a", None), None);
        queue(&mut adapters).unwrap();
        load(&mut adapters, "a");
        assert!(queue(&mut adapters).is_err());
    }
}
