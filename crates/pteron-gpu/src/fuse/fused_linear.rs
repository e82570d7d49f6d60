//! Linears with 4-bit weights, plain or fused, as one kind of value.

use crate::graph::Node;
use crate::live::TensorId;
use crate::ops::fused_linear_q4gsw::{FusedLinear, FusedLinearOp};
use crate::ops::linear_q4gsw::LinearQ4;

impl FusedLinear {
    /// A call of either operator.
    pub(super) fn of(node: &Node) -> Option<Self> {
        Self::plain(node).or_else(|| node.op.downcast().map(FusedLinearOp::arguments))
    }

    /// A call of the plain operator with scales per group.
    pub(super) fn plain(node: &Node) -> Option<Self> {
        let LinearQ4 { frame, weights } = node.op.downcast()?;
        Some(Self {
            x: frame.x,
            norm: None,
            weights: vec![weights.weight],
            scales: vec![weights.scales],
            group: weights.group()?,
            biases: vec![frame.bias],
            addend: None,
            swiglu: false,
            last_row: false,
            outputs: vec![frame.out],
        })
    }

    /// The same call with the weights and outputs of another as well, if both have one input and one group size.
    pub(super) fn merged(mut self, other: &Self) -> Option<Self> {
        let plain = |call: &Self| call.norm.is_none() && call.addend.is_none() && !call.swiglu && !call.last_row;
        if self.x != other.x || self.group != other.group || !plain(&self) || !plain(other) {
            return None;
        }
        self.weights.extend(&other.weights);
        self.scales.extend(&other.scales);
        self.biases.extend(&other.biases);
        self.outputs.extend(&other.outputs);
        Some(self)
    }

    /// The tensors it reads that need not be constants.
    pub(super) fn reads(&self) -> impl Iterator<Item = TensorId> {
        [Some(self.x), self.norm.map(|(weight, _)| weight), self.addend].into_iter().flatten()
    }

    /// The constants it reads, by buffer: weights, and scales with biases.
    pub(super) fn constants(&self) -> [Vec<TensorId>; 2] {
        let biases = self.biases.iter().flatten();
        [self.weights.clone(), self.scales.iter().chain(biases).copied().collect()]
    }
}
