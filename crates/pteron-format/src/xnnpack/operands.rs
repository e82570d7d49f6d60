//! Names, operands and results of nodes.

use super::{BinaryOp, Convolution, NodeKind, PoolOp, UnaryOp, ValueId};

impl NodeKind {
    /// The name of the kind in the exporter.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary { op, .. } => op.name(),
            Self::Binary { op, .. } => op.name(),
            Self::Softmax { .. } => "Softmax",
            Self::Convert { .. } => "Convert",
            Self::FullyConnected { .. } => "FullyConnected",
            Self::Convolution(Convolution { kind, .. }) => kind.name(),
            Self::BatchMatrixMultiply { .. } => "BatchMatrixMultiply",
            Self::Pool { op: PoolOp::Average, .. } => "AvgPooling2d",
            Self::Pool { op: PoolOp::Max, .. } => "MaxPooling2d",
            Self::GlobalAveragePool { .. } => "GlobalAvgPooling2d",
            Self::ArgMaxPool { .. } => "ArgMaxPooling2d",
            Self::Concatenate { inputs, .. } => match inputs.len() {
                ..=2 => "Concatenate2",
                3 => "Concatenate3",
                4 => "Concatenate4",
                5.. => "Concatenate5",
            },
            Self::Transpose { .. } => "StaticTranspose",
            Self::Reshape { .. } => "StaticReshape",
            Self::Slice { .. } => "StaticSlice",
            Self::Pad { .. } => "StaticConstantPad",
            Self::ResizeBilinear { .. } => "StaticResizeBilinear2D",
        }
    }

    /// Calls `change` with each operand, and whether the node writes it.
    pub fn for_each_operand(&mut self, mut change: impl FnMut(&mut ValueId, bool)) {
        match self {
            Self::Concatenate { inputs, .. } => inputs.iter_mut().for_each(|id| change(id, false)),
            Self::Binary { inputs, .. } | Self::BatchMatrixMultiply { inputs, .. } => {
                inputs.iter_mut().for_each(|id| change(id, false));
            }
            Self::FullyConnected { input, filter, bias, .. }
            | Self::Convolution(Convolution { input, filter, bias, .. }) => {
                [input, filter].into_iter().chain(bias).for_each(|id| change(id, false));
            }
            Self::Unary { input, .. }
            | Self::Softmax { input, .. }
            | Self::Convert { input, .. }
            | Self::Pool { input, .. }
            | Self::GlobalAveragePool { input, .. }
            | Self::ArgMaxPool { input, .. }
            | Self::Transpose { input, .. }
            | Self::Reshape { input, .. }
            | Self::Slice { input, .. }
            | Self::Pad { input, .. }
            | Self::ResizeBilinear { input, .. } => change(input, false),
        }
        match self {
            Self::ArgMaxPool { output, indices, .. } => [output, indices].into_iter().for_each(|id| change(id, true)),
            Self::Convolution(Convolution { output, .. })
            | Self::Unary { output, .. }
            | Self::Binary { output, .. }
            | Self::Softmax { output, .. }
            | Self::Convert { output, .. }
            | Self::FullyConnected { output, .. }
            | Self::BatchMatrixMultiply { output, .. }
            | Self::Pool { output, .. }
            | Self::GlobalAveragePool { output, .. }
            | Self::Concatenate { output, .. }
            | Self::Transpose { output, .. }
            | Self::Reshape { output, .. }
            | Self::Slice { output, .. }
            | Self::Pad { output, .. }
            | Self::ResizeBilinear { output, .. } => change(output, true),
        }
    }

    /// The values that the node reads, filters and biases included, in the file's order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let (list, rest): (&[ValueId], [Option<ValueId>; 3]) = match self {
            Self::Concatenate { inputs, .. } => (inputs, [None; 3]),
            Self::Binary { inputs, .. } | Self::BatchMatrixMultiply { inputs, .. } => (inputs, [None; 3]),
            Self::FullyConnected { input, filter, bias, .. }
            | Self::Convolution(Convolution { input, filter, bias, .. }) => (&[], [Some(*input), Some(*filter), *bias]),
            Self::Unary { input, .. }
            | Self::Softmax { input, .. }
            | Self::Convert { input, .. }
            | Self::Pool { input, .. }
            | Self::GlobalAveragePool { input, .. }
            | Self::ArgMaxPool { input, .. }
            | Self::Transpose { input, .. }
            | Self::Reshape { input, .. }
            | Self::Slice { input, .. }
            | Self::Pad { input, .. }
            | Self::ResizeBilinear { input, .. } => (&[], [Some(*input), None, None]),
        };
        list.iter().copied().chain(rest.into_iter().flatten())
    }

    /// The values that the node writes: one, or two for [`NodeKind::ArgMaxPool`].
    pub fn outputs(&self) -> impl Iterator<Item = ValueId> {
        let (output, second) = match self {
            Self::ArgMaxPool { output, indices, .. } => (*output, Some(*indices)),
            Self::Convolution(Convolution { output, .. })
            | Self::Unary { output, .. }
            | Self::Binary { output, .. }
            | Self::Softmax { output, .. }
            | Self::Convert { output, .. }
            | Self::FullyConnected { output, .. }
            | Self::BatchMatrixMultiply { output, .. }
            | Self::Pool { output, .. }
            | Self::GlobalAveragePool { output, .. }
            | Self::Concatenate { output, .. }
            | Self::Transpose { output, .. }
            | Self::Reshape { output, .. }
            | Self::Slice { output, .. }
            | Self::Pad { output, .. }
            | Self::ResizeBilinear { output, .. } => (*output, None),
        };
        [output].into_iter().chain(second)
    }

    /// Whether ExecuTorch applies a node's output range on this kind. Reading drops it on others, as ExecuTorch does.
    #[must_use]
    pub fn has_output_range(&self) -> bool {
        match self {
            Self::Unary { op, .. } => *op == UnaryOp::Clamp,
            Self::Binary { op, .. } => {
                matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide)
            }
            Self::FullyConnected { .. } | Self::Convolution(_) => true,
            Self::Pool { .. } | Self::GlobalAveragePool { .. } => true,
            _ => false,
        }
    }
}
