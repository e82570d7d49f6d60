//! An RMS norm that one linear alone reads becomes part of that linear's call.

use super::editor::Editor;
use crate::ops::fused_linear::FusedLinear;
use crate::ops::rms_norm::RmsNorm;

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(&RmsNorm { x, weight, eps, out }) = node.op.downcast() else { continue };
        // A single read is that of the input or that of the addend; in the latter case the input is another tensor.
        let Some(reader) = editor.uses.only_reader(out) else { continue };
        let linear = FusedLinear::of(editor.node(reader));
        let Some(linear) = linear.filter(|linear| linear.x == out && linear.norm.is_none()) else { continue };
        editor.replace(&[index, reader], reader, &FusedLinear { x, norm: Some((weight, eps)), ..linear });
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LINEAR, LayerBuilder, agree, fused_names};
    use crate::ops::fused_linear::NAME;

    const ONLY: Fusions = Fusions { norm: true, ..Fusions::NONE };
    const NORM: &str = crate::fuse::tests::NORM;

    #[test]
    fn a_norm_becomes_part_of_a_plain_or_fused_call() {
        let mut plain = LayerBuilder::new(64);
        let normed = plain.norm(plain.x);
        let out = plain.linear(normed, 12);
        plain.builder.output(out);
        assert_eq!(fused_names(&plain.builder, &ONLY), [NAME]);
        agree(&plain.builder, &ONLY, &plain.calls());

        let mut two = LayerBuilder::new(64);
        let normed = two.norm(two.x);
        for n in [12, 8] {
            let out = two.linear(normed, n);
            two.builder.output(out);
        }
        assert_eq!(fused_names(&two.builder, &Fusions { merge_linears: true, ..ONLY }), [NAME]);
        agree(&two.builder, &Fusions { merge_linears: true, ..ONLY }, &two.calls());
        // Unmerged, they are two readers.
        assert_eq!(fused_names(&two.builder, &ONLY), [NORM, LINEAR, LINEAR]);
    }

    #[test]
    fn a_norm_that_others_read_stays_apart() {
        let mut output = LayerBuilder::new(64);
        let normed = output.norm(output.x);
        let out = output.linear(normed, 12);
        [out, normed].into_iter().for_each(|value| output.builder.output(value));
        assert_eq!(fused_names(&output.builder, &ONLY), [NORM, LINEAR]);

        // The call reads it twice: as its input, and as its addend.
        let mut added = LayerBuilder::new(64);
        let normed = added.norm(added.x);
        let product = added.linear(normed, 64);
        let sum = added.sum(normed, product);
        added.builder.output(sum);
        assert_eq!(fused_names(&added.builder, &Fusions { residual: true, ..ONLY }), [NORM, NAME]);
        agree(&added.builder, &Fusions { residual: true, ..ONLY }, &added.calls());
    }

    #[test]
    fn a_norm_before_weights_that_do_not_qualify_stays_apart() {
        let mut narrow = LayerBuilder::new(64);
        narrow.group = 16;
        let normed = narrow.norm(narrow.x);
        let out = narrow.linear(normed, 12);
        narrow.builder.output(out);
        assert_eq!(fused_names(&narrow.builder, &ONLY), [NORM, LINEAR]);
    }
}
