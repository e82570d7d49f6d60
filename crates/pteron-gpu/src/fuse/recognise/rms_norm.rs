//! RMS norm written as arithmetic: `x · rsqrt(mean(x²) + eps) · weight`, with its factors in any order.

use super::super::editor::Editor;
use super::super::operators::{self, Binary};
use super::{constant_scalar, elementwise};
use crate::live::TensorId;
use crate::ops::reduce::Reduction;
use crate::ops::rms_norm;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(Binary { inputs: [a, b], out }) = operators::mul(node) else { continue };
        let Some(norm) = matched(editor, index, a, b).or_else(|| matched(editor, index, b, a)) else { continue };
        let bound = |tensor| editor.graph.info(tensor).bound;
        let width = editor.dims.row_length(norm.x);
        if bound(norm.x) != bound(out) || width.is_none_or(|width| *bound(norm.weight) != [width]) {
            continue;
        }
        if [norm.x, norm.weight].iter().any(|&tensor| editor.uses.is_mutated(tensor)) {
            continue;
        }
        let call = rms_norm::call(&mut editor.source, norm.x, norm.weight, norm.eps, out);
        let calls = [norm.calls, vec![index]].concat();
        editor.replace_with(&calls, index, call);
    }
}

struct Norm {
    x: TensorId,
    weight: TensorId,
    eps: f64,
    /// The calls before the last product.
    calls: Vec<usize>,
}

/// The norm of which a product is the last one: of two factors, and of the third.
fn matched(editor: &Editor<'_>, last: usize, inner: TensorId, third: TensorId) -> Option<Norm> {
    let (product, node) = editor.writing_node(inner)?;
    if editor.uses.only_reader(inner) != Some(last) {
        return None;
    }
    let [first, second] = operators::mul(node)?.inputs;
    let factors = [first, second, third];
    (0..factors.len()).find_map(|at| {
        let reader = if at == 2 { last } else { product };
        let root = Root::before(editor, factors[at], reader)?;
        let (a, b) = (factors[(at + 1) % 3], factors[(at + 2) % 3]);
        let weight = if a == root.x { b } else { (b == root.x).then_some(a)? };
        Some(Norm { x: root.x, weight, eps: root.eps, calls: [root.calls, vec![product]].concat() })
    })
}

/// The reciprocal of the root mean square of rows.
struct Root {
    x: TensorId,
    eps: f64,
    calls: Vec<usize>,
}

impl Root {
    /// The root that a tensor is, if only a reader of it needs it.
    fn before(editor: &Editor<'_>, tensor: TensorId, reader: usize) -> Option<Self> {
        let alone = |tensor, reader| editor.uses.only_reader(tensor) == Some(reader);
        if !alone(tensor, reader) {
            return None;
        }
        let (root, mean_eps, mut calls) = reciprocal_root(editor, tensor)?;
        let (sum, node) = editor.writing_node(mean_eps)?;
        let (mean, eps) = with_constant(editor, sum)?;
        let (reduction, mean_node) = editor.writing_node(mean)?;
        let squares = mean_node.op.downcast().and_then(Reduction::row_mean)?;
        let (square, square_node) = editor.writing_node(squares)?;
        let x = squared(square_node)?;
        let chain = alone(mean_eps, root) && alone(mean, sum) && alone(squares, reduction);
        if !chain || node.flow.writes != [mean_eps] || rms_norm_eps(eps).is_none() {
            return None;
        }
        calls.extend([sum, reduction, square]);
        Some(Self { x, eps, calls })
    }
}

/// An epsilon that the operator accepts.
fn rms_norm_eps(eps: f64) -> Option<f64> {
    (eps.is_finite() && eps >= 0.0).then_some(eps)
}

/// The first call and the input of `1 / √input`, and all calls.
fn reciprocal_root(editor: &Editor<'_>, tensor: TensorId) -> Option<(usize, TensorId, Vec<usize>)> {
    let (index, node) = editor.writing_node(tensor)?;
    if let Some((_, [x])) = elementwise(node, "aten.rsqrt.default") {
        return Some((index, x, vec![index]));
    }
    if let Some((op, [x])) = elementwise(node, "aten.pow.Tensor_Scalar") {
        return (op.scalars.values[0] == -0.5).then(|| (index, x, vec![index]));
    }
    let (_, [root]) = elementwise(node, "aten.reciprocal.default")?;
    let (first, node) = editor.writing_node(root)?;
    let (_, [x]) = elementwise(node, "aten.sqrt.default")?;
    (editor.uses.only_reader(root) == Some(index)).then(|| (first, x, vec![first, index]))
}

