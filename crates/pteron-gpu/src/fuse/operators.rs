//! Typed views of the decoded operators that fusions match.

use crate::elementwise::{Elementwise, ResultType};
use crate::graph::Node;
use crate::live::TensorId;
use crate::ops::copy::{CopyKind, CopyOp};

/// Rows of the elementwise tables.
const ADD: &str = "aten.add.Tensor";
const SUB: &str = "aten.sub.Tensor";
const MUL: &str = "aten.mul.Tensor";
const SIGMOID: &str = "aten.sigmoid.default";

/// An elementwise operator of two tensors.
pub(super) struct Binary {
    pub(super) inputs: [TensorId; 2],
    pub(super) out: TensorId,
}

fn elementwise<'a, const N: usize>(node: &'a Node, row: &str) -> Option<(&'a Elementwise, [TensorId; N])> {
    let op: &Elementwise = node.op.downcast().filter(|op: &&Elementwise| op.row.name == row)?;
    Some((op, op.inputs.as_slice().try_into().ok()?))
}

/// An elementwise operator of two tensors.
pub(super) fn binary(node: &Node) -> Option<Binary> {
    let op: &Elementwise = node.op.downcast()?;
    Some(Binary { inputs: op.inputs.as_slice().try_into().ok()?, out: op.out })
}

/// A product of two tensors.
pub(super) fn mul(node: &Node) -> Option<Binary> {
    elementwise(node, MUL).map(|(op, inputs)| Binary { inputs, out: op.out })
}

/// A sum `a + alpha · b` of two tensors, and alpha.
pub(super) fn add(node: &Node) -> Option<(Binary, f64)> {
    elementwise(node, ADD).map(|(op, inputs)| (Binary { inputs, out: op.out }, op.scalars.values[0]))
}

/// A difference `a − alpha · b` of two tensors, and −alpha.
pub(super) fn sub(node: &Node) -> Option<(Binary, f64)> {
    elementwise(node, SUB).map(|(op, inputs)| (Binary { inputs, out: op.out }, -op.scalars.values[0]))
}

/// The input and the output of a sigmoid.
pub(super) fn sigmoid(node: &Node) -> Option<(TensorId, TensorId)> {
    elementwise(node, SIGMOID).map(|(op, [x])| (x, op.out))
}

/// The input and the output of an elementwise operator of one tensor.
pub(super) fn unary(node: &Node) -> Option<(TensorId, TensorId)> {
    let op: &Elementwise = node.op.downcast()?;
    let &[x] = op.inputs.as_slice() else { return None };
    Some((x, op.out))
}

/// The input and the output of a cast to another type.
pub(super) fn cast(node: &Node) -> Option<(TensorId, TensorId)> {
    let op: &Elementwise = node.op.downcast().filter(|op: &&Elementwise| op.row.result == ResultType::Cast)?;
    let &[x] = op.inputs.as_slice() else { return None };
    Some((x, op.out))
}

/// A copy, and which one it is.
pub(super) fn copy(node: &Node) -> Option<(&CopyOp, CopyKind<'_>)> {
    node.op.downcast().map(|op: &CopyOp| (op, op.kind()))
}
