//! A norm that one call of linears reads and nothing else: it becomes part of that call.

use super::editor::Editor;
use super::fused_linear::FusedLinear;
use super::same_dims::NORM;

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, call) in editor.calls() {
        let &[x, weight, eps, out] = call.args.as_slice() else { continue };
        if call.name != NORM {
            continue;
        }
        // One reader that reads it once reads it as what it multiplies, or adds it: then the input is another.
        let Some(reader) = editor.uses.only_reader(out) else { continue };
        let linears = FusedLinear::of(editor.graph, editor.call(reader));
        let Some(linears) = linears.filter(|linears| linears.x == out && linears.norm.is_none()) else { continue };
        editor.replace(&[index, reader], reader, &FusedLinear { x, norm: Some((weight, eps)), ..linears });
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::fused_linear::LINEAR;
    use crate::fuse::tests::{Draft, agree, fused_names};
    use crate::ops::fused_linear_q4gsw::NAME;

    const ONLY: Fusions = Fusions { norm: true, ..Fusions::NONE };
    const NORM: &str = super::NORM;

    #[test]
    fn a_norm_becomes_part_of_a_plain_or_fused_call() {
        let mut plain = Draft::new(64);
        let normed = plain.norm(plain.x);
        let out = plain.linear(normed, 12);
        plain.sketch.output(out);
        assert_eq!(fused_names(&plain.sketch, &ONLY), [NAME]);
        agree(&plain.sketch, &ONLY, &plain.calls());

        let mut two = Draft::new(64);
        let normed = two.norm(two.x);
        for n in [12, 8] {
            let out = two.linear(normed, n);
            two.sketch.output(out);
        }
        assert_eq!(fused_names(&two.sketch, &Fusions { merge_linears: true, ..ONLY }), [NAME]);
        agree(&two.sketch, &Fusions { merge_linears: true, ..ONLY }, &two.calls());
        // Apart they are two readers.
        assert_eq!(fused_names(&two.sketch, &ONLY), [NORM, LINEAR, LINEAR]);
    }

    #[test]
    fn a_norm_that_others_read_stays_apart() {
        let mut output = Draft::new(64);
        let normed = output.norm(output.x);
        let out = output.linear(normed, 12);
        [out, normed].into_iter().for_each(|value| output.sketch.output(value));
        assert_eq!(fused_names(&output.sketch, &ONLY), [NORM, LINEAR]);

        // The call reads it twice: as its input, and as what it adds.
        let mut added = Draft::new(64);
        let normed = added.norm(added.x);
        let product = added.linear(normed, 64);
        let sum = added.sum(normed, product);
        added.sketch.output(sum);
        assert_eq!(fused_names(&added.sketch, &Fusions { residual: true, ..ONLY }), [NORM, NAME]);
        agree(&added.sketch, &Fusions { residual: true, ..ONLY }, &added.calls());
    }

    #[test]
    fn a_norm_before_weights_that_do_not_qualify_stays_apart() {
        let mut narrow = Draft::new(64);
        narrow.group = 16;
        let normed = narrow.norm(narrow.x);
        let out = narrow.linear(normed, 12);
        narrow.sketch.output(out);
        assert_eq!(fused_names(&narrow.sketch, &ONLY), [NORM, LINEAR]);
    }
}
