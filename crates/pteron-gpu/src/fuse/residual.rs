//! A linear whose answer is added to something of the same dims: the sum becomes part of the linear's call, which comes where
//! the sum was.

use super::def_use::tensor;
use super::editor::Editor;
use super::fused_linear::FusedLinear;
use super::same_dims::ADD;
use crate::ir::{Value, ValueId};

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, call) in editor.calls() {
        let &[a, b, alpha, out] = call.args.as_slice() else { continue };
        if call.name != ADD || !is_one(editor.graph.source.value(alpha)) {
            continue;
        }
        if !replace(editor, index, [a, b], out) {
            replace(editor, index, [b, a], out);
        }
    }
}

fn is_one(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Int(number)) => *number == 1,
        Some(Value::Double(number)) => *number == 1.0,
        _ => false,
    }
}

/// Fuses a sum with the linear that computes its first summand, if one does; whether it did.
fn replace(editor: &mut Editor<'_>, sum: usize, [product, addend]: [ValueId; 2], out: ValueId) -> bool {
    if editor.uses.only_reader(product) != Some(sum) {
        return false;
    }
    let (linear_out, mut calls) = editor.behind_views(product);
    let linear = editor.uses.writer(linear_out);
    let linears = linear.and_then(|index| FusedLinear::of(editor.graph, editor.call(index)));
    let (Some(linear), Some(linears)) = (linear, linears) else { return false };
    let bound = |value| editor.graph.info(tensor(value)).bound;
    if linears.outputs != [linear_out]
        || linears.addend.is_some()
        || !editor.sizes.same(product, addend)
        || bound(product) != bound(out)
    {
        return false;
    }
    calls.extend([linear, sum]);
    editor.replace(&calls, sum, &FusedLinear { addend: Some(addend), outputs: vec![out], ..linears })
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::fused_linear::LINEAR;
    use crate::fuse::tests::{Draft, agree, fused_names};
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
            // What is added may be computed behind the linear.
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
        // The same bound, but in a call one of them may have a single row.
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

        // A view of other dims is read by the sum, not what it looks at.
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
