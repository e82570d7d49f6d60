//! Operators that this build supports.

use pteron_gpu::ops;

/// Whether this build can run an operator of a delegate's graph.
pub(super) fn supported(name: &str) -> bool {
    ops::find_in_files(name).is_some()
}
