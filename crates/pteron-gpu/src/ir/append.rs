//! Appending an operator to a graph.

use super::{Call, Graph, Tensor, Value, ValueId};
use crate::ops::OpDef;

/// What an appended call added to its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Indices of the new inputs among the graph's inputs.
    pub inputs: Vec<usize>,
    /// Indices of the new outputs among the graph's outputs.
    pub outputs: Vec<usize>,
}

impl Graph {
    /// Appends a call of an operator that reads an output of the graph. The graph gets new inputs, which the operator takes after
    /// that output, and new outputs, which it writes. The operator may be an internal one.
    ///
    /// Returns `None`, and changes nothing, if the graph has no such output. Whether the operator accepts its arguments is known
    /// when the graph is decoded.
    pub fn append_call(
        &mut self,
        operator: (&'static OpDef, &'static str),
        output: usize,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Option<Appended> {
        let read = *self.outputs.get(output)?;
        let mut add = |tensors: &[Tensor]| -> Vec<ValueId> {
            tensors.iter().map(|tensor| self.add(Value::Tensor(tensor.clone()))).collect()
        };
        let (inputs, outputs) = (add(inputs), add(outputs));
        let args = [&[read], inputs.as_slice(), &outputs].concat();
        self.calls.push(Call::new(operator.0, operator.1, args).at(self.calls.len()));
        let indices = |before: usize, added: &[ValueId]| (before..before + added.len()).collect();
        let appended =
            Appended { inputs: indices(self.inputs.len(), &inputs), outputs: indices(self.outputs.len(), &outputs) };
        self.inputs.extend(inputs);
        self.outputs.extend(outputs);
        Some(appended)
    }
}
