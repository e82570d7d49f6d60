//! The requests that wait, and the share of each key.

use std::collections::{BTreeMap, BTreeSet};

use super::request::{ApiKeyId, RequestId};

/// Requests that wait, by key and arrival, and the rows that each key was given.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<ApiKeyId, BTreeSet<RequestId>>,
    length: usize,
    /// Keys with live requests, queued or running.
    keys: BTreeMap<ApiKeyId, KeyShare>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyShare {
    /// Live requests.
    requests: usize,
    /// Rows given, counted from where the others stood when the key became active.
    rows: u64,
}

impl Queue {
    /// Counts a new request of a key. A key that had none starts level with the one that was given least, so that neither
    /// absence nor a long past counts.
    pub(super) fn enter(&mut self, key: ApiKeyId) {
        let least = self.keys.values().map(|share| share.rows).min().unwrap_or(0);
        self.keys.entry(key).or_insert(KeyShare { requests: 0, rows: least }).requests += 1;
    }

    /// Counts the end of a request of a key.
    pub(super) fn leave(&mut self, key: ApiKeyId) {
        if let Some(share) = self.keys.get_mut(&key) {
            share.requests -= 1;
            if share.requests == 0 {
                self.keys.remove(&key);
            }
        }
    }

    pub(super) fn charge(&mut self, key: ApiKeyId, rows: usize) {
        if let Some(share) = self.keys.get_mut(&key) {
            share.rows += rows as u64;
        }
    }

    /// The rows that a key was given.
    pub(super) fn rows(&self, key: ApiKeyId) -> u64 {
        self.keys.get(&key).map_or(0, |share| share.rows)
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, key: ApiKeyId, id: RequestId) {
        self.length += usize::from(self.waiting.entry(key).or_default().insert(id));
    }

    pub(super) fn remove(&mut self, key: ApiKeyId, id: RequestId) {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            self.length -= usize::from(waiting.remove(&id));
            if waiting.is_empty() {
                self.waiting.remove(&key);
            }
        }
    }

    /// The oldest request of each key that `skip` does not contain.
    pub(super) fn heads<'a>(&'a self, skip: &'a BTreeSet<RequestId>) -> impl Iterator<Item = RequestId> + 'a {
        self.waiting.values().filter_map(|waiting| waiting.iter().find(|id| !skip.contains(id)).copied())
    }
}
