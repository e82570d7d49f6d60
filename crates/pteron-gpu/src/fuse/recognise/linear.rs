//! Products of rows with a transposed constant, which exporters write for linears: `mm(x, wᵀ)` and `addmm(bias, x, wᵀ)`.

use super::super::editor::Editor;
use super::super::operators;
use crate::graph::Role;
use crate::live::TensorId;
use crate::ops::copy::CopyKind;
use crate::ops::linear;
use crate::ops::mm::Mm;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    let mut transposes = Vec::new();
    for (index, node) in editor.nodes() {
        let Some(product) = node.op.downcast().and_then(Mm::of_rows) else { continue };
        let Some((transpose, weight)) = transposed_constant(editor, product.b) else { continue };
        let columns = editor.graph.info(weight).bound.first().copied();
        let fits = |bias: TensorId| {
            let bound = editor.graph.info(bias).bound;
            editor.dims.is_fixed(bias) && Some(bound.last()) == columns && bound.len() == 1
        };
        if product.addend.is_some_and(|bias| !fits(bias)) {
            continue;
        }
        let call = linear::call(&mut editor.source, product.x, weight, product.addend, product.out);
        if editor.replace_with(&[index], index, call) {
            transposes.push(transpose);
        }
    }
    transposes.sort_unstable();
    transposes.dedup();
    editor.remove_dead(transposes);
}

/// The call that transposes a constant matrix, and the constant.
fn transposed_constant(editor: &Editor<'_>, tensor: TensorId) -> Option<(usize, TensorId)> {
    let (index, node) = editor.writing_node(tensor)?;
    let (copy, CopyKind::Permute([1, 0])) = operators::copy(node)? else { return None };
    matches!(editor.graph.role(copy.from), Role::Constant(_)).then_some((index, copy.from))
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{FLOAT_LINEAR, LayerBuilder, agree, fused_names};
    use crate::ir::{DataType, Value};
    use crate::testing::noise;

    const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };

    /// A product of flat rows with a transposed constant, and an addend of these dims with this factor.
    fn layer(addend: Option<(&[u32], f64)>) -> LayerBuilder {
        let mut layer = LayerBuilder::new(64);
        let flat = layer.flat(layer.x, 64);
        let builder = &mut layer.builder;
        let weight = builder.floats(&[12, 64], &noise(5, 12 * 64));
        let order = builder.value(Value::IntList(vec![1, 0]));
        let turned = builder.tensor(DataType::Float32, &[64, 12]);
        builder.call("aten.permute_copy.default", &[weight, order, turned]);
        let out = builder.tensor(DataType::Float32, &[LayerBuilder::ROWS, 12]);
        match addend {
            None => builder.call("aten.mm.default", &[flat, turned, out]),
            Some((dims, beta)) => {
                let count = dims.iter().product::<u32>() as usize;
                let bias = builder.floats(dims, &noise(6, count));
                let (beta, alpha) = (builder.float(beta), builder.int(1));
                builder.call("aten.addmm.default", &[bias, flat, turned, beta, alpha, out]);
            }
        }
        builder.output(out);
        layer
    }

    #[test]
    fn products_with_transposed_constants_are_linears() {
        for addend in [None, Some((&[12][..], 1.0)), Some((&[12][..], 0.0))] {
            let layer = layer(addend);
            assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.view_copy.default", FLOAT_LINEAR]);
            agree(&layer.builder, &ONLY, &layer.calls());
        }
    }

    #[test]
    fn addends_that_are_no_bias_stay() {
        for addend in [(&[12][..], 2.0), (&[1, 12], 1.0), (&[1], 1.0)] {
            assert!(!fused_names(&layer(Some(addend)).builder, &ONLY).contains(&FLOAT_LINEAR));
        }
    }
}
