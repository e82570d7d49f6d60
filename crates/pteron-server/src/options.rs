//! Options of a server.

use std::time::Duration;

use crate::keys::ApiKeys;
use crate::log::Log;

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
