//! A residual sum with the output of a linear becomes part of the linear's call, at the position of the sum.

use super::editor::Editor;
use super::operators::{self, Binary};
use crate::live::TensorId;
use crate::ops::fused_linear::FusedLinear;

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
    // The sum has the dims of the addend, however the rows of the product are grouped.
    let (linear_out, mut calls) = editor.before_views_of_rows(product);
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
    use crate::fuse::tests::{LINEAR, LayerBuilder, agree, fused_names};
    use crate::ir::{DataType, Value};
    use crate::ops::fused_linear::NAME;

    const ONLY: Fusions = Fusions { residual: true, ..Fusions::NONE };
    const ADD: &str = "aten.add.Tensor";

    #[test]
    fn a_sum_becomes_part_of_the_linear() {
        for (turned, viewed) in [(false, true), (true, false)] {
            let mut layer = LayerBuilder::new(64);
            let product = layer.linear(layer.x, 64);
            let product = if viewed { layer.view(product, 64) } else { product };
            // The addend may be computed after the linear.
            let addend = layer.unary("aten.neg.default", layer.x);
            let addend = layer.view(addend, 64);
            let sum = if turned { layer.sum(product, addend) } else { layer.sum(addend, product) };
            layer.builder.output(sum);
            let names = fused_names(&layer.builder, &ONLY);
            assert_eq!((names.last(), names.contains(&LINEAR), names.contains(&ADD)), (Some(&NAME), false, false));
            agree(&layer.builder, &ONLY, &layer.calls());
        }
    }

    #[test]
    fn the_input_itself_may_be_added() {
        let mut layer = LayerBuilder::new(64);
        let product = layer.linear(layer.x, 64);
        let sum = layer.sum(layer.x, product);
        layer.builder.output(sum);
        assert_eq!(fused_names(&layer.builder, &ONLY), [NAME]);
        agree(&layer.builder, &ONLY, &layer.calls());
    }

    #[test]
    fn broadcast_or_scaled_sums_are_not_fused() {
        // The bounds are equal, but in a call one of them may have a single row.
        let mut rows = LayerBuilder::new(64);
        let product = rows.linear(rows.x, 64);
        let (other, _) = rows.input();
        let sum = rows.sum(product, other);
        rows.builder.output(sum);
        assert_eq!(fused_names(&rows.builder, &ONLY), [LINEAR, ADD]);

        let mut row = LayerBuilder::new(64);
        let product = row.linear(row.x, 64);
        let other = row.builder.floats(&[64], &[0.5; 64]);
        let sum = row.sum(product, other);
        row.builder.output(sum);
        assert_eq!(fused_names(&row.builder, &ONLY), [LINEAR, ADD]);

        let mut scaled = LayerBuilder::new(64);
        let product = scaled.linear(scaled.x, 64);
        let sum = scaled.sum(scaled.x, product);
        scaled.builder.output(sum);
        let two = scaled.builder.int(2);
        scaled.builder.graph.calls.last_mut().unwrap().args[2] = two;
        assert_eq!(fused_names(&scaled.builder, &ONLY), [LINEAR, ADD]);
        let one = scaled.builder.float(1.0);
        scaled.builder.graph.calls.last_mut().unwrap().args[2] = one;
        assert_eq!(fused_names(&scaled.builder, &ONLY), [NAME]);
    }

    #[test]
    fn a_product_with_other_readers_is_not_fused() {
        let mut output = LayerBuilder::new(64);
        let product = output.linear(output.x, 64);
        let sum = output.sum(output.x, product);
        [sum, product].into_iter().for_each(|value| output.builder.output(value));
        assert_eq!(fused_names(&output.builder, &ONLY), [LINEAR, ADD]);

        let mut twice = LayerBuilder::new(64);
        let product = twice.linear(twice.x, 64);
        let sum = twice.sum(product, product);
        twice.builder.output(sum);
        assert_eq!(fused_names(&twice.builder, &ONLY), [LINEAR, ADD]);

        // The sum reads a view with other dims, not the tensor itself.
        let mut viewed = LayerBuilder::new(64);
        let product = viewed.linear(viewed.x, 64);
        let sizes = viewed.builder.value(Value::IntList(vec![1, LayerBuilder::ROWS.into(), 2, 32]));
        let halves = viewed.builder.tensor(DataType::Float32, &[1, LayerBuilder::ROWS, 2, 32]);
        viewed.builder.call("aten.view_copy.default", &[product, sizes, halves]);
        let sum = viewed.sum(halves, halves);
        viewed.builder.output(sum);
        assert!(!fused_names(&viewed.builder, &ONLY).contains(&NAME));
    }

    #[test]
    fn a_mutated_addend_is_not_fused() {
        let mut layer = LayerBuilder::new(64);
        let cache = layer.builder.floats(&[1, LayerBuilder::ROWS, 1, 64], &[0.5; LayerBuilder::ROWS as usize * 64]);
        let (zero, done) = (layer.builder.int(0), layer.builder.tensor(DataType::Float32, &[1]));
        let product = layer.linear(layer.x, 64);
        let sum = layer.builder.tensor(DataType::Float32, &[1, LayerBuilder::ROWS, 1, 64]);
        let one = layer.builder.int(1);
        let heads = layer.builder.tensor(DataType::Float32, &[1, LayerBuilder::ROWS, 1, 64]);
        let sizes = layer.builder.value(Value::IntList(vec![1, LayerBuilder::ROWS.into(), 1, 64]));
        layer.builder.call("aten.view_copy.default", &[layer.x, sizes, heads]);
        layer.builder.call("update_cache.default", &[heads, cache, zero, done]);
        let flat = layer.builder.tensor(DataType::Float32, &[1, LayerBuilder::ROWS, 1, 64]);
        layer.builder.call("aten.view_copy.default", &[product, sizes, flat]);
        layer.builder.call(ADD, &[cache, flat, one, sum]);
        layer.builder.output(sum);
        assert!(!fused_names(&layer.builder, &ONLY).contains(&NAME));
    }
}
