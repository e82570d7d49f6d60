//! Options of a server.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;

use crate::keys::ApiKeys;
use crate::log::Log;
use crate::slot::ModelSource;

/// The number of every key for administration.
const ADMIN: u64 = u64::MAX;

/// How a server behaves. The default asks for no keys and writes events as text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The keys that clients need; none lets everybody in.
    pub keys: ApiKeys,
    /// The origins whose pages may call the server, or `*`.
    pub cors: Vec<String>,
    /// What a client may take.
    pub limits: Limits,
    /// How long requests may go on after the server was told to stop.
    pub drain_timeout: Duration,
    /// Where events are written.
    pub log: Log,
    /// Serves HTTPS.
    pub tls: Option<Tls>,
    /// Whether models and adapters may be loaded and unloaded over HTTP, from any path of the server. With keys, clients need one for it. The
    /// default is no.
    pub administration: bool,
    /// The keys for that, if not every key of [`keys`](Self::keys) will do.
    pub admin_keys: ApiKeys,
    /// Models that may be loaded besides those that are served from the start.
    pub catalog: Option<Catalog>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            keys: ApiKeys::default(),
            cors: Vec::new(),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(30),
            log: Log::default(),
            tls: None,
            administration: false,
            admin_keys: ApiKeys::default(),
            catalog: None,
        }
    }
}

impl ServerOptions {
    /// Sets the keys that clients need.
    #[must_use]
    pub fn with_keys(mut self, keys: ApiKeys) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the origins whose pages may call the server, or `*`.
    #[must_use]
    pub fn with_cors(mut self, origins: impl IntoIterator<Item = String>) -> Self {
        self.cors = origins.into_iter().collect();
        self
    }

    /// Sets what a client may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long requests may go on after the server was told to stop.
    #[must_use]
    pub fn with_drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Sets where events are written.
    #[must_use]
    pub fn with_log(mut self, log: Log) -> Self {
        self.log = log;
        self
    }

    /// Serves HTTPS.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Sets whether models and adapters may be loaded and unloaded over HTTP.
    #[must_use]
    pub fn with_administration(mut self, allowed: bool) -> Self {
        self.administration = allowed;
        self
    }

    /// Sets the keys that clients need to load and unload models and adapters.
    #[must_use]
    pub fn with_admin_keys(mut self, keys: ApiKeys) -> Self {
        self.admin_keys = keys;
        self
    }

    /// Sets how models that are not served yet are found, on a thread that may block. The error is a sentence.
    #[must_use]
    pub fn with_catalog(mut self, find: impl Fn(&str) -> Result<ModelSource, String> + Send + Sync + 'static) -> Self {
        self.catalog = Some(Catalog(Arc::new(find)));
        self
    }

    /// The number of the key with which a request may use a route.
    pub(crate) fn caller(&self, headers: &HeaderMap, is_administration: bool) -> Option<u64> {
        let admin = if self.admin_keys.is_empty() { None } else { self.admin_keys.find(headers).map(|_| ADMIN) };
        if is_administration && !self.admin_keys.is_empty() {
            return admin;
        }
        self.keys.find(headers).or(admin)
    }
}

/// Finds models by the names that clients ask to load.
#[derive(Clone)]
pub struct Catalog(Arc<Find>);

/// Finds a model by its name. The error is a sentence.
type Find = dyn Fn(&str) -> Result<ModelSource, String> + Send + Sync;

impl Catalog {
    pub(crate) fn find(&self, name: &str) -> Result<ModelSource, String> {
        (self.0)(name)
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate, and those between it and a root.
    pub certificates: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl Tls {
    /// Takes the contents of two PEM files.
    pub fn new(certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self { certificates: certificates.into(), key: key.into() }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the key.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What a client, and all of them together, may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request.
    pub body: usize,
    /// Connections at once. Further ones wait to be accepted.
    pub connections: usize,
    /// Requests that generate or wait at once. Further ones are refused with status 429.
    pub requests: usize,
    /// The time that a request may take to arrive: its head, and its body.
    pub arrival: Duration,
    /// The time that a request may take in all; `None` for any.
    pub generation: Option<Duration>,
    /// The time that a client may leave bytes of an answer unread.
    pub stalled: Duration,
    /// Texts of one request: its prompts times `n`.
    pub choices: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 4 << 20,
            connections: 1024,
            requests: 1024,
            arrival: Duration::from_secs(30),
            generation: None,
            stalled: Duration::from_secs(60),
            choices: 128,
        }
    }
}

impl Limits {
    /// Limits the bytes of a request.
    #[must_use]
    pub fn with_body(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    /// Limits the connections at once.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Limits the requests that generate or wait at once.
    #[must_use]
    pub fn with_requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Limits the time that a request may take to arrive.
    #[must_use]
    pub fn with_arrival(mut self, time: Duration) -> Self {
        self.arrival = time;
        self
    }

    /// Limits the time that a request may take in all.
    #[must_use]
    pub fn with_generation(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.generation = time.into();
        self
    }

    /// Limits the time that a client may leave bytes of an answer unread.
    #[must_use]
    pub fn with_stalled(mut self, time: Duration) -> Self {
        self.stalled = time;
        self
    }
}
