//! Calls of attention that passes over a graph write: with rotary position embedding, and over caches that the call itself appends to.

use super::{DEF, How, NAME, ROTARY, SPLIT_HALF, Sdpa};
use crate::ir::{Call, Graph, Value, ValueId};
use crate::live::{Scalar, TensorId};

/// Queries and keys before their rotation, and the tables they are rotated by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RotaryInputs {
    pub(crate) q: TensorId,
    pub(crate) k: TensorId,
    pub(crate) cosines: TensorId,
    pub(crate) sines: TensorId,
}

impl Sdpa {
    /// Whether it is attention as in files, without rotary tables, with the fastest kernels.
    pub(crate) fn is_plain(&self) -> bool {
        self.rotary.is_none() && self.token_table.is_none() && self.how == How::Fastest
    }

    /// Whether it only reads its caches, to which another operator has appended.
    pub(crate) fn is_cached(&self) -> bool {
        self.how == How::Cached
    }

    /// The queries and the output, which have the same dims.
    pub(crate) fn queries_and_output(&self) -> (TensorId, TensorId) {
        (self.q, self.out)
    }

    /// Creates the same call with other queries and keys, before their rotation, and rotary embedding of both.
    pub(crate) fn rotary_call(&self, graph: &mut Graph, inputs: RotaryInputs) -> Call {
        let RotaryInputs { q, k, cosines, sines } = inputs;
        let tensors = [q, k, self.v, cosines, sines].map(|tensor| ValueId(tensor.0));
        let args = self.caches_and_options(graph);
        Call::new(&DEF, ROTARY, [&tensors[..], &args].concat())
    }

    /// Creates the same call with other queries and keys, before their rotation, and a table of cosines and sines of the new tokens.
    pub(crate) fn split_half_call(&self, graph: &mut Graph, [q, k]: [TensorId; 2], table: TensorId) -> Call {
        let tensors = [q, k, self.v, table].map(|tensor| ValueId(tensor.0));
        let args = self.caches_and_options(graph);
        Call::new(&DEF, SPLIT_HALF, [&tensors[..], &args].concat())
    }

    /// Creates a call over the same caches that appends these keys and values to them first.
    pub(crate) fn appending_call(&self, graph: &mut Graph, k: TensorId, v: TensorId) -> Call {
        let tensors = [self.q, k, v].map(|tensor| ValueId(tensor.0));
        let args = self.caches_and_options(graph);
        Call::new(&DEF, NAME, [&tensors[..], &args].concat())
    }

    /// The arguments from the caches on.
    fn caches_and_options(&self, graph: &mut Graph) -> Vec<ValueId> {
        let [k_cache, v_cache, out] = [self.k_cache, self.v_cache, self.out].map(|tensor| ValueId(tensor.0));
        let position = match self.input_pos {
            Scalar::Fixed(position) => graph.add(Value::Int(position)),
            Scalar::Live(position) => ValueId(position.0),
        };
        let (none, zero) = (graph.add(Value::Null), graph.add(Value::Int(0)));
        let causal = graph.add(Value::Bool(self.causal));
        let scale = self.scale.map_or(none, |scale| graph.add(Value::Double(scale)));
        vec![k_cache, v_cache, position, zero, none, zero, causal, scale, out]
    }
}
