//! A residual sum with the output of a linear becomes part of the linear's call, at the position of the sum.

use super::editor::Editor;
use super::operators::{self, Binary};
use crate::live::TensorId;
use crate::ops::fused_linear_q4gsw::FusedLinear;

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some((Binary { inputs: [a, b], out }, alpha)) = operators::add(node) else { continue };
        if alpha != 1.0 {
            continue;
        }
        if !replace(editor, index, [a, b], out) {
            replace(editor, index, [b, a], out);
        }
    }
}

/// Fuses a sum with the linear that computes its first summand, if one does. Returns whether it did.
fn replace(editor: &mut Editor<'_>, sum: usize, [product, addend]: [TensorId; 2], out: TensorId) -> bool {
    if editor.uses.only_reader(product) != Some(sum) {
        return false;
    }
    let (linear_out, mut calls) = editor.before_views(product);
    let writer = editor.writing_node(linear_out);
    let Some((index, linear)) = writer.and_then(|(index, node)| Some((index, FusedLinear::of(node)?))) else {
        return false;
    };
    let bound = |tensor| editor.graph.info(tensor).bound;
    if linear.outputs != [linear_out]
        || linear.addend.is_some()
        || !editor.dims.same(product, addend)
        || bound(product) != bound(out)
    {
        return false;
    }
    calls.extend([index, sum]);
    editor.replace(&calls, sum, &FusedLinear { addend: Some(addend), outputs: vec![out], ..linear })
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{Draft, LINEAR, agree, fused_names};
    use crate::ir::{DataType, Value};
    use crate::ops::fused_linear_q4gsw::NAME;

    const ONLY: Fusions = Fusions { residual: true, ..Fusions::NONE };
    const ADD: &str = "aten.add.Tensor";

    #[test]
    fn a_sum_becomes_part_of_the_linear() {
        for (turned, viewed) in [(false, true), (true, false)] {
            let mut draft = Draft::new(64);
            let product = draft.linear(draft.x, 64);
            let product = if viewed { draft.view(product, 64) } else { product };
            // The addend may be computed after the linear.
            let addend = draft.unary("aten.neg.default", draft.x);
            let addend = draft.view(addend, 64);
            let sum = if turned { draft.sum(product, addend) } else { draft.sum(addend, product) };
            draft.sketch.output(sum);
            let names = fused_names(&draft.sketch, &ONLY);
            assert_eq!((names.last(), names.contains(&LINEAR), names.contains(&ADD)), (Some(&NAME), false, false));
            agree(&draft.sketch, &ONLY, &draft.calls());
        }
    }

    #[test]
    fn the_input_itself_may_be_added() {
        let mut draft = Draft::new(64);
        let product = draft.linear(draft.x, 64);
        let sum = draft.sum(draft.x, product);
        draft.sketch.output(sum);
        assert_eq!(fused_names(&draft.sketch, &ONLY), [NAME]);
        agree(&draft.sketch, &ONLY, &draft.calls());
    }

    #[test]
    fn what_may_be_repeated_or_scaled_stays_apart() {
        // The bounds are equal, but in a call one of them may have a single row.
        let mut rows = Draft::new(64);
        let product = rows.linear(rows.x, 64);
        let (other, _) = rows.input();
        let sum = rows.sum(product, other);
        rows.sketch.output(sum);
        assert_eq!(fused_names(&rows.sketch, &ONLY), [LINEAR, ADD]);

        let mut row = Draft::new(64);
        let product = row.linear(row.x, 64);
        let other = row.sketch.floats(&[64], &[0.5; 64]);
        let sum = row.sum(product, other);
        row.sketch.output(sum);
        assert_eq!(fused_names(&row.sketch, &ONLY), [LINEAR, ADD]);

        let mut scaled = Draft::new(64);
        let product = scaled.linear(scaled.x, 64);
        let sum = scaled.sum(scaled.x, product);
        scaled.sketch.output(sum);
        let two = scaled.sketch.int(2);
        scaled.sketch.graph.calls.last_mut().unwrap().args[2] = two;
        assert_eq!(fused_names(&scaled.sketch, &ONLY), [LINEAR, ADD]);
        let one = scaled.sketch.float(1.0);
        scaled.sketch.graph.calls.last_mut().unwrap().args[2] = one;
        assert_eq!(fused_names(&scaled.sketch, &ONLY), [NAME]);
    }

    #[test]
    fn what_others_read_stays_apart() {
        let mut output = Draft::new(64);
        let product = output.linear(output.x, 64);
        let sum = output.sum(output.x, product);
        [sum, product].into_iter().for_each(|value| output.sketch.output(value));
        assert_eq!(fused_names(&output.sketch, &ONLY), [LINEAR, ADD]);

        let mut twice = Draft::new(64);
        let product = twice.linear(twice.x, 64);
        let sum = twice.sum(product, product);
        twice.sketch.output(sum);
        assert_eq!(fused_names(&twice.sketch, &ONLY), [LINEAR, ADD]);

        // The sum reads a view with other dims, not the tensor itself.
        let mut viewed = Draft::new(64);
        let product = viewed.linear(viewed.x, 64);
        let sizes = viewed.sketch.value(Value::IntList(vec![1, Draft::ROWS.into(), 2, 32]));
        let halves = viewed.sketch.tensor(DataType::Float32, &[1, Draft::ROWS, 2, 32]);
        viewed.sketch.call("aten.view_copy.default", &[product, sizes, halves]);
        let sum = viewed.sum(halves, halves);
        viewed.sketch.output(sum);
        assert!(!fused_names(&viewed.sketch, &ONLY).contains(&NAME));
    }

    #[test]
    fn what_changes_in_place_stays_apart() {
        let mut draft = Draft::new(64);
        let cache = draft.sketch.floats(&[1, Draft::ROWS, 1, 64], &[0.5; Draft::ROWS as usize * 64]);
        let (zero, done) = (draft.sketch.int(0), draft.sketch.tensor(DataType::Float32, &[1]));
        let product = draft.linear(draft.x, 64);
        let sum = draft.sketch.tensor(DataType::Float32, &[1, Draft::ROWS, 1, 64]);
        let one = draft.sketch.int(1);
        let heads = draft.sketch.tensor(DataType::Float32, &[1, Draft::ROWS, 1, 64]);
        let sizes = draft.sketch.value(Value::IntList(vec![1, Draft::ROWS.into(), 1, 64]));
        draft.sketch.call("aten.view_copy.default", &[draft.x, sizes, heads]);
        draft.sketch.call("update_cache.default", &[heads, cache, zero, done]);
        let flat = draft.sketch.tensor(DataType::Float32, &[1, Draft::ROWS, 1, 64]);
        draft.sketch.call("aten.view_copy.default", &[product, sizes, flat]);
        draft.sketch.call(ADD, &[cache, flat, one, sum]);
        draft.sketch.output(sum);
        assert!(!fused_names(&draft.sketch, &ONLY).contains(&NAME));
    }
}
