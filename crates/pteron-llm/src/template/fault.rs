//! Errors of a running template, before their line is known.

use super::budget::Limit;

/// The reason why a template stops.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// An invalid operation.
    Failed(String),
    /// A limit was exceeded.
    Limit(Limit),
    /// The template called `raise_exception`.
    Raised(String),
}

/// Fails with a reason.
pub(super) fn failed<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(reason.into()))
}
