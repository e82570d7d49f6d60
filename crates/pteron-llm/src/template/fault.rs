//! Why a template stops, before it is known where.

use super::budget::Limit;

/// Why a template stops.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// It does what cannot be done.
    Failed(String),
    /// It has met a limit.
    Limit(Limit),
    /// It has called `raise_exception`.
    Raised(String),
}

/// Fails with a reason.
pub(super) fn failed<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(reason.into()))
}
