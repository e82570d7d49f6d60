//! Fuses the operators after a convolution into its call: activations, `SiLU`, and residual sums.

use super::editor::Editor;
use super::operators::{self, Binary};
use crate::elementwise::Elementwise;
use crate::graph::Elem;
use crate::live::TensorId;
use crate::ops::{
    self,
    convolution::fused::{FusedConvolution, SILU},
};

/// The convolution that computes a tensor, whose only reader is a call.
fn before(editor: &Editor<'_>, tensor: TensorId, reader: usize) -> Option<(usize, FusedConvolution)> {
    let (index, node) = editor.writing_node(tensor)?;
    let convolution = FusedConvolution::of(node)?;
    let unchanged = !editor.uses.is_mutated(convolution.x);
    (unchanged && editor.uses.only_reader(tensor) == Some(reader)).then_some((index, convolution))
}

/// Functions of single elements.
pub(super) fn activations(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(op) = node.op.downcast::<Elementwise>() else { continue };
        let activation = op.scalars.fixed().and_then(|values| ops::activation(op.row.name, values));
        let (&[x], Some(activation)) = (op.inputs.as_slice(), activation) else { continue };
        let floats = [x, op.out].iter().all(|&tensor| editor.graph.info(tensor).elem == Elem::F32);
        let Some((before, convolution)) = before(editor, x, index).filter(|_| floats) else { continue };
        if convolution.activation.is_none() {
            let addend_first = convolution.addend.is_some();
            replace(
                editor,
                &[before, index],
                index,
                FusedConvolution { activation: Some(activation), addend_first, out: op.out, ..convolution },
            );
        }
    }
}

/// x · sigmoid(x), which exporters write as two operators.
pub(super) fn silu(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(Binary { inputs: [a, b], out }) = operators::mul(node) else { continue };
        for (x, gate) in [(a, b), (b, a)] {
            let Some((inner, gating)) = editor.writing_node(gate) else { continue };
            let Some((convolved, Some(convolution))) =
                editor.writing_node(x).map(|(at, node)| (at, FusedConvolution::of(node)))
            else {
                continue;
            };
            let is_gate = operators::sigmoid(gating).is_some_and(|(of, _)| of == x);
            let mut readers = editor.uses.inner_readers(x).to_vec();
            readers.sort_unstable();
            let alone = readers == [inner, index] && editor.uses.only_reader(gate) == Some(index);
            let plain = convolution.activation.is_none() && !editor.uses.is_mutated(convolution.x);
            if is_gate && alone && plain {
                let addend_first = convolution.addend.is_some();
                let fused = FusedConvolution { activation: Some(SILU), addend_first, out, ..convolution };
                replace(editor, &[convolved, inner, index], index, fused);
                break;
            }
        }
    }
}

/// Sums with a tensor of the same dims.
pub(super) fn residual(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some((Binary { inputs: [a, b], out }, alpha)) = operators::add(node) else { continue };
        if alpha != 1.0 || a == b {
            continue;
        }
        for (sum, addend) in [(a, b), (b, a)] {
            let Some((before, convolution)) = before(editor, sum, index) else { continue };
            let alike = editor.dims.same(sum, addend) && editor.graph.info(addend).elem == Elem::F32;
            if alike && convolution.addend.is_none() && !editor.uses.is_mutated(addend) {
                let fused = FusedConvolution { addend: Some(addend), addend_first: false, out, ..convolution };
                if replace(editor, &[before, index], index, fused) {
                    break;
                }
            }
        }
    }
}

