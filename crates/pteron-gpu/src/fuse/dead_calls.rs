//! Calls whose results nothing reads. Exporters leave some, and other fusions make some.

use super::editor::Editor;

/// Removes calls that write neither an output nor state nor anything that a call reads which stays.
pub(super) fn find(editor: &mut Editor<'_>) {
    let nodes = &editor.graph.nodes;
    let mut used = vec![false; editor.graph.tensors.len()];
    editor.graph.outputs.iter().for_each(|output| used[output.index()] = true);
    let mut kept = vec![false; nodes.len()];
    for (index, node) in editor.nodes().rev() {
        let flow = &node.flow;
        let tensors = flow.writes.iter().any(|tensor| used[tensor.index()]);
        let numbers = flow.scalar_writes.iter().any(|number| used[number.index()]);
        kept[index] = tensors || numbers || !flow.mutates.is_empty();
        if kept[index] {
            flow.reads.iter().chain(&flow.mutates).for_each(|tensor| used[tensor.index()] = true);
            flow.host_reads.iter().for_each(|tensor| used[tensor.index()] = true);
            flow.scalar_reads.iter().for_each(|number| used[number.index()] = true);
        }
    }
    if kept.iter().all(|&kept| kept) {
        return;
    }
    let calls = editor.graph.source.calls.iter().zip(&kept).filter(|(_, kept)| **kept);
    let calls = calls.map(|(call, _)| call.clone()).collect();
    editor.rewrite(calls);
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LayerBuilder, agree, fused_names};

    const ONLY: Fusions = Fusions { dead_calls: true, ..Fusions::NONE };

    #[test]
    fn calls_that_lead_to_no_output_are_removed() {
        let mut layer = LayerBuilder::new(64);
        let kept = layer.unary("aten.relu.default", layer.x);
        let unused = layer.unary("aten.exp.default", kept);
        layer.unary("aten.neg.default", unused);
        layer.builder.output(kept);
        assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.relu.default"]);
        agree(&layer.builder, &ONLY, &layer.calls());
    }

    #[test]
    fn state_is_stored_though_nothing_reads_it() {
        let mut layer = LayerBuilder::new(64);
        let kept = layer.unary("aten.relu.default", layer.x);
        let value = layer.unary("aten.exp.default", kept);
        let dims = layer.builder.graph.value(value).and_then(|value| value.as_tensor()).unwrap().dims.clone();
        let state = layer.builder.floats(&dims, &vec![0.0; dims.iter().product::<u32>() as usize]);
        layer.builder.call(crate::ops::copy::STORE, &[value, state]);
        layer.builder.output(kept);
        assert_eq!(fused_names(&layer.builder, &ONLY).len(), 3);
    }
}
