//! The data flow of a call.

use super::IndexInput;
use crate::live::{ScalarId, TensorId};

/// The values an operator reads and writes, recorded while it is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Tensors it reads.
    pub reads: Vec<TensorId>,
    /// Tensors among `reads` of which an output row needs one index of an axis: tables that are gathered from, tensors that
    /// are sliced.
    pub sliced_reads: Vec<(TensorId, usize)>,
    /// Tensors it writes whole.
    pub writes: Vec<TensorId>,
    /// Tensors it changes in place.
    pub mutates: Vec<TensorId>,
    /// Inputs whose integers it reads on the host.
    pub host_reads: Vec<TensorId>,
    /// Graph inputs it takes as indices.
    pub index_inputs: Vec<IndexInput>,
    /// Scalars it reads.
    pub scalar_reads: Vec<ScalarId>,
    /// Scalars it writes.
    pub scalar_writes: Vec<ScalarId>,
}
