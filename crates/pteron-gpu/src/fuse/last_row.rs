//! Last-row logits: if only the last row of a linear's output is read, the linear computes that row alone, and so do the
//! linears before it that have no other reader. The selection of the row becomes a squeeze.

use super::editor::Editor;
use super::operators;
use crate::live::{Scalar, TensorId};
use crate::ops::copy::{CopyKind, CopyOp, squeeze_call};
use crate::ops::fused_linear::FusedLinear;

/// The dimension of rows in `[1, rows, columns]`.
const ROWS: usize = 1;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut selects = Vec::new();
    // From the end, because the rows of an output that are read follow from its readers.
    let mut shortened = vec![false; editor.graph.nodes.len()];
    for (index, node) in editor.nodes().rev() {
        let Some(linear) = FusedLinear::of(node) else { continue };
        let &[out] = linear.outputs.as_slice() else { continue };
        let reads_last = |&reader: &usize| {
            last_row_select(editor, reader).is_some() || (shortened[reader] && reads_rows(editor, reader, out))
        };
        let readers = editor.uses.inner_readers(out);
        if readers.is_empty() || !readers.iter().all(reads_last) || ![out, linear.x].iter().all(|x| has_rows(editor, *x)) {
            continue;
        }
        selects.extend(readers.iter().copied().filter(|&reader| last_row_select(editor, reader).is_some()));
        if editor.replace(&[index], index, &FusedLinear { last_row: true, ..linear }) {
            editor.shorten(out, ROWS);
            shortened[index] = true;
        }
    }
    for select in selects {
        let Some(&CopyOp { from, out, .. }) = last_row_select(editor, select) else { continue };
        if editor.uses.writer(from).is_some_and(|writer| shortened[writer]) {
            let squeeze = squeeze_call(&mut editor.source, from, &[ROWS], out);
            editor.replace_with(&[select], select, squeeze);
        }
    }
}

/// Whether a tensor is `[1, rows, columns]`.
fn has_rows(editor: &Editor<'_>, tensor: TensorId) -> bool {
    matches!(*editor.graph.info(tensor).bound, [1, _, _])
}

/// The copy of a call, if it selects the last row of one batch.
fn last_row_select<'a>(editor: &Editor<'a>, call: usize) -> Option<&'a CopyOp> {
    match operators::copy(editor.node(call))? {
        (copy, CopyKind::Select { axis: ROWS, index: Scalar::Fixed(-1) }) if has_rows(editor, copy.from) => Some(copy),
        _ => None,
    }
}

/// Whether a call of a linear reads a tensor as rows and not as the weight of a norm.
fn reads_rows(editor: &Editor<'_>, call: usize, tensor: TensorId) -> bool {
    let linear = FusedLinear::of(editor.node(call));
    linear.is_some_and(|linear| linear.norm.is_none_or(|(weight, _)| weight != tensor))
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LINEAR, LayerBuilder, agree, fused_names};
    use crate::ir::{DataType, ValueId};
    use crate::ops::fused_linear::NAME;

    const SELECT: &str = "aten.select_copy.int";
    const SQUEEZE: &str = "aten.squeeze_copy.dims";
    const ONLY: Fusions = Fusions { last_row: true, ..Fusions::NONE };
    const WITH_SUMS: Fusions = Fusions { residual: true, norm: true, swiglu: true, ..ONLY };

    /// The row of a value at an index of a dimension.
    fn select(layer: &mut LayerBuilder, x: ValueId, dim: i64, index: i64, dims: &[u32]) -> ValueId {
        let (dim, index) = (layer.builder.int(dim), layer.builder.int(index));
        let out = layer.builder.tensor(DataType::Float32, dims);
        layer.builder.call(SELECT, &[x, dim, index, out]);
        out
    }

    /// Compares calls with at least one row: an empty tensor has no last row.
    fn agrees(layer: &LayerBuilder, fusions: &Fusions) {
        let calls: Vec<_> = layer.calls().into_iter().filter(|call| call[0].dims.count() > 0).collect();
        agree(&layer.builder, fusions, &calls);
    }

    #[test]
    fn a_linear_computes_the_row_that_is_selected() {
        for dim in [1, -2] {
            let mut layer = LayerBuilder::new(64);
            let product = layer.linear(layer.x, 12);
            let row = select(&mut layer, product, dim, -1, &[1, 12]);
            layer.builder.output(row);
            assert_eq!(fused_names(&layer.builder, &ONLY), [NAME, SQUEEZE]);
            agrees(&layer, &ONLY);
        }
    }

    #[test]
    fn so_do_those_before_it() {
        let mut layer = LayerBuilder::new(64);
        let first = layer.linear(layer.x, 64);
        let sum = layer.sum(layer.x, first);
        let normed = layer.norm(sum);
        let (gate, up) = (layer.linear(normed, 64), layer.linear(normed, 64));
        let sigmoid = layer.unary("aten.sigmoid.default", gate);
        let silu = layer.product(gate, sigmoid);
        let gated = layer.product(silu, up);
        let down = layer.linear(gated, 64);
        let end = layer.sum(sum, down);
        let row = select(&mut layer, end, 1, -1, &[1, 64]);
        layer.builder.output(row);
        assert_eq!(fused_names(&layer.builder, &WITH_SUMS), [NAME, NAME, NAME, SQUEEZE]);
        agrees(&layer, &WITH_SUMS);
        let shortened = |name: &str| {
            let graph = crate::graph::DecodedGraph::decode_with(layer.builder.graph.clone(), &WITH_SUMS).unwrap();
            let writes = graph.nodes.iter().filter(|node| node.name == name).map(|node| node.flow.writes[0]);
            writes.filter(|&out| graph.info(out).bound[1] == 1).count()
        };
        assert_eq!(shortened(NAME), 3);
        // If the sum is an output, the linears after it are still shortened.
        layer.builder.output(sum);
        assert_eq!(fused_names(&layer.builder, &WITH_SUMS), [NAME, NAME, NAME, SQUEEZE]);
        agrees(&layer, &WITH_SUMS);
    }

    #[test]
    fn other_rows_and_other_readers_keep_all() {
        for (dim, index, dims) in
            [(1, 0, [1, 12]), (1, 19, [1, 12]), (0, -1, [LayerBuilder::ROWS, 12]), (2, -1, [1, LayerBuilder::ROWS])]
        {
            let mut layer = LayerBuilder::new(64);
            let product = layer.linear(layer.x, 12);
            let row = select(&mut layer, product, dim, index, &dims);
            layer.builder.output(row);
            assert_eq!(fused_names(&layer.builder, &ONLY), [LINEAR, SELECT]);
        }
        let mut output = LayerBuilder::new(64);
        let product = output.linear(output.x, 12);
        let row = select(&mut output, product, 1, -1, &[1, 12]);
        [row, product].into_iter().for_each(|value| output.builder.output(value));
        assert_eq!(fused_names(&output.builder, &ONLY), [LINEAR, SELECT]);

        let mut read = LayerBuilder::new(64);
        let product = read.linear(read.x, 12);
        let row = select(&mut read, product, 1, -1, &[1, 12]);
        let all = read.unary("aten.sigmoid.default", product);
        [row, all].into_iter().for_each(|value| read.builder.output(value));
        assert_eq!(fused_names(&read.builder, &ONLY), [LINEAR, SELECT, "aten.sigmoid.default"]);
    }
}
