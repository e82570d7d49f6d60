//! Attention that exporters write as two batched products with softmax between them, also in the safe form that replaces rows without a
//! finite score by zeros, becomes the attention operator. Scores are then never read back as tensors.

use super::super::MAX_CHAIN;
use super::super::editor::Editor;
use super::super::operators::{self, Binary};
use super::{constant_scalar, elementwise};
use crate::graph::Node;
use crate::ir::DataType;
use crate::live::TensorId;
use crate::ops::attention;
use crate::ops::copy::{CopyKind, view_call};
use crate::ops::fill::Fill;
use crate::ops::mm::Mm;
use crate::ops::reduce::Reduction;
use crate::ops::softmax::Softmax;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    let mut feeding = Vec::new();
    for (index, node) in editor.nodes() {
        let Some((weights, values, out)) = product(editor, node) else { continue };
        let Some(found) = Scores::before(editor, index, weights) else { continue };
        let bound = |tensor: TensorId| editor.graph.info(tensor).bound;
        let (q_bound, v_bound) = (bound(found.left), bound(values));
        let keys_bound = [v_bound[0], v_bound[1], q_bound[2]];
        if !matrices_of(editor, found.q, &q_bound) || !matrices_of(editor, found.k, &keys_bound) {
            continue;
        }
        let mut calls = Vec::new();
        let [q, k] = [(found.q, &*q_bound), (found.k, &keys_bound[..])].map(|(tensor, dims)| {
            if *bound(tensor) == *dims {
                return tensor;
            }
            let flat = editor.tensor(DataType::Float32, dims);
            calls.push(view_call(&mut editor.source, tensor, dims, flat));
            flat
        });
        calls.push(attention::call(&mut editor.source, [q, k, values], found.scale, out));
        if editor.replace_with_all(&[index], index, calls) {
            feeding.extend(found.calls);
        }
    }
    feeding.sort_unstable();
    feeding.dedup();
    editor.remove_dead(feeding);
}

/// The operands and the result of a product of batches of matrices, where each matrix is multiplied by one other.
fn product(editor: &Editor<'_>, node: &Node) -> Option<(TensorId, TensorId, TensorId)> {
    let op: &Mm = node.op.downcast()?;
    let (a, b, out) = op.of_batches()?;
    // Bounds tell broadcasts apart: attention refuses batches of live sizes that differ.
    let [a_bound, b_bound, out_bound] = [a, b, out].map(|tensor| editor.graph.info(tensor).bound);
    let batches = [a_bound, b_bound, out_bound].iter().all(|bound| bound.len() == 3);
    let is_paired = !op.broadcasts() || (batches && a_bound[0] == b_bound[0]);
    (batches && is_paired).then_some((a, b, out))
}

/// Whether a tensor has these matrices, and as many of them in all its batches, so that only views of batches lie between.
fn matrices_of(editor: &Editor<'_>, tensor: TensorId, wanted: &[u32]) -> bool {
    let bound = editor.graph.info(tensor).bound;
    let count = wanted.iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
    bound.count() == count && bound.len() >= 2 && bound[bound.len() - 2..] == wanted[1..]
}

/// Scores of queries with keys, as far as softmax.
struct Scores {
    q: TensorId,
    k: TensorId,
    /// The left operand of the product.
    left: TensorId,
    scale: f64,
    calls: Vec<usize>,
}

impl Scores {
    /// The scores of which a tensor is the softmax.
    fn before(editor: &Editor<'_>, reader: usize, weights: TensorId) -> Option<Self> {
        let mut chain = Chain { editor, calls: Vec::new() };
        let weights = chain.before_views(weights, reader)?;
        let (scores, reader) = chain.softmax(weights)?;
        let first = chain.before_views(scores, reader)?;
        let (call, node) = editor.writing_node(first)?;
        let (left, right, _) = product(editor, node)?;
        chain.calls.push(call);
        let (q, q_scale) = chain.scaled(left)?;
        let (k, k_scale) = chain.transposed(right)?;
        Some(Self { q, k, left, scale: q_scale * k_scale, calls: chain.calls })
    }
}

/// Calls that are followed backwards.
struct Chain<'e, 'a> {
    editor: &'e Editor<'a>,
    calls: Vec<usize>,
}

impl Chain<'_, '_> {
    /// The tensor before views, which have no other reader.
    fn before_views(&mut self, tensor: TensorId, reader: usize) -> Option<TensorId> {
        let (mut tensor, mut reader) = (tensor, reader);
        for _ in 0..MAX_CHAIN {
            let alone =
                self.editor.uses.inner_readers(tensor).iter().all(|&other| other == reader || self.calls.contains(&other));
            if !alone || self.editor.uses.is_output(tensor) {
                return None;
            }
            let Some((index, node)) = self.editor.writing_node(tensor) else { return Some(tensor) };
            let view = operators::copy(node).filter(|(_, kind)| {
                matches!(kind, CopyKind::View(_) | CopyKind::Same | CopyKind::Unsqueezed(_) | CopyKind::Squeezed(_))
            });
            let Some((copy, _)) = view else { return Some(tensor) };
            self.calls.push(index);
            (tensor, reader) = (copy.from, index);
        }
        None
    }

