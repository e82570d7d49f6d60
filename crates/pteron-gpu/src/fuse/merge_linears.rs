//! Linears with one input, such as the projections of Q, K and V: two or three become one call, at the position of the first, with
//! their outputs in order.

use std::collections::HashMap;

use super::editor::Editor;
use crate::live::TensorId;
use crate::ops::fused_linear::FusedLinear;

/// The most outputs of one call.
const MAX_OUTPUTS: usize = 3;

/// The most linears with the same input that are tried. Those of a model are adjacent.
const MAX_CANDIDATES: usize = 16;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut by_input: HashMap<TensorId, Vec<(usize, FusedLinear)>> = HashMap::new();
    let mut firsts = Vec::new();
    for (index, node) in editor.nodes() {
        let Some(linear) = FusedLinear::of(node) else { continue };
        let same_input = by_input.entry(linear.x).or_default();
        firsts.push((linear.x, same_input.len()));
        same_input.push((index, linear));
    }
    for (input, position) in firsts {
        let Some(((first, linear), later)) = by_input[&input][position..].split_first() else { continue };
        if editor.is_removed(*first) {
            continue;
        }
        let (mut all, mut calls) = (linear.clone(), vec![*first]);
        for (index, next) in later.iter().take(MAX_CANDIDATES) {
            if calls.len() == MAX_OUTPUTS {
                break;
            }
            if editor.is_removed(*index) {
                continue;
            }
            let Some(merged) = all.clone().merged(next) else { continue };
            if editor.accepts(&merged) {
                all = merged;
                calls.push(*index);
            }
        }
        if calls.len() > 1 {
            editor.replace(&calls, *first, &all);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LINEAR, LayerBuilder, agree, fused_names};
    use crate::ops::fused_linear::NAME;

    const ONLY: Fusions = Fusions { merge_linears: true, ..Fusions::NONE };

    /// Linears of these widths on one input, each an output of the graph.
    fn layer(widths: &[u32]) -> LayerBuilder {
        let mut layer = LayerBuilder::new(64);
        for &n in widths {
            let out = layer.linear(layer.x, n);
            layer.builder.output(out);
        }
        layer
    }

    #[test]
    fn up_to_three_become_one_call_in_the_order_of_the_file() {
        for (widths, names) in [
            (&[8, 12][..], vec![NAME]),
            (&[8, 4, 12], vec![NAME]),
            (&[8, 4, 12, 16], vec![NAME, LINEAR]),
            (&[8, 4, 12, 16, 20], vec![NAME, NAME]),
        ] {
            let layer = layer(widths);
            assert_eq!(fused_names(&layer.builder, &ONLY), names);
            agree(&layer.builder, &ONLY, &layer.calls());
        }
    }

    #[test]
    fn calls_between_merged_linears_keep_their_order() {
        let mut layer = LayerBuilder::new(64);
        let first = layer.linear(layer.x, 8);
        let between = layer.unary("aten.neg.default", first);
        let second = layer.linear(layer.x, 8);
        let sum = layer.sum(between, second);
        layer.builder.output(sum);
        assert_eq!(fused_names(&layer.builder, &ONLY), [NAME, "aten.neg.default", "aten.add.Tensor"]);
        agree(&layer.builder, &ONLY, &layer.calls());
        let graph = crate::graph::DecodedGraph::decode_with(layer.builder.graph.clone(), &ONLY).unwrap();
        assert_eq!(graph.nodes.iter().map(|node| node.call).collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
    }

    #[test]
    fn other_inputs_groups_rows_and_widths_stay_apart() {
        let mut inputs = layer(&[8]);
        let other = inputs.unary("aten.neg.default", inputs.x);
        let out = inputs.linear(other, 8);
        inputs.builder.output(out);
        assert_eq!(fused_names(&inputs.builder, &ONLY), [LINEAR, "aten.neg.default", LINEAR]);

        let mut groups = layer(&[8]);
        groups.group = 64;
        let out = groups.linear(groups.x, 8);
        groups.builder.output(out);
        assert_eq!(fused_names(&groups.builder, &ONLY), [LINEAR, LINEAR]);

        // Three that could be merged if one did not have an odd width.
        let odd = layer(&[8, 10, 12]);
        assert_eq!(fused_names(&odd.builder, &ONLY), [NAME, LINEAR]);
        agree(&odd.builder, &ONLY, &odd.calls());
    }

    #[test]
    fn rows_of_other_lengths_in_memory_are_merged() {
        let mut strides = layer(&[8]);
        strides.padding = 16;
        let out = strides.linear(strides.x, 8);
        strides.builder.output(out);
        assert_eq!(fused_names(&strides.builder, &ONLY), [NAME]);
        agree(&strides.builder, &ONLY, &strides.calls());
    }

    #[test]
    fn merged_weights_stay_within_one_binding() {
        let layer = layer(&[8, 12, 4]);
        // Each has a tile of 512 bytes of scales, and a bias: 32, 48 and 16 bytes.
        for (largest, names) in
            [(1632, vec![NAME]), (1631, vec![NAME, LINEAR]), (1104, vec![NAME, LINEAR]), (1071, vec![LINEAR; 3])]
        {
            assert_eq!(fused_names(&layer.builder, &ONLY.within(largest)), names, "{largest} bytes");
        }
    }

    #[test]
    fn weights_that_are_no_constants_stay_apart() {
        let mut inputs = LayerBuilder::new(64);
        inputs.from_outside = true;
        for _ in 0..2 {
            let out = inputs.linear(inputs.x, 8);
            inputs.builder.output(out);
        }
        assert_eq!(fused_names(&inputs.builder, &ONLY), [LINEAR; 2]);
    }
}
