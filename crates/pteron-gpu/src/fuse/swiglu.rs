//! Two linears with the same input, silu of the one times the other: `a · sigmoid(a) · b` in four or more calls becomes one.

use super::editor::Editor;
use super::fused_linear::{FusedLinear, LINEAR};
use super::same_dims::{MUL, SIGMOID};
use crate::ir::ValueId;

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, call) in editor.calls() {
        let &[a, b, out] = call.args.as_slice() else { continue };
        if call.name != MUL {
            continue;
        }
        let found = gated(editor, index, a, b).or_else(|| gated(editor, index, b, a));
        if let Some((mut calls, mut linears)) = found {
            calls.push(index);
            linears.outputs = vec![out];
            linears.gated = true;
            editor.replace(&calls, index, &linears);
        }
    }
}

/// The calls before a product `silu · up`, if they are such, and the linears among them as one.
fn gated(editor: &Editor<'_>, product: usize, silu: ValueId, up: ValueId) -> Option<(Vec<usize>, FusedLinear)> {
    let (inner, [a, b, _]) = editor.writer(silu, MUL)?;
    let (gate, sigmoid) = activation(editor, a, b).or_else(|| activation(editor, b, a))?;
    // The gate is read by its sigmoid and by the product with that, all else by the next call alone.
    let alone = |value, reader| editor.uses.only_reader(value) == Some(reader);
    let readers = editor.uses.readers_within(gate);
    let pair = readers == [sigmoid, inner] || readers == [inner, sigmoid];
    if !pair || !alone(editor.call(sigmoid).args[1], inner) || !alone(silu, product) || !alone(up, product) {
        return None;
    }
    let mut calls = vec![inner, sigmoid];
    let mut linear = |value: ValueId| {
        let (value, mut views) = editor.behind_views(value);
        let (index, _) = editor.writer::<6>(value, LINEAR)?;
        calls.append(&mut views);
        calls.push(index);
        FusedLinear::plain(editor.call(index))
    };
    let (gate, up) = (linear(gate)?, linear(up)?);
    Some((calls, gate.with(editor.graph, &up)?))
}

/// A value and the call that is its sigmoid, if the other value is that.
fn activation(editor: &Editor<'_>, value: ValueId, other: ValueId) -> Option<(ValueId, usize)> {
    let (call, [x, _]) = editor.writer(other, SIGMOID)?;
    (x == value).then_some((value, call))
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::fused_linear::LINEAR;
    use crate::fuse::tests::{Draft, agree, fused_names};
    use crate::ir::ValueId;
    use crate::ops::fused_linear_q4gsw::NAME;

    const ONLY: Fusions = Fusions { swiglu: true, ..Fusions::NONE };

    struct Gate {
        draft: Draft,
        gate: ValueId,
        up: ValueId,
        sigmoid: ValueId,
        silu: ValueId,
    }

    /// A gate, with views as exporters write them, turned around where `turned`.
    fn gate(widths: [u32; 2], turned: bool) -> Gate {
        let mut draft = Draft::new(64);
        let gate = draft.linear(draft.x, widths[0]);
        let gate = draft.view(gate, widths[0]);
        let sigmoid = draft.unary("aten.sigmoid.default", gate);
        let silu = if turned { draft.product(sigmoid, gate) } else { draft.product(gate, sigmoid) };
        let up = draft.linear(draft.x, widths[1]);
        let up = draft.view(up, widths[1]);
        let out = if turned { draft.product(up, silu) } else { draft.product(silu, up) };
        draft.sketch.output(out);
        Gate { draft, gate, up, sigmoid, silu }
    }

    #[test]
    fn a_gate_becomes_one_call() {
        for turned in [false, true] {
            let draft = gate([12, 12], turned).draft;
            assert_eq!(fused_names(&draft.sketch, &ONLY), [NAME]);
            agree(&draft.sketch, &ONLY, &draft.calls());
        }
    }

    #[test]
    fn what_others_read_stays_as_it_is() {
        for pick in [|gate: &Gate| gate.gate, |gate: &Gate| gate.up, |gate: &Gate| gate.sigmoid, |gate: &Gate| gate.silu] {
            let mut output = gate([12, 12], false);
            let seen = pick(&output);
            output.draft.sketch.output(seen);
            let names = fused_names(&output.draft.sketch, &ONLY);
            assert_eq!((names.contains(&NAME), names.iter().filter(|name| **name == LINEAR).count()), (false, 2));

            let mut read = gate([12, 12], false);
            let seen = pick(&read);
            let more = read.draft.unary("aten.neg.default", seen);
            read.draft.sketch.output(more);
            assert!(!fused_names(&read.draft.sketch, &ONLY).contains(&NAME));
        }
    }

    #[test]
    fn near_misses_stay_as_they_are() {
        let mut other_input = gate([12, 12], false);
        let x = other_input.draft.unary("aten.neg.default", other_input.draft.x);
        let up = other_input.draft.sketch.graph.calls.iter_mut().filter(|call| call.name == LINEAR).nth(1).unwrap();
        up.args[0] = x;
        let chain = &mut other_input.draft.sketch.graph.calls;
        let negation = chain.pop().unwrap();
        chain.insert(2, negation);
        assert!(!fused_names(&other_input.draft.sketch, &ONLY).contains(&NAME));

        // One column of a gate for every column of the other is a product, too.
        let repeated = gate([1, 12], false);
        assert!(!fused_names(&repeated.draft.sketch, &ONLY).contains(&NAME));

        let mut squared = gate([12, 12], false);
        let product = squared.draft.sketch.graph.calls.iter_mut().find(|call| call.name == "aten.mul.Tensor").unwrap();
        product.args[0] = squared.sigmoid;
        assert!(!fused_names(&squared.draft.sketch, &ONLY).contains(&NAME));
    }
}