/// Replaces calls by one at the position of the last, where all that it reads is computed.
fn replace(editor: &mut Editor<'_>, calls: &[usize], at: usize, convolution: FusedConvolution) -> bool {
    let call = convolution.call(&mut editor.source);
    editor.replace_with(calls, at, call)
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::ops::convolution::fused::NAME;
    use crate::reference::HostTensor;
    use crate::testing::{GraphBuilder, f32s, noise};

    const ONLY: Fusions = Fusions { channels_last: true, convolution: true, ..Fusions::NONE };
    const PERMUTE: &str = "aten.permute_copy.default";

    /// A net of images with four channels first.
    struct Net {
        builder: GraphBuilder,
        x: ValueId,
    }

    impl Net {
        fn new() -> Self {
            let mut builder = GraphBuilder::new();
            let x = builder.input(DataType::Float32, &[2, 8, 9, 10]);
            Self { builder, x }
        }

        fn dims(&self, value: ValueId) -> Vec<u32> {
            self.builder.graph.value(value).and_then(Value::as_tensor).unwrap().dims.clone()
        }

        fn like(&mut self, value: ValueId) -> ValueId {
            let dims = self.dims(value);
            self.builder.tensor(DataType::Float32, &dims)
        }

        /// A convolution with this kernel and stride, and padding that keeps sizes.
        fn conv(&mut self, x: ValueId, channels: u32, kernel: u32, stride: i64) -> ValueId {
            let dims = self.dims(x);
            let count = channels * dims[1] * kernel * kernel;
            let weight = self.builder.floats(&[channels, dims[1], kernel, kernel], &noise(count.into(), count as usize));
            let none = self.builder.value(Value::Null);
            let padding = i64::from(kernel / 2);
            let [strides, paddings, ones, zeros] =
                [stride, padding, 1, 0].map(|item| self.builder.value(Value::IntList(vec![item; 2])));
            let (no, one) = (self.builder.value(Value::Bool(false)), self.builder.int(1));
            let size = |size: u32| (size - 1) / u32::try_from(stride).unwrap() + 1;
            let out = self.builder.tensor(DataType::Float32, &[dims[0], channels, size(dims[2]), size(dims[3])]);
            self.builder.call("aten.convolution.default", &[x, weight, none, strides, paddings, ones, no, zeros, one, out]);
            out
        }

        fn unary(&mut self, name: &str, x: ValueId) -> ValueId {
            let out = self.like(x);
            self.builder.call(name, &[x, out]);
            out
        }

        fn binary(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
            let out = self.like(a);
            let one = self.builder.int(1);
            let args = if name.contains("add") { vec![a, b, one, out] } else { vec![a, b, out] };
            self.builder.call(name, &args);
            out
        }

        fn calls(&self) -> Vec<Vec<HostTensor>> {
            let shapes = [[2, 8, 9, 10], [1, 8, 3, 4], [2, 8, 5, 1]];
            shapes.iter().map(|shape| vec![f32s(shape, noise(3, shape.iter().product::<u32>() as usize))]).collect()
        }

        /// The operators after fusing, once results are compared.
        fn fused(mut self, outputs: &[ValueId]) -> Vec<&'static str> {
            outputs.iter().for_each(|&output| self.builder.output(output));
            agree(&self.builder, &ONLY, &self.calls());
            fused_names(&self.builder, &ONLY)
        }
    }

    #[test]
    fn residual_blocks_are_one_call_per_convolution() {
        let mut net = Net::new();
        let stem = net.conv(net.x, 8, 1, 1);
        let first = net.conv(stem, 8, 3, 1);
        let first = net.unary("aten.relu.default", first);
        let second = net.conv(first, 8, 3, 1);
        let sum = net.binary("aten.add.Tensor", second, stem);
        let block = net.unary("aten.relu.default", sum);
        // Both branches halve sizes, with different kernels.
        let long = net.conv(block, 16, 3, 2);
        let long = net.conv(long, 16, 3, 1);
        let short = net.conv(block, 16, 1, 2);
        let sum = net.binary("aten.add.Tensor", short, long);
        let out = net.unary("aten.relu.default", sum);
        assert_eq!(net.fused(&[out]), [PERMUTE, NAME, NAME, NAME, NAME, NAME, NAME, PERMUTE]);
    }

    #[test]
    fn silu_is_part_of_the_convolution() {
        let mut net = Net::new();
        let first = net.conv(net.x, 12, 1, 1);
        let gate = net.unary("aten.sigmoid.default", first);
        let silu = net.binary("aten.mul.Tensor", first, gate);
        let out = net.conv(silu, 4, 3, 1);
        assert_eq!(net.fused(&[out]), [PERMUTE, NAME, NAME, PERMUTE]);
    }

    #[test]
    fn values_with_other_readers_stay() {
        let mut net = Net::new();
        let first = net.conv(net.x, 8, 3, 1);
        let relu = net.unary("aten.relu.default", first);
        let sum = net.binary("aten.add.Tensor", first, relu);
        let names = net.fused(&[sum, relu]);
        assert_eq!(names, [PERMUTE, NAME, "aten.relu.default", "aten.add.Tensor", PERMUTE, PERMUTE]);
    }

    #[test]
    fn sums_that_may_broadcast_stay() {
        let mut net = Net::new();
        let other = net.builder.input(DataType::Float32, &[2, 8, 9, 10]);
        let first = net.conv(net.x, 8, 3, 1);
        let sum = net.binary("aten.add.Tensor", first, other);
        net.builder.output(sum);
        let names = fused_names(&net.builder, &ONLY);
        assert!(names.contains(&"aten.add.Tensor"), "{names:?}");
        let calls: Vec<_> =
            net.calls().into_iter().map(|call| vec![call[0].clone(), f32s(&[1, 8, 1, 1], noise(5, 8))]).collect();
        agree(&net.builder, &ONLY, &calls);
    }

    #[test]
    fn odd_channels_keep_channels_first() {
        let mut net = Net::new();
        let out = net.conv(net.x, 6, 3, 1);
        net.builder.output(out);
        assert_eq!(fused_names(&net.builder, &ONLY), ["aten.convolution.default"]);
    }

    #[test]
    fn pools_means_norms_and_concatenation_keep_channels_last() {
        let mut net = Net::new();
        let first = net.conv(net.x, 8, 3, 1);
        let second = net.conv(net.x, 4, 1, 1);
        let list = net.builder.value(Value::ValueList(vec![first, second]));
        let one = net.builder.int(1);
        let both = net.builder.tensor(DataType::Float32, &[2, 12, 9, 10]);
        net.builder.call("aten.cat.default", &[list, one, both]);
        let [size, stride, padding] = [3, 2, 1].map(|item| net.builder.value(Value::IntList(vec![item; 2])));
        let (yes, no, none) =
            (net.builder.value(Value::Bool(true)), net.builder.value(Value::Bool(false)), net.builder.value(Value::Null));
        let pooled = net.builder.tensor(DataType::Float32, &[2, 12, 5, 5]);
        net.builder.call("aten.avg_pool2d.default", &[both, size, stride, padding, no, yes, none, pooled]);
        let axes = net.builder.value(Value::IntList(vec![-1, -2]));
        let mean = net.builder.tensor(DataType::Float32, &[2, 12, 1, 1]);
        net.builder.call("aten.mean.dim", &[pooled, axes, yes, none, mean]);
        let scale = net.unary("aten.sigmoid.default", mean);
        let scaled = net.binary("aten.mul.Tensor", pooled, scale);
        let out = net.conv(scaled, 8, 1, 1);
        let names = net.fused(&[out]);
        let expected = [
            PERMUTE,
            NAME,
            NAME,
            "aten.cat.default",
            "pteron.avg_pool2d_channels_last",
            "aten.mean.dim",
            "aten.sigmoid.default",
            "aten.mul.Tensor",
            NAME,
            PERMUTE,
        ];
        assert_eq!(names, expected);
    }
}
