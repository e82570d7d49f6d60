//! Recognition: what exporters decompose into elementwise operators, reductions and copies becomes the operator it was.
//!
//! Each pass follows the data flow of decoded operators, whatever order, views and casts an exporter wrote, and leaves what it does not
//! recognise as plain operators. The fusions after them then apply to programs of any exporter.

pub(super) mod attention;
mod columns;
pub(super) mod copies;
pub(super) mod half_tables;
pub(super) mod kv_cache;
pub(super) mod linear;
pub(super) mod rms_norm;
pub(super) mod rotary;

use super::editor::Editor;
use super::{MAX_CHAIN, operators};
use crate::elementwise::Elementwise;
use crate::graph::{Node, Role};
use crate::live::{Scalar, ScalarId, TensorId};
use crate::ops::copy::CopyKind;
use crate::ops::symint::{Source, SymInt};

/// An elementwise operator by name, with its inputs and the first of its scalar arguments.
fn elementwise<'a, const N: usize>(node: &'a Node, name: &str) -> Option<(&'a Elementwise, [TensorId; N])> {
    let op: &Elementwise = node.op.downcast().filter(|op: &&Elementwise| op.row.name == name)?;
    Some((op, op.inputs.as_slice().try_into().ok()?))
}

/// The number in a constant tensor with one element, or in a view of it.
fn constant_scalar(editor: &Editor<'_>, tensor: TensorId) -> Option<f64> {
    let mut tensor = tensor;
    for _ in 0..MAX_CHAIN {
        let view = editor.writing_node(tensor).and_then(|(_, node)| operators::copy(node));
        let Some((copy, CopyKind::View(_) | CopyKind::Same | CopyKind::Unsqueezed(_) | CopyKind::Squeezed(_))) = view else {
            break;
        };
        tensor = copy.from;
    }
    let Role::Constant(constant) = editor.graph.role(tensor) else { return None };
    if editor.graph.info(tensor).bound.count() != 1 {
        return None;
    }
    editor.graph.source.scalars.get(&crate::ir::ConstantId(constant)).copied()
}

/// Whether two symbols, each as a call reads it, are the same number in every call: one symbol, or the same element of one input.
fn same_scalar(editor: &Editor<'_>, (a, a_reader): (Scalar, usize), (b, b_reader): (Scalar, usize)) -> bool {
    let (a, b) = match (a, b) {
        (Scalar::Live(a), Scalar::Live(b)) => (a, b),
        (a, b) => return a == b,
    };
    let writer = |symbol: ScalarId, reader| editor.uses.symbol_writer(symbol, reader);
    let (Some(first), Some(second)) = (writer(a, a_reader), writer(b, b_reader)) else { return false };
    first == second || element(editor, first).is_some_and(|element_of| element(editor, second) == Some(element_of))
}

/// The input that a call reads an element of, and which; every valid index of a tensor with one element names that element.
fn element(editor: &Editor<'_>, call: usize) -> Option<(TensorId, usize, i64)> {
    let SymInt { source: Source::Element { x, axis, index }, .. } = editor.node(call).op.downcast()? else { return None };
    match (editor.graph.info(*x).bound.count(), *index) {
        (1, _) => Some((*x, 0, 0)),
        (_, Scalar::Fixed(index)) => Some((*x, *axis, index)),
        (_, Scalar::Live(_)) => None,
    }
}
