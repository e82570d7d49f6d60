//! FusedLinear of whose answer only the last row is read, as before the logits: they compute that row alone, and so do those before
//! them that only they read. The row needs no selecting then.

use super::def_use::tensor;
use super::editor::Editor;
use super::fused_linear::FusedLinear;
use crate::args::normalise;
use crate::ir::{Call, Value, ValueId};
use crate::ops::copy;

const SELECT: &str = "aten.select_copy.int";
const SQUEEZE: &str = "aten.squeeze_copy.dims";
/// The dimension of rows in `[1, rows, columns]`.
const ROWS: usize = 1;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut selects = Vec::new();
    // From the end: which rows of an answer are read is known when those who read it are.
    let mut short = vec![false; editor.graph.nodes.len()];
    for index in (0..editor.graph.nodes.len()).rev() {
        let Some(linears) = FusedLinear::of(editor.graph, editor.call(index)) else { continue };
        let &[out] = linears.outputs.as_slice() else { continue };
        let reads_last = |&reader: &usize| is_last_row(editor, reader) || (short[reader] && reads_rows(editor, reader, out));
        let readers = editor.uses.readers_within(out);
        if readers.is_empty() || !readers.iter().all(reads_last) || ![out, linears.x].iter().all(|x| has_rows(editor, *x)) {
            continue;
        }
        selects.extend(readers.iter().copied().filter(|&reader| is_last_row(editor, reader)));
        if editor.replace(&[index], index, &FusedLinear { last: true, ..linears }) {
            editor.shorten(out, ROWS);
            short[index] = true;
        }
    }
    for select in selects {
        let &[x, dim, _, out] = editor.call(select).args.as_slice() else { continue };
        if editor.uses.writer(x).is_some_and(|writer| short[writer]) {
            let dims = editor.list(vec![dim]);
            let squeeze = Call::new(&copy::DEF, SQUEEZE, vec![x, dims, out]);
            editor.replace_with(&[select], select, squeeze, &copy::DEF);
        }
    }
}

/// Whether a tensor is the rows of one batch.
fn has_rows(editor: &Editor<'_>, value: ValueId) -> bool {
    matches!(*editor.graph.info(tensor(value)).bound, [1, _, _])
}

/// Whether a call selects the last of the rows of one batch.
fn is_last_row(editor: &Editor<'_>, call: usize) -> bool {
    let call = editor.call(call);
    let number = |value: ValueId| match editor.graph.source.value(value) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    match *call.args.as_slice() {
        [x, dim, index, _] if call.name == SELECT => {
            let rows = number(dim).and_then(|dim| normalise(dim, 3)) == Some(ROWS);
            rows && number(index) == Some(-1) && has_rows(editor, x)
        }
        _ => false,
    }
}

/// Whether a call of linears reads a value as rows and as nothing else.
fn reads_rows(editor: &Editor<'_>, call: usize, value: ValueId) -> bool {
    let linears = FusedLinear::of(editor.graph, editor.call(call));
    linears.is_some_and(|linears| linears.norm.is_none_or(|(weight, _)| weight != value))
}

#[cfg(test)]
mod tests {
    use super::{SELECT, SQUEEZE};
    use crate::fuse::Fusions;
    use crate::fuse::fused_linear::LINEAR;
    use crate::fuse::tests::{Draft, agree, fused_names};
    use crate::ir::{DataType, ValueId};
    use crate::ops::fused_linear_q4gsw::NAME;

    const ONLY: Fusions = Fusions { last_row: true, ..Fusions::NONE };
    const WITH_SUMS: Fusions = Fusions { residual: true, norm: true, swiglu: true, ..ONLY };

    /// The row of a value at an index of a dimension.
    fn select(draft: &mut Draft, x: ValueId, dim: i64, index: i64, dims: &[u32]) -> ValueId {
        let (dim, index) = (draft.sketch.int(dim), draft.sketch.int(index));
        let out = draft.sketch.tensor(DataType::Float32, dims);
        draft.sketch.call(SELECT, &[x, dim, index, out]);
        out
    }

    /// Compares calls of some rows: of none there is no last one.
    fn agrees(draft: &Draft, fusions: &Fusions) {
        let calls: Vec<_> = draft.calls().into_iter().filter(|call| call[0].dims.count() > 0).collect();
        agree(&draft.sketch, fusions, &calls);
    }

    #[test]
    fn a_linear_computes_the_row_that_is_selected() {
        for dim in [1, -2] {
            let mut draft = Draft::new(64);
            let product = draft.linear(draft.x, 12);
            let row = select(&mut draft, product, dim, -1, &[1, 12]);
            draft.sketch.output(row);
            assert_eq!(fused_names(&draft.sketch, &ONLY), [NAME, SQUEEZE]);
            agrees(&draft, &ONLY);
        }
    }

    #[test]
    fn so_do_those_before_it() {
        let mut draft = Draft::new(64);
        let first = draft.linear(draft.x, 64);
        let sum = draft.sum(draft.x, first);
        let normed = draft.norm(sum);
        let (gate, up) = (draft.linear(normed, 64), draft.linear(normed, 64));
        let sigmoid = draft.unary("aten.sigmoid.default", gate);
        let silu = draft.product(gate, sigmoid);
        let gated = draft.product(silu, up);
        let down = draft.linear(gated, 64);
        let end = draft.sum(sum, down);
        let row = select(&mut draft, end, 1, -1, &[1, 64]);
        draft.sketch.output(row);
        assert_eq!(fused_names(&draft.sketch, &WITH_SUMS), [NAME, NAME, NAME, SQUEEZE]);
        agrees(&draft, &WITH_SUMS);
        let shortened = |name: &str| {
            let graph = crate::graph::Graph::decode_with(draft.sketch.graph.clone(), &WITH_SUMS).unwrap();
            let writes = graph.nodes.iter().filter(|node| node.name == name).map(|node| node.flow.writes[0]);
            writes.filter(|&out| graph.info(out).bound[1] == 1).count()
        };
        assert_eq!(shortened(NAME), 3);
        // With the sum read from outside, those behind it still do.
        draft.sketch.output(sum);
        assert_eq!(fused_names(&draft.sketch, &WITH_SUMS), [NAME, NAME, NAME, SQUEEZE]);
        agrees(&draft, &WITH_SUMS);
    }

    #[test]
    fn other_rows_and_other_readers_keep_all() {
        for (dim, index, dims) in [(1, 0, [1, 12]), (1, 19, [1, 12]), (0, -1, [Draft::ROWS, 12]), (2, -1, [1, Draft::ROWS])]
        {
            let mut draft = Draft::new(64);
            let product = draft.linear(draft.x, 12);
            let row = select(&mut draft, product, dim, index, &dims);
            draft.sketch.output(row);
            assert_eq!(fused_names(&draft.sketch, &ONLY), [LINEAR, SELECT]);
        }
        let mut output = Draft::new(64);
        let product = output.linear(output.x, 12);
        let row = select(&mut output, product, 1, -1, &[1, 12]);
        [row, product].into_iter().for_each(|value| output.sketch.output(value));
        assert_eq!(fused_names(&output.sketch, &ONLY), [LINEAR, SELECT]);

        let mut read = Draft::new(64);
        let product = read.linear(read.x, 12);
        let row = select(&mut read, product, 1, -1, &[1, 12]);
        let all = read.unary("aten.sigmoid.default", product);
        [row, all].into_iter().for_each(|value| read.sketch.output(value));
        assert_eq!(fused_names(&read.sketch, &ONLY), [LINEAR, SELECT, "aten.sigmoid.default"]);
    }
}
