//! Calls of the operator, which a rewrite of a graph builds.

use super::{DEF, NAME};
use crate::ir::{Call, Graph, Value, ValueId};
use crate::live::TensorId;

/// The arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct LoraCall {
    pub(crate) x: TensorId,
    /// The weight and the epsilon of an RMS norm of the rows.
    pub(crate) norm: Option<(TensorId, f64)>,
    /// The outputs of the linears.
    pub(crate) products: Vec<ValueId>,
    /// The matrices A and B of all adapters, and their scales.
    pub(crate) matrices: [ValueId; 3],
    pub(crate) tiles: ValueId,
    /// Whether the output is SwiGLU of two products.
    pub(crate) swiglu: bool,
    /// What the caller knows each linear by.
    pub(crate) labels: Vec<i64>,
    pub(crate) outputs: Vec<ValueId>,
}

impl LoraCall {
    /// Creates the call, and adds its lists and numbers to the graph's values.
    pub(crate) fn call(self, graph: &mut Graph) -> Call {
        let value = |tensor: TensorId| ValueId(tensor.0);
        let (norm, eps) = match self.norm {
            Some((weight, eps)) => (value(weight), graph.add(Value::Double(eps))),
            None => (graph.add(Value::Null), graph.add(Value::Null)),
        };
        let [products, outputs] = [self.products, self.outputs].map(|list| graph.add(Value::ValueList(list)));
        let swiglu = graph.add(Value::Bool(self.swiglu));
        let labels = graph.add(Value::IntList(self.labels));
        let [a, b, scales] = self.matrices;
        let args = vec![value(self.x), norm, eps, products, a, b, scales, self.tiles, swiglu, labels, outputs];
        Call::new(&DEF, NAME, args)
    }
}
