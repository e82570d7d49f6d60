//! What this build can run. The one place to ask.

use pteron_gpu::ops::OPS;

/// Whether this build can run an operator of a delegate's graph.
pub(super) fn supported(name: &str) -> bool {
    OPS.iter().any(|def| def.names.contains(&name))
}
