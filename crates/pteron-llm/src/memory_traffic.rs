//! Bytes that a decode step reads, which bound its speed on a device of known memory bandwidth.

use pteron::Method;

use crate::metadata::Metadata;

/// Bytes of memory that a decode step of a language model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryTraffic {
    /// Weights, and one row of each table that a token or a position is looked up in: read once per step.
    pub constant_bytes_per_token: u64,
    /// Keys and values of one position of the context: read once per step for every position before it.
    pub cache_bytes_per_position: u64,
}

impl MemoryTraffic {
    /// Computes the traffic of a loaded method.
    #[must_use]
    pub fn of(method: &Method, metadata: &Metadata) -> Self {
        Self {
            constant_bytes_per_token: method.constant_bytes_per_row(),
            // State is the KV cache, which holds every position of the context.
            cache_bytes_per_position: method.state_tensor_bytes() / u64::from(metadata.context_length.max(1)),
        }
    }
}
