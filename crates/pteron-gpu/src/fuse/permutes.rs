//! Permutations of dims that follow one another become one, or none where they cancel. Between them, elementwise operators compute in the
//! order of the first: parts of a network with channels last and parts with channels first meet without copies.

use std::collections::HashMap;

use super::editor::Editor;
use super::operators;
use crate::elementwise::Elementwise;
use crate::graph::Node;
use crate::ir::{Call, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::ops::copy::{CopyKind, alias_call, permute_call};

/// A tensor as a permutation of another one.
#[derive(Clone, Debug)]
struct Permuted {
    of: TensorId,
    /// Dim `i` is dim `order[i]` of the other.
    order: Vec<usize>,
    /// Whether the tensor itself is computed.
    is_computed: bool,
}

impl Permuted {
    fn is_identity(&self) -> bool {
        self.order.iter().enumerate().all(|(index, &axis)| index == axis)
    }
}

/// The tensors that are permutations, and the new calls.
#[derive(Default)]
struct Rewrite {
    permuted: HashMap<TensorId, Permuted>,
    calls: Vec<Call>,
    changes: bool,
}

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut rewrite = Rewrite::default();
    let old = editor.source.calls.clone();
    for ((index, node), call) in editor.nodes().zip(&old) {
        let taken = rewrite.permutation(editor, node) || rewrite.elementwise(editor, index, node, call);
        if taken {
            continue;
        }
        let touched = node.flow.reads.iter().chain(&node.flow.mutates);
        touched.for_each(|&tensor| rewrite.restore(editor, tensor, call.origin));
        rewrite.calls.push(call.clone());
    }
    let last = old.last().map_or(0, |call| call.origin);
    for &output in &editor.graph.outputs {
        rewrite.restore(editor, output, last);
    }
    if rewrite.changes {
        editor.rewrite(rewrite.calls);
    }
}

impl Rewrite {
    /// Defers a permutation until something reads it in that order.
    fn permutation(&mut self, editor: &Editor<'_>, node: &Node) -> bool {
        let Some((copy, CopyKind::Permute(order))) = operators::copy(node) else { return false };
        if editor.uses.is_mutated(copy.from) || editor.uses.is_mutated(copy.out) {
            return false;
        }
        let permuted = match self.permuted.get(&copy.from) {
            Some(before) if order.iter().all(|&axis| axis < before.order.len()) => {
                self.changes = true;
                let order = order.iter().map(|&axis| before.order[axis]).collect();
                Permuted { of: before.of, order, is_computed: false }
            }
            _ => Permuted { of: copy.from, order: order.to_vec(), is_computed: false },
        };
        self.permuted.insert(copy.out, permuted);
        true
    }

    /// Computes an elementwise operator in the order of the tensors that its inputs are permutations of, if nothing else reads those
    /// inputs.
    fn elementwise(&mut self, editor: &mut Editor<'_>, index: usize, node: &Node, call: &Call) -> bool {
        let Some(op) = node.op.downcast::<Elementwise>() else { return false };
        let Some(order) = self.common_order(editor, index, op) else { return false };
        let mut args = call.args.clone();
        for (arg, input) in args.iter_mut().zip(&op.inputs) {
            if let Some(permuted) = self.permuted.get(input) {
                *arg = ValueId(permuted.of.0);
            }
        }
        let bound = editor.graph.info(op.out).bound;
        let mut dims = vec![0; order.len()];
        order.iter().zip(bound.iter()).for_each(|(&axis, &dim)| dims[axis] = dim);
        let dtype = editor.graph.source.value(ValueId(op.out.0)).and_then(Value::as_tensor).map(|tensor| tensor.dtype);
        let (Some(dtype), Some(last)) = (dtype, args.last_mut()) else { return false };
        let out = editor.source.add(Value::Tensor(Tensor::new(dtype, &dims)));
        *last = out;
        self.calls.push(Call { args, ..call.clone() });
        self.permuted.insert(op.out, Permuted { of: TensorId(out.0), order, is_computed: false });
        self.changes = true;
        true
    }

    /// The order that all inputs of an operator have, but for single numbers.
    fn common_order(&self, editor: &Editor<'_>, index: usize, op: &Elementwise) -> Option<Vec<usize>> {
        let rank = editor.graph.info(op.out).bound.len();
        let mut common: Option<&[usize]> = None;
        for &input in &op.inputs {
            let bound = editor.graph.info(input).bound;
            let Some(permuted) = self.permuted.get(&input) else {
                // A constant number stays one.
                let number = bound.len() <= 1 && bound.count() == 1;
                if number && matches!(editor.graph.role(input), crate::graph::Role::Constant(_)) {
                    continue;
                }
                return None;
            };
            let alone = editor.uses.inner_readers(input).iter().all(|&reader| reader == index);
            let computed = permuted.is_computed || editor.uses.inner_readers(input).is_empty();
            let alike = common.is_none_or(|order| order == permuted.order);
            if !alone || computed || !alike || bound.len() != rank || editor.uses.is_mutated(op.out) {
                return None;
            }
            common = Some(&permuted.order);
        }
        common.map(<[usize]>::to_vec)
    }

