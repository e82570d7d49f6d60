//! Calls of attention with rotary position embedding, which a fusion writes.

use super::{DEF, How, ROTARY, Sdpa};
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
        self.rotary.is_none() && self.how == How::Fastest
    }

    /// Creates the same call with rotary embedding of queries and keys.
    pub(crate) fn rotary_call(&self, graph: &mut Graph, inputs: RotaryInputs) -> Call {
        let RotaryInputs { q, k, cosines, sines } = inputs;
        let [q, k, v, cosines, sines, k_cache, v_cache, out] =
            [q, k, self.v, cosines, sines, self.k_cache, self.v_cache, self.out].map(|tensor| ValueId(tensor.0));
        let position = match self.input_pos {
            Scalar::Fixed(position) => graph.add(Value::Int(position)),
            Scalar::Live(position) => ValueId(position.0),
        };
        let (none, zero) = (graph.add(Value::Null), graph.add(Value::Int(0)));
        let causal = graph.add(Value::Bool(self.causal));
        let scale = self.scale.map_or(none, |scale| graph.add(Value::Double(scale)));
        let args = vec![q, k, v, cosines, sines, k_cache, v_cache, position, zero, none, zero, causal, scale, out];
        Call::new(&DEF, ROTARY, args)
    }
}