/// The tensor and the number of a sum.
fn with_constant(editor: &Editor<'_>, sum: usize) -> Option<(TensorId, f64)> {
    let node = editor.node(sum);
    if let Some((op, [x])) = elementwise(node, "aten.add.Scalar") {
        return Some((x, op.scalars.values[0] * op.scalars.values[1]));
    }
    let (Binary { inputs: [a, b], .. }, alpha) = operators::add(node)?;
    match (constant_scalar(editor, b), constant_scalar(editor, a)) {
        (Some(number), _) => Some((a, number * alpha)),
        (None, Some(number)) if alpha == 1.0 => Some((b, number)),
        _ => None,
    }
}

/// The tensor of which a call computes the square.
fn squared(node: &crate::graph::Node) -> Option<TensorId> {
    if let Some(Binary { inputs: [a, b], .. }) = operators::mul(node) {
        return (a == b).then_some(a);
    }
    if let Some((_, [x])) = elementwise(node, "aten.square.default") {
        return Some(x);
    }
    let (op, [x]) = elementwise(node, "aten.pow.Tensor_Scalar")?;
    (op.scalars.values[0] == 2.0).then_some(x)
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{LayerBuilder, NORM, agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::testing::noise;

    const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };

    /// How an exporter writes a norm.
    #[derive(Clone, Copy)]
    struct Written {
        /// A power instead of a product.
        power: bool,
        /// The weight is a factor before the root.
        weight_first: bool,
        /// Factors are swapped.
        turned: bool,
        eps: f32,
    }

    const USUAL: Written = Written { power: false, weight_first: false, turned: false, eps: 1e-5 };

    struct Built {
        layer: LayerBuilder,
        squares: ValueId,
        root: ValueId,
        inner: ValueId,
    }

    fn norm(written: Written) -> Built {
        let mut layer = LayerBuilder::new(64);
        let x = layer.x;
        let rows = [1, LayerBuilder::ROWS, 1];
        let squares = if written.power {
            let (two, out) = (layer.builder.float(2.0), layer.builder.tensor(DataType::Float32, &[1, rows[1], 64]));
            layer.builder.call("aten.pow.Tensor_Scalar", &[x, two, out]);
            out
        } else {
            layer.product(x, x)
        };
        let builder = &mut layer.builder;
        let [mean, sum, root] = [(); 3].map(|()| builder.tensor(DataType::Float32, &rows));
        let (axes, keep, none) =
            (builder.value(Value::IntList(vec![-1])), builder.value(Value::Bool(true)), builder.value(Value::Null));
        builder.call("aten.mean.dim", &[squares, axes, keep, none, mean]);
        let (eps, one) = (builder.floats(&[], &[written.eps]), builder.int(1));
        let terms = if written.turned { [eps, mean] } else { [mean, eps] };
        builder.call("aten.add.Tensor", &[terms[0], terms[1], one, sum]);
        builder.call("aten.rsqrt.default", &[sum, root]);
        let weight = builder.floats(&[64], &noise(77, 64));
        let turn = |a, b| if written.turned { (b, a) } else { (a, b) };
        let (inner, out) = if written.weight_first {
            let (a, b) = turn(x, weight);
            let inner = layer.product(a, b);
            let (a, b) = turn(inner, root);
            (inner, layer.product(a, b))
        } else {
            let (a, b) = turn(x, root);
            let inner = layer.product(a, b);
            let (a, b) = turn(inner, weight);
            (inner, layer.product(a, b))
        };
        layer.builder.output(out);
        Built { layer, squares, root, inner }
    }

    #[test]
    fn every_order_of_factors_is_a_norm() {
        for power in [false, true] {
            for weight_first in [false, true] {
                for turned in [false, true] {
                    let built = norm(Written { power, weight_first, turned, ..USUAL });
                    assert_eq!(fused_names(&built.layer.builder, &ONLY), [NORM]);
                    agree(&built.layer.builder, &ONLY, &built.layer.calls());
                }
            }
        }
    }

    #[test]
    fn other_readers_and_other_numbers_keep_the_arithmetic() {
        for pick in [|built: &Built| built.squares, |built: &Built| built.root, |built: &Built| built.inner] {
            let mut built = norm(USUAL);
            let seen = pick(&built);
            built.layer.builder.output(seen);
            assert!(!fused_names(&built.layer.builder, &ONLY).contains(&NORM));
        }
        assert!(!fused_names(&norm(Written { eps: -1.0, ..USUAL }).layer.builder, &ONLY).contains(&NORM));
        // The mean of squares of another tensor.
        let mut other = norm(USUAL);
        let negated = other.layer.unary("aten.neg.default", other.layer.x);
        let calls = &mut other.layer.builder.graph.calls;
        let negation = calls.pop().unwrap();
        let square = calls.iter().position(|call| call.name == "aten.mul.Tensor").unwrap();
        calls[square].args[0] = negated;
        calls[square].args[1] = negated;
        calls.insert(square, negation);
        assert!(!fused_names(&other.layer.builder, &ONLY).contains(&NORM));
    }
}
