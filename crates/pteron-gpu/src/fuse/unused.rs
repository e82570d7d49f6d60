//! Calls whose results nothing reads are removed, with those that only they read: exporters leave behind, for example, the selections of
//! a position from which a symbolic number was made. Calls that compute symbols stay; they take no dispatch, and check their inputs.

use std::collections::HashSet;

use super::editor::Editor;
use crate::live::TensorId;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut read: HashSet<TensorId> = HashSet::new();
    let mut kept = Vec::with_capacity(editor.graph.nodes.len());
    for (index, node) in editor.nodes().rev() {
        let flow = &node.flow;
        let is_read = |tensor: &TensorId| read.contains(tensor) || editor.uses.is_output(*tensor);
        let has_effect = flow.writes.is_empty() || !flow.mutates.is_empty() || !flow.scalar_writes.is_empty();
        if has_effect || flow.writes.iter().any(is_read) {
            read.extend(flow.reads.iter().chain(&flow.mutates));
            kept.push(index);
        }
    }
    if kept.len() < editor.graph.nodes.len() {
        let calls = kept.into_iter().rev().map(|index| editor.graph.source.calls[index].clone()).collect();
        editor.rewrite(calls);
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LayerBuilder, agree, fused_names};
    use crate::ir::{DataType, Value};

    const ONLY: Fusions = Fusions { unused: true, ..Fusions::NONE };
    const NEG: &str = "aten.neg.default";

    #[test]
    fn results_that_nothing_reads_are_not_computed() {
        let mut layer = LayerBuilder::new(64);
        let first = layer.unary("aten.sigmoid.default", layer.x);
        layer.unary("aten.sqrt.default", first);
        let used = layer.unary(NEG, layer.x);
        layer.builder.output(used);
        assert_eq!(fused_names(&layer.builder, &ONLY), [NEG]);
        agree(&layer.builder, &ONLY, &layer.calls());
        // An output needs what it is computed from.
        layer.builder.output(first);
        assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.sigmoid.default", NEG]);
    }

    #[test]
    fn calls_that_change_state_or_compute_symbols_stay() {
        let mut layer = LayerBuilder::new(64);
        let [zero, one] = [0, 1].map(|number| layer.builder.int(number));
        let symbol = layer.builder.value(Value::SymInt);
        layer.builder.call("sym_size.int", &[layer.x, one, symbol]);
        let cache = layer.builder.floats(&[1, 4, 1, 64], &[0.5; 256]);
        let row = layer.builder.floats(&[1, 1, 1, 64], &[0.25; 64]);
        let done = layer.builder.tensor(DataType::Float32, &[1]);
        layer.builder.call("update_cache.default", &[row, cache, zero, done]);
        let used = layer.unary(NEG, layer.x);
        layer.builder.output(used);
        assert_eq!(fused_names(&layer.builder, &ONLY), ["sym_size.int", "update_cache.default", NEG]);
    }
}
