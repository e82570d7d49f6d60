//! Calls of the operator as values: built by fusions, and recovered from decoded calls.

use super::{DEF, FusedLinearOp, NAME, Norm};
use crate::ir::{Call, Graph, Value, ValueId};
use crate::live::TensorId;

/// The arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct FusedLinear {
    pub(crate) x: TensorId,
    /// The weight and the epsilon of an RMS norm of the rows.
    pub(crate) norm: Option<(TensorId, f64)>,
    /// The smallest scale of rows, if they are quantised to 8 bits.
    pub(crate) int8_eps: Option<f32>,
    pub(crate) weights: Vec<TensorId>,
    /// None for float weights.
    pub(crate) scales: Vec<TensorId>,
    /// Columns per scale, 0 for float weights.
    pub(crate) group: u32,
    /// One per weight.
    pub(crate) biases: Vec<Option<TensorId>>,
    pub(crate) addend: Option<TensorId>,
    /// Whether the output is SwiGLU of two products: silu(first) · second.
    pub(crate) swiglu: bool,
    /// Whether it computes the last row alone.
    pub(crate) last_row: bool,
    pub(crate) outputs: Vec<TensorId>,
}

impl FusedLinear {
    /// Creates the call, and adds its lists and numbers to the graph's values.
    pub(crate) fn call(&self, graph: &mut Graph) -> Call {
        let value = |tensor: TensorId| ValueId(tensor.0);
        let none = graph.add(Value::Null);
        let [weights, scales, outputs] = [&self.weights, &self.scales, &self.outputs]
            .map(|list| graph.add(Value::ValueList(list.iter().copied().map(value).collect())));
        let biases = self.biases.iter().map(|bias| bias.map_or(none, value)).collect();
        let biases = graph.add(Value::ValueList(biases));
        let (norm, eps) = match self.norm {
            Some((weight, eps)) => (value(weight), graph.add(Value::Double(eps))),
            None => (none, none),
        };
        let int8_eps = self.int8_eps.map_or(none, |eps| graph.add(Value::Double(eps.into())));
        let group = graph.add(Value::Int(self.group.into()));
        let [swiglu, last_row] = [self.swiglu, self.last_row].map(|flag| graph.add(Value::Bool(flag)));
        let addend = self.addend.map_or(none, value);
        let args =
            vec![value(self.x), norm, eps, int8_eps, weights, scales, group, biases, addend, swiglu, last_row, outputs];
        Call::new(&DEF, NAME, args)
    }
}

impl FusedLinearOp {
    /// Bytes of the largest binding of its constants.
    pub(crate) fn largest_binding(&self) -> u64 {
        self.weights.largest_binding()
    }

    /// The arguments it was decoded from.
    pub(crate) fn arguments(&self) -> FusedLinear {
        let list = self.weights.list();
        FusedLinear {
            x: self.x,
            norm: self.norm.as_ref().map(|Norm { weight, eps }| (*weight, *eps)),
            int8_eps: self.int8_eps,
            weights: list.iter().map(|matrix| matrix.values.weight()).collect(),
            scales: list.iter().filter_map(|matrix| matrix.values.scales()).collect(),
            group: self.weights.group,
            biases: list.iter().map(|matrix| matrix.bias).collect(),
            addend: self.addend,
            swiglu: self.swiglu,
            last_row: self.last_row,
            outputs: self.outputs.clone(),
        }
    }
}