    /// The scores of which a tensor is the softmax of rows, and the call that reads them. In the safe form, rows without a finite score
    /// are zeros.
    fn softmax(&mut self, tensor: TensorId) -> Option<(TensorId, usize)> {
        let (index, node) = self.editor.writing_node(tensor)?;
        if let Some(x) = softmax_of_rows(self.editor, node) {
            self.calls.push(index);
            return (self.editor.uses.only_reader(tensor).is_some()).then_some((x, index));
        }
        let (_, [empty, zeros, softmax]) = elementwise(node, "aten.where.self")?;
        let (soft, soft_node) = self.editor.writing_node(softmax)?;
        let x = softmax_of_rows(self.editor, soft_node)?;
        self.is_zero(zeros)?;
        let masked = self.rows_without(empty)?;
        self.calls.extend([index, soft]);
        (masked == x).then_some((x, soft))
    }

    /// The scores of which a tensor says whether a row has none that is finite.
    fn rows_without(&mut self, empty: TensorId) -> Option<TensorId> {
        let (not_any, node) = self.editor.writing_node(empty)?;
        let (_, [any]) = elementwise(node, "aten.logical_not.default")?;
        let (reduction, node) = self.editor.writing_node(any)?;
        let seen = node.op.downcast().and_then(Reduction::row_any)?;
        let (not_masked, node) = self.editor.writing_node(seen)?;
        let (_, [masked]) = elementwise(node, "aten.logical_not.default")?;
        let (compare, node) = self.editor.writing_node(masked)?;
        let (op, [scores]) = elementwise(node, "aten.eq.Scalar")?;
        self.calls.extend([not_any, reduction, not_masked, compare]);
        (op.scalars.values[0] == f64::NEG_INFINITY).then_some(scores)
    }

    fn is_zero(&mut self, tensor: TensorId) -> Option<()> {
        if constant_scalar(self.editor, tensor) == Some(0.0) {
            return Some(());
        }
        let (index, node) = self.editor.writing_node(tensor)?;
        let zero = node.op.downcast().is_some_and(|fill: &Fill| fill.is_zero());
        self.calls.push(index);
        zero.then_some(())
    }

    /// The tensor before views and a factor, and the factor.
    fn scaled(&mut self, tensor: TensorId) -> Option<(TensorId, f64)> {
        let before = self.views_of(tensor);
        let factor = self.editor.writing_node(before).and_then(|(index, node)| Some((index, factor(self.editor, node)?)));
        match factor {
            Some((index, (x, factor))) => {
                self.calls.push(index);
                Some((x, factor))
            }
            None => Some((before, 1.0)),
        }
    }

    /// The keys of which a tensor is the transpose, with a factor before or after it.
    fn transposed(&mut self, tensor: TensorId) -> Option<(TensorId, f64)> {
        let (turned, after) = self.scaled(tensor)?;
        let (index, node) = self.editor.writing_node(turned)?;
        let (copy, CopyKind::Permute(order)) = operators::copy(node)? else { return None };
        let last = order.len().checked_sub(2)?;
        let swapped = order[..last].iter().copied().eq(0..last) && order[last..] == [last + 1, last];
        self.calls.push(index);
        let (keys, before) = self.scaled(copy.from)?;
        swapped.then_some((keys, before * after))
    }

    /// The tensor before views, whoever reads those.
    fn views_of(&mut self, tensor: TensorId) -> TensorId {
        let mut tensor = tensor;
        for _ in 0..MAX_CHAIN {
            match self.editor.writing_node(tensor).and_then(|(index, node)| Some((index, operators::copy(node)?))) {
                Some((index, (copy, CopyKind::View(_) | CopyKind::Same))) if !self.editor.uses.is_mutated(copy.from) => {
                    self.calls.push(index);
                    tensor = copy.from;
                }
                _ => break,
            }
        }
        tensor
    }
}

/// The input of a softmax of rows.
fn softmax_of_rows(editor: &Editor<'_>, node: &Node) -> Option<TensorId> {
    let (x, axis) = node.op.downcast().and_then(Softmax::input_and_axis)?;
    (axis + 1 == editor.graph.info(x).bound.len()).then_some(x)
}

/// The tensor and the number of a product.
fn factor(editor: &Editor<'_>, node: &Node) -> Option<(TensorId, f64)> {
    if let Some((op, [x])) = elementwise(node, "aten.mul.Scalar") {
        return Some((x, op.scalars.values[0]));
    }
    let Binary { inputs: [a, b], .. } = operators::mul(node)?;
    let with = |number: TensorId, x| constant_scalar(editor, number).map(|number| (x, number));
    with(b, a).or_else(|| with(a, b))
}

#[cfg(test)]
mod tests;
