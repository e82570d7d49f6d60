//! Exporters flatten the rows of float linears, `[1, rows, k]` to `[rows, k]`, and group their outputs again. The linear reads and
//! writes grouped rows instead, so that linears of one tensor have one input, and the views keep dims.

use super::editor::Editor;
use super::operators;
use crate::live::{Scalar, TensorId};
use crate::ops::copy::{CopyKind, CopyOp};
use crate::ops::fused_linear::FusedLinear;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut views = Vec::new();
    for (index, node) in editor.nodes() {
        let Some(linear) = FusedLinear::of(node) else { continue };
        let &[out] = linear.outputs.as_slice() else { continue };
        let Some((view, grouped)) = rows_before(editor, linear.x) else { continue };
        if !regrouped_by_all(editor, out, grouped) {
            continue;
        }
        let mut bound = editor.graph.info(grouped).bound.to_vec();
        let width = editor.graph.info(out).bound.last();
        if let Some(last) = bound.last_mut() {
            *last = width;
        }
        if editor.replace(&[index], index, &FusedLinear { x: grouped, ..linear }) {
            editor.reshape(out, bound);
            views.push(view);
        }
    }
    views.dedup();
    editor.remove_dead(views);
}

/// The view of a tensor that regroups rows, and the tensor before it.
fn rows_before(editor: &Editor<'_>, x: TensorId) -> Option<(usize, TensorId)> {
    let (index, node) = editor.writing_node(x)?;
    let (&CopyOp { from, .. }, CopyKind::View(_)) = operators::copy(node)? else { return None };
    let grouped = editor.graph.info(from).bound.len() >= 2 && !editor.dims.same(from, x) && editor.dims.same_rows(from, x);
    grouped.then_some((index, from))
}

/// Whether every reader of an output is a view to dims that do not follow from the output's own.
fn regrouped_by_all(editor: &Editor<'_>, out: TensorId, grouped: TensorId) -> bool {
    let is_view = |&reader: &usize| match operators::copy(editor.node(reader)) {
        Some((_, CopyKind::View(sizes))) => {
            editor.dims.is_fixed(grouped) || sizes.iter().any(|size| matches!(size, Scalar::Live(_)))
        }
        _ => false,
    };
    let readers = editor.uses.inner_readers(out);
    !readers.is_empty() && readers.iter().all(is_view)
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{ADD, FLOAT_LINEAR, LayerBuilder, VIEW, agree, fused_names};
    use crate::ops::fused_linear::NAME;

    const PACKED: Fusions = Fusions { pack_linears: true, ..Fusions::NONE };

    #[test]
    fn flattened_rows_are_merged_with_their_norm() {
        let mut layer = LayerBuilder::new(64);
        let normed = layer.norm(layer.x);
        for n in [64, 32, 32] {
            let out = layer.flat_linear(normed, n);
            layer.builder.output(out);
        }
        // The views after the linears keep dims, and stay because their results are outputs.
        assert_eq!(fused_names(&layer.builder, &Fusions::ALL), [NAME, VIEW, VIEW, VIEW]);
        agree(&layer.builder, &Fusions::ALL, &layer.calls());
    }

    #[test]
    fn a_feed_forward_of_flattened_rows_is_two_calls() {
        let mut layer = LayerBuilder::new(64);
        let normed = layer.norm(layer.x);
        let gate = layer.flat_linear(normed, 64);
        let sigmoid = layer.unary("aten.sigmoid.default", gate);
        let silu = layer.product(gate, sigmoid);
        let up = layer.flat_linear(normed, 64);
        let gated = layer.product(silu, up);
        let down = layer.flat_linear(gated, 64);
        let sum = layer.sum(layer.x, down);
        layer.builder.output(sum);
        assert_eq!(fused_names(&layer.builder, &Fusions::ALL), [NAME, NAME]);
        agree(&layer.builder, &Fusions::ALL, &layer.calls());
    }

    #[test]
    fn a_sum_takes_the_groups_of_its_addend() {
        // Rows that come flat, as after attention, have no grouped tensor before them.
        let mut layer = LayerBuilder::new(64);
        let doubled = layer.flat(layer.x, 64);
        let doubled = layer.flat_sum(doubled);
        let product = layer.float_linear(doubled, 64);
        let product = layer.view(product, 64);
        let sum = layer.sum(layer.x, product);
        layer.builder.output(sum);
        assert_eq!(fused_names(&layer.builder, &Fusions { residual: true, ..PACKED }), [VIEW, ADD, NAME]);
        agree(&layer.builder, &Fusions { residual: true, ..PACKED }, &layer.calls());
    }

    #[test]
    fn flat_outputs_with_other_readers_stay_flat() {
        let mut layer = LayerBuilder::new(64);
        let flat = layer.flat(layer.x, 64);
        let product = layer.float_linear(flat, 32);
        layer.builder.output(product);
        assert_eq!(fused_names(&layer.builder, &PACKED), [VIEW, NAME]);
        assert_eq!(fused_names(&layer.builder, &Fusions::NONE), [VIEW, FLOAT_LINEAR]);
        agree(&layer.builder, &PACKED, &layer.calls());
    }
}
