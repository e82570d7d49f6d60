//! Identifiers and seeds that differ from request to request. They are no secrets.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static COUNT: AtomicU64 = AtomicU64::new(0);
static STATE: OnceLock<RandomState> = OnceLock::new();

/// A number that nobody has had.
pub(crate) fn number() -> u64 {
    let mut hasher = STATE.get_or_init(RandomState::new).build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.finish()
}

/// An identifier with a prefix.
pub(crate) fn new(prefix: &str) -> String {
    format!("{prefix}{:016x}{:08x}", number(), number() >> 32)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
