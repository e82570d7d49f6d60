//! What this build can run. The one place to ask.

/// Whether this build runs operators at all. While it does not, calling each of them unsupported would say nothing.
pub(super) const RUNS_OPERATORS: bool = false;

/// Whether this build can run an operator of a delegate's graph.
pub(super) fn supported(_name: &str) -> bool {
    RUNS_OPERATORS
}
