//! Copies that change nothing: clones, broadcasts to the same dims, products with 1, and casts between types that the GPU holds alike, such as `bfloat16` and `float32`. Their readers
//! read the tensor before them.

use std::collections::HashMap;

use super::super::editor::Editor;
use super::super::operators::{self, Binary};
use super::constant_scalar;
use crate::graph::{Node, Role};
use crate::ir::{Call, Value, ValueId};
use crate::live::TensorId;
use crate::ops::copy::CopyKind;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    let mut before: HashMap<ValueId, ValueId> = HashMap::new();
    let mut kept = Vec::with_capacity(editor.graph.nodes.len());
    for (index, node) in editor.nodes() {
        match unchanged(editor, node).filter(|&(from, out)| is_redundant(editor, from, out)) {
            Some((from, out)) => {
                let first = before.get(&ValueId(from.0)).copied().unwrap_or(ValueId(from.0));
                before.insert(ValueId(out.0), first);
            }
            None => kept.push(index),
        }
    }
    if before.is_empty() {
        return;
    }
    let calls: Vec<Call> = kept.into_iter().map(|index| editor.graph.source.calls[index].clone()).collect();
    let calls = calls.into_iter().map(|call| renamed(editor, call, &before)).collect();
    editor.rewrite(calls);
}

/// The tensors of a copy of all elements with the same dims.
fn unchanged(editor: &Editor<'_>, node: &Node) -> Option<(TensorId, TensorId)> {
    match operators::copy(node) {
        Some((copy, CopyKind::Same)) => Some((copy.from, copy.out)),
        Some((copy, CopyKind::Expanded(_))) if editor.dims.same(copy.from, copy.out) => Some((copy.from, copy.out)),
        Some(_) => None,
        None => operators::cast(node).or_else(|| times_one(editor, node)),
    }
}

/// The tensors of a product with 1, such as the scale of rotary tables that are not scaled.
fn times_one(editor: &Editor<'_>, node: &Node) -> Option<(TensorId, TensorId)> {
    let Binary { inputs: [a, b], out } = operators::mul(node)?;
    let one = |tensor| constant_scalar(editor, tensor) == Some(1.0);
    let x = if one(b) { a } else { one(a).then_some(b)? };
    editor.dims.same(x, out).then_some((x, out))
}

/// Whether the readers of a copy may read the tensor before it.
fn is_redundant(editor: &Editor<'_>, from: TensorId, out: TensorId) -> bool {
    let mutated = [from, out].iter().any(|&tensor| editor.uses.is_mutated(tensor));
    let state = matches!(editor.graph.role(from), Role::State(_));
    !mutated && !state && !editor.uses.is_output(out) && editor.graph.info(from) == editor.graph.info(out)
}

/// A call with its arguments renamed. Lists are copied: other calls may share them.
fn renamed(editor: &mut Editor<'_>, mut call: Call, names: &HashMap<ValueId, ValueId>) -> Call {
    for arg in &mut call.args {
        if let Some(&name) = names.get(arg) {
            *arg = name;
        } else if let Some(Value::ValueList(ids)) = editor.source.value(*arg)
            && ids.iter().any(|id| names.contains_key(id))
        {
            let ids = ids.iter().map(|id| names.get(id).copied().unwrap_or(*id)).collect();
            *arg = editor.source.add(Value::ValueList(ids));
        }
    }
    call
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LayerBuilder, agree, fused_names};
    use crate::ir::{DataType, Value};

    const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };
    const CAST: &str = "aten._to_copy.default";

    #[test]
    fn casts_and_clones_that_change_nothing_are_skipped() {
        let mut layer = LayerBuilder::new(64);
        let none = layer.builder.value(Value::Null);
        let dims = [1, LayerBuilder::ROWS, 64];
        let half = layer.builder.tensor(DataType::Float16, &dims);
        layer.builder.call(CAST, &[layer.x, none, none, none, none, none, none, half]);
        let copy = layer.builder.tensor(DataType::Float16, &dims);
        layer.builder.call("aten.clone.default", &[half, none, copy]);
        let one = layer.builder.floats(&[1], &[1.0]);
        let scaled = layer.product(one, copy);
        let negated = layer.unary("aten.neg.default", scaled);
        let sum = layer.sum(negated, half);
        // Booleans are other numbers.
        let truth = layer.builder.tensor(DataType::Bool, &dims);
        layer.builder.call(CAST, &[sum, none, none, none, none, none, none, truth]);
        [sum, truth].into_iter().for_each(|value| layer.builder.output(value));
        assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.neg.default", "aten.add.Tensor", CAST]);
        agree(&layer.builder, &ONLY, &layer.calls());
        // An output keeps its own tensor.
        layer.builder.output(copy);
        assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.clone.default", "aten.neg.default", "aten.add.Tensor", CAST]);
        agree(&layer.builder, &ONLY, &layer.calls());
    }
}
