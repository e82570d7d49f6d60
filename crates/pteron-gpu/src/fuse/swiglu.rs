//! SwiGLU: two linears with one input, `a · sigmoid(a) · b`. Four or more calls become one fused linear.

use super::editor::Editor;
use super::operators::{self, Binary};
use crate::live::TensorId;
use crate::ops::fused_linear::FusedLinear;

pub(super) fn find(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(Binary { inputs: [a, b], out }) = operators::mul(node) else { continue };
        let found = match_swiglu(editor, index, a, b).or_else(|| match_swiglu(editor, index, b, a));
        if let Some((mut calls, mut linear)) = found {
            calls.push(index);
            linear.outputs = vec![out];
            linear.swiglu = true;
            editor.replace(&calls, index, &linear);
        }
    }
}

/// Matches the calls before a product `silu · up`. Returns them, and their two linears merged into one.
fn match_swiglu(editor: &Editor<'_>, product: usize, silu: TensorId, up: TensorId) -> Option<(Vec<usize>, FusedLinear)> {
    let (inner, node) = editor.writing_node(silu)?;
    let [a, b] = operators::mul(node)?.inputs;
    let (gate, sigmoid, activated) = activation(editor, a, b).or_else(|| activation(editor, b, a))?;
    // The sigmoid and the product with it read the gate; only the next call reads every other value.
    let alone = |tensor, reader| editor.uses.only_reader(tensor) == Some(reader);
    let readers = editor.uses.inner_readers(gate);
    let pair = readers == [sigmoid, inner] || readers == [inner, sigmoid];
    if !pair || !alone(activated, inner) || !alone(silu, product) || !alone(up, product) {
        return None;
    }
    let mut calls = vec![inner, sigmoid];
    let mut linear = |tensor: TensorId| {
        let (tensor, mut views) = editor.before_views(tensor);
        let (index, node) = editor.writing_node(tensor)?;
        let linear = FusedLinear::of(node)?;
        calls.append(&mut views);
        calls.push(index);
        Some(linear)
    };
    let (gate, up) = (linear(gate)?, linear(up)?);
    Some((calls, gate.merged(&up)?))
}

/// The first tensor, the call of its sigmoid and the second tensor, if that is the sigmoid's output.
fn activation(editor: &Editor<'_>, tensor: TensorId, other: TensorId) -> Option<(TensorId, usize, TensorId)> {
    let (call, node) = editor.writing_node(other)?;
    let (x, out) = operators::sigmoid(node)?;
    (x == tensor).then_some((tensor, call, out))
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LINEAR, LayerBuilder, agree, fused_names};
    use crate::ir::ValueId;
    use crate::ops::fused_linear::NAME;

    const ONLY: Fusions = Fusions { swiglu: true, ..Fusions::NONE };

    struct Gate {
        layer: LayerBuilder,
        gate: ValueId,
        up: ValueId,
        sigmoid: ValueId,
        silu: ValueId,
    }

    /// SwiGLU, with views as exporters write them, operands swapped if `turned`.
    fn gate(widths: [u32; 2], turned: bool) -> Gate {
        let mut layer = LayerBuilder::new(64);
        let gate = layer.linear(layer.x, widths[0]);
        let gate = layer.view(gate, widths[0]);
        let sigmoid = layer.unary("aten.sigmoid.default", gate);
        let silu = if turned { layer.product(sigmoid, gate) } else { layer.product(gate, sigmoid) };
        let up = layer.linear(layer.x, widths[1]);
        let up = layer.view(up, widths[1]);
        let out = if turned { layer.product(up, silu) } else { layer.product(silu, up) };
        layer.builder.output(out);
        Gate { layer, gate, up, sigmoid, silu }
    }

    #[test]
    fn a_gate_becomes_one_call() {
        for turned in [false, true] {
            let layer = gate([12, 12], turned).layer;
            assert_eq!(fused_names(&layer.builder, &ONLY), [NAME]);
            agree(&layer.builder, &ONLY, &layer.calls());
        }
    }

    #[test]
    fn intermediates_with_other_readers_are_not_fused() {
        for pick in [|gate: &Gate| gate.gate, |gate: &Gate| gate.up, |gate: &Gate| gate.sigmoid, |gate: &Gate| gate.silu] {
            let mut output = gate([12, 12], false);
            let seen = pick(&output);
            output.layer.builder.output(seen);
            let names = fused_names(&output.layer.builder, &ONLY);
            assert_eq!((names.contains(&NAME), names.iter().filter(|name| **name == LINEAR).count()), (false, 2));

            let mut read = gate([12, 12], false);
            let seen = pick(&read);
            let more = read.layer.unary("aten.neg.default", seen);
            read.layer.builder.output(more);
            assert!(!fused_names(&read.layer.builder, &ONLY).contains(&NAME));
        }
    }

    #[test]
    fn near_misses_stay_as_they_are() {
        let mut other_input = gate([12, 12], false);
        let x = other_input.layer.unary("aten.neg.default", other_input.layer.x);
        let up = other_input.layer.builder.graph.calls.iter_mut().filter(|call| call.name == LINEAR).nth(1).unwrap();
        up.args[0] = x;
        let chain = &mut other_input.layer.builder.graph.calls;
        let negation = chain.pop().unwrap();
        chain.insert(2, negation);
        assert!(!fused_names(&other_input.layer.builder, &ONLY).contains(&NAME));

        // Broadcasting one gate column to all columns of the other is a product, too.
        let repeated = gate([1, 12], false);
        assert!(!fused_names(&repeated.layer.builder, &ONLY).contains(&NAME));

        let mut squared = gate([12, 12], false);
        let product = squared.layer.builder.graph.calls.iter_mut().find(|call| call.name == "aten.mul.Tensor").unwrap();
        product.args[0] = squared.sigmoid;
        assert!(!fused_names(&squared.layer.builder, &ONLY).contains(&NAME));
    }
}