    /// Adds the copy that computes a deferred permutation.
    fn restore(&mut self, editor: &mut Editor<'_>, tensor: TensorId, origin: usize) {
        let Some(permuted) = self.permuted.get_mut(&tensor).filter(|permuted| !permuted.is_computed) else { return };
        permuted.is_computed = true;
        let call = match permuted.is_identity() {
            true => alias_call(permuted.of, tensor),
            false => permute_call(&mut editor.source, permuted.of, &permuted.order, tensor),
        };
        self.calls.push(call.at(origin));
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::reference::HostTensor;
    use crate::testing::{GraphBuilder, f32s, noise};

    const ONLY: Fusions = Fusions { permutes: true, ..Fusions::NONE };
    const PERMUTE: &str = "aten.permute_copy.default";
    const ALIAS: &str = "aten.alias_copy.default";

    struct Chain {
        builder: GraphBuilder,
        x: ValueId,
    }

    impl Chain {
        fn new() -> Self {
            let mut builder = GraphBuilder::new();
            let x = builder.input(DataType::Float32, &[2, 3, 4, 5]);
            Self { builder, x }
        }

        fn dims(&self, value: ValueId) -> Vec<u32> {
            self.builder.graph.value(value).and_then(Value::as_tensor).unwrap().dims.clone()
        }

        fn permute(&mut self, x: ValueId, order: [i64; 4]) -> ValueId {
            let dims = self.dims(x);
            let permuted: Vec<u32> = order.iter().map(|&axis| dims[usize::try_from(axis).unwrap()]).collect();
            let out = self.builder.tensor(DataType::Float32, &permuted);
            let list = self.builder.value(Value::IntList(order.to_vec()));
            self.builder.call(PERMUTE, &[x, list, out]);
            out
        }

        fn unary(&mut self, x: ValueId) -> ValueId {
            let dims = self.dims(x);
            let out = self.builder.tensor(DataType::Float32, &dims);
            self.builder.call("aten.relu.default", &[x, out]);
            out
        }

        fn sum(&mut self, a: ValueId, b: ValueId) -> ValueId {
            let dims = self.dims(a);
            let (out, one) = (self.builder.tensor(DataType::Float32, &dims), self.builder.int(1));
            self.builder.call("aten.add.Tensor", &[a, b, one, out]);
            out
        }

        /// The operators after fusing, where nothing changes.
        fn kept(mut self, outputs: &[ValueId]) -> Vec<&'static str> {
            outputs.iter().for_each(|&output| self.builder.output(output));
            fused_names(&self.builder, &ONLY)
        }

        fn fused(mut self, outputs: &[ValueId]) -> Vec<&'static str> {
            outputs.iter().for_each(|&output| self.builder.output(output));
            let shapes = [[2, 3, 4, 5], [1, 2, 4, 1]];
            let call = |shape: &[u32; 4]| -> Vec<HostTensor> {
                vec![f32s(shape, noise(3, shape.iter().product::<u32>() as usize))]
            };
            agree(&self.builder, &ONLY, &shapes.iter().map(call).collect::<Vec<_>>());
            fused_names(&self.builder, &ONLY)
        }
    }

    const LAST: [i64; 4] = [0, 2, 3, 1];
    const FIRST: [i64; 4] = [0, 3, 1, 2];

    #[test]
    fn pairs_cancel_and_chains_are_one() {
        let mut chain = Chain::new();
        let there = chain.permute(chain.x, LAST);
        let back = chain.permute(there, FIRST);
        let out = chain.unary(back);
        assert_eq!(chain.fused(&[out]), ["aten.relu.default", ALIAS]);
        let mut chain = Chain::new();
        let once = chain.permute(chain.x, LAST);
        let twice = chain.permute(once, LAST);
        assert_eq!(chain.fused(&[twice]), [PERMUTE]);
    }

    #[test]
    fn elementwise_operators_between_them_take_the_first_order() {
        let mut chain = Chain::new();
        let there = chain.permute(chain.x, LAST);
        let relu = chain.unary(there);
        let number = chain.builder.floats(&[1], &[0.5]);
        let sum = chain.sum(relu, number);
        let back = chain.permute(sum, FIRST);
        assert_eq!(chain.fused(&[back]), ["aten.relu.default", "aten.add.Tensor", ALIAS]);
        let mut chain = Chain::new();
        let [a, b] = [(); 2].map(|()| chain.permute(chain.x, LAST));
        let a = chain.unary(a);
        let sum = chain.sum(a, b);
        assert_eq!(chain.fused(&[sum]), ["aten.relu.default", "aten.add.Tensor", PERMUTE]);
    }

    #[test]
    fn tensors_that_others_read_stay() {
        let mut chain = Chain::new();
        let there = chain.permute(chain.x, LAST);
        let relu = chain.unary(there);
        let back = chain.permute(relu, FIRST);
        assert_eq!(chain.kept(&[back, there]), [PERMUTE, "aten.relu.default", PERMUTE]);
        // An operand in another order.
        let mut chain = Chain::new();
        let there = chain.permute(chain.x, [0, 1, 3, 2]);
        let row = chain.builder.floats(&[4], &noise(1, 4));
        let sum = chain.sum(there, row);
        assert_eq!(chain.kept(&[sum]), [PERMUTE, "aten.add.Tensor"]);
    }
}
