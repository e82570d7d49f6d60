//! Linears with 4-bit or float weights, plain or fused, as one kind of value.

use super::editor::Editor;
use crate::graph::Node;
use crate::int8::MULTIPLIER_RULE;
use crate::live::TensorId;
use crate::matmul::{Frame, Q4};
use crate::ops::choose_qparams::ChooseQparams;
use crate::ops::fused_linear::{FusedLinear, FusedLinearOp};
use crate::ops::linear::Linear;
use crate::ops::linear_dq8ca_q4gsw::LinearQ8Q4;
use crate::ops::linear_q4gsw::LinearQ4;

impl FusedLinear {
    /// A call of either operator.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        Self::plain(node).or_else(|| node.op.downcast().map(FusedLinearOp::arguments))
    }

    /// A call of the plain operator, with floats or with scales per group.
    pub(super) fn plain(node: &Node) -> Option<Self> {
        if let Some(Linear { frame, weight, .. }) = node.op.downcast() {
            return Some(Self::of_matrix(frame, *weight, None, 0));
        }
        let LinearQ4 { frame, weights } = node.op.downcast()?;
        Self::with(frame, weights)
    }

    /// A call of the operator with rows quantised to 8 bits, if they are quantised by their own ranges: the call that finds those, and
    /// both as one.
    pub(super) fn quantised(editor: &Editor<'_>, node: &Node) -> Option<(usize, Self)> {
        let LinearQ8Q4 { frame, scale, zero_point, weights, sums } = node.op.downcast()?;
        let (index, ranges) = editor.writer::<ChooseQparams>(*scale)?;
        let layout = weights.fixed()?;
        let bound = |tensor| editor.graph.info(tensor).bound;
        let sums_fit = sums.is_none_or(|sums| LinearQ8Q4::sums_fit(&layout, bound(sums), bound(weights.scales)));
        if (ranges.x, ranges.scale, ranges.zero_point) != (frame.x, *scale, *zero_point) || !sums_fit {
            return None;
        }
        let int8_eps = Some(ranges.row_eps(layout.k)?);
        if sums.is_none() != (int8_eps == Some(MULTIPLIER_RULE)) {
            return None;
        }
        Some((index, Self { int8_eps, ..Self::with(frame, weights)? }))
    }

    fn with(frame: &Frame, weights: &Q4) -> Option<Self> {
        Some(Self::of_matrix(frame, weights.weight, Some(weights.scales), weights.group()?))
    }

    fn of_matrix(frame: &Frame, weight: TensorId, scales: Option<TensorId>, group: u32) -> Self {
        Self {
            x: frame.x,
            norm: None,
            int8_eps: None,
            weights: vec![weight],
            scales: scales.into_iter().collect(),
            group,
            biases: vec![frame.bias],
            addend: None,
            swiglu: false,
            last_row: false,
            outputs: vec![frame.out],
        }
    }

    /// The same call with the weights and outputs of another as well, if both have one input, quantised alike, and one group size.
    pub(super) fn merged(mut self, other: &Self) -> Option<Self> {
        let plain = |call: &Self| call.norm.is_none() && call.addend.is_none() && !call.swiglu && !call.last_row;
        let alike = self.x == other.x && self.int8_eps == other.int8_eps && self.group == other.group;
        if !alike || !plain(&self) || !plain(other) {
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
