//! Linears with constant weights, of 4 bits or floats, become calls of the fused operator, which packs the weights for its kernels; with rows that are
//! quantised to 8 bits, the calls that find their ranges become part of them. Other fusions extend these calls.

use super::editor::Editor;
use crate::ops::fused_linear::FusedLinear;

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut ranges = Vec::new();
    for (index, node) in editor.nodes() {
        if let Some(linear) = FusedLinear::plain(node) {
            editor.replace(&[index], index, &linear);
        } else if let Some((range, linear)) = FusedLinear::quantised(editor, node)
            && editor.replace(&[index], index, &linear)
        {
            ranges.push(range);
        }
    }
    // Another call may read a range, too.
    ranges.dedup();
    editor.remove_dead(ranges);
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LINEAR, LINEAR_8BIT, LayerBuilder, RANGES, agree, fused_names};
    use crate::ops::fused_linear::NAME;

    const ONLY: Fusions = Fusions { pack_linears: true, ..Fusions::NONE };

    #[test]
    fn a_linear_alone_is_packed() {
        for quantised in [false, true] {
            let mut layer = LayerBuilder::new(64);
            layer.quantised = quantised;
            let out = layer.linear(layer.x, 12);
            layer.builder.output(out);
            assert_eq!(fused_names(&layer.builder, &ONLY), [NAME]);
            agree(&layer.builder, &ONLY, &layer.calls());
        }
    }

    #[test]
    fn ranges_that_others_read_stay() {
        let mut layer = LayerBuilder::new(64);
        let ranges = layer.ranges(layer.x);
        for n in [12, 10, 8] {
            let out = layer.linear_of_ranges(layer.x, n, ranges);
            layer.builder.output(out);
        }
        // Weights of ten rows do not qualify, and still need the ranges.
        assert_eq!(fused_names(&layer.builder, &ONLY), [RANGES, NAME, LINEAR_8BIT, NAME]);
        agree(&layer.builder, &ONLY, &layer.calls());
        let mut output = LayerBuilder::new(64);
        let ranges = output.ranges(output.x);
        let out = output.linear_of_ranges(output.x, 12, ranges);
        [out, ranges[0]].into_iter().for_each(|value| output.builder.output(value));
        assert_eq!(fused_names(&output.builder, &ONLY), [RANGES, NAME]);
    }

    #[test]
    fn ranges_of_other_rows_are_not_those_of_the_input() {
        let mut layer = LayerBuilder::new(64);
        let other = layer.unary("aten.neg.default", layer.x);
        let ranges = layer.ranges(other);
        let out = layer.linear_of_ranges(layer.x, 12, ranges);
        layer.builder.output(out);
        assert_eq!(fused_names(&layer.builder, &ONLY), ["aten.neg.default", RANGES, LINEAR_8BIT]);
        // Half a row per block, and unsigned bytes.
        for (block, [low, high]) in [(32, [-128, 127]), (64, [0, 127])] {
            let mut layer = LayerBuilder::new(64);
            let ranges = layer.ranges_of(layer.x, block, [low, high]);
            let out = layer.linear_of_ranges(layer.x, 12, ranges);
            layer.builder.output(out);
            let names = fused_names_unplanned(&layer);
            assert_eq!(names, [RANGES, LINEAR_8BIT], "blocks of {block} from {low}");
        }
    }

    fn fused_names_unplanned(layer: &LayerBuilder) -> Vec<&'static str> {
        fused_names(&layer.builder, &ONLY)
    }

    #[test]
    fn every_fusion_takes_quantised_rows() {
        let mut layer = LayerBuilder::new(64);
        layer.quantised = true;
        let normed = layer.norm(layer.x);
        for n in [64, 32, 32] {
            let out = layer.linear(normed, n);
            layer.builder.output(out);
        }
        let normed = layer.norm(layer.x);
        let gate = layer.linear(normed, 64);
        let gate = layer.view(gate, 64);
        let sigmoid = layer.unary("aten.sigmoid.default", gate);
        let silu = layer.product(gate, sigmoid);
        let up = layer.linear(normed, 64);
        let gated = layer.product(silu, up);
        let down = layer.linear(gated, 64);
        let sum = layer.sum(layer.x, down);
        layer.builder.output(sum);
        // Three with a norm, both factors of SwiGLU with a norm, and one with a sum.
        assert_eq!(fused_names(&layer.builder, &Fusions::ALL), [NAME; 3]);
        agree(&layer.builder, &Fusions::ALL, &layer.calls());
        // Rows that are quantised and rows that are not stay apart.
        let mut mixed = LayerBuilder::new(64);
        for quantised in [false, true] {
            mixed.quantised = quantised;
            let out = mixed.linear(mixed.x, 8);
            mixed.builder.output(out);
        }
        assert_eq!(fused_names(&mixed.builder, &Fusions::ALL), [NAME; 2]);
        assert_eq!(
            fused_names(&mixed.builder, &Fusions { pack_linears: false, ..Fusions::ALL }),
            [LINEAR, RANGES, LINEAR_8BIT]
        );
    }
}
