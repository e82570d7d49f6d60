mod images;

use pteron_format::xnnpack::{self as file, BinaryOp, ConvolutionKind, NodeKind, PoolOp, UnaryOp};

use super::{Delegate, dynamic, float, int8, quantised, spatial};
use crate::ops::{convolution, fused_linear, q8_conv};
use crate::testing::{noise, noise_bytes};

pub(super) const TOLERANCE: f32 = 2e-5;

pub(super) fn unary(op: UnaryOp, value: fn(&[u32]) -> file::Value, range: Option<(f32, f32)>) -> Delegate {
    let mut delegate = Delegate::default();
    let input = delegate.input(value(&[3, 4, 5]));
    let output = delegate.output(value(&[3, 4, 5]));
    delegate.node(NodeKind::Unary { op, input, output }, range);
    delegate
}

#[test]
fn functions_of_one_value() {
    let bytes = |dims: &[u32]| int8(dims, 0.02, 3);
    for op in [
        UnaryOp::Abs,
        UnaryOp::Ceiling,
        UnaryOp::Copy,
        UnaryOp::Cos,
        UnaryOp::Elu { alpha: 0.7 },
        UnaryOp::Exp,
        UnaryOp::Floor,
        UnaryOp::Gelu,
        UnaryOp::HardSwish,
        UnaryOp::LeakyRelu { slope: 0.1 },
        UnaryOp::Negate,
        UnaryOp::Sigmoid,
        UnaryOp::Sin,
        UnaryOp::Square,
        UnaryOp::Tanh,
    ] {
        unary(op, float, None).check(&[&[&[3, 4, 5]], &[&[1, 2, 5]]], TOLERANCE);
        if !matches!(op, UnaryOp::Ceiling | UnaryOp::Floor | UnaryOp::Exp) {
            unary(op, bytes, None).check(&[&[&[3, 4, 5]]], 0.0);
        }
    }
    unary(UnaryOp::Clamp, float, Some((-0.5, f32::INFINITY))).check(&[&[&[3, 4, 5]]], 0.0);
    unary(UnaryOp::Clamp, bytes, Some((0.0, 1.2))).check(&[&[&[3, 4, 5]]], 0.0);
    // Of positive numbers.
    for op in [UnaryOp::Log, UnaryOp::SquareRoot, UnaryOp::ReciprocalSquareRoot] {
        let mut delegate = Delegate::default();
        let input = delegate.input(float(&[7]));
        let square = delegate.value(float(&[7]));
        let output = delegate.output(float(&[7]));
        delegate.node(NodeKind::Unary { op: UnaryOp::Exp, input, output: square }, None);
        delegate.node(NodeKind::Unary { op, input: square, output }, None);
        delegate.check(&[&[&[7]], &[&[2]]], TOLERANCE);
    }
}

#[test]
fn functions_of_two_values() {
    for op in [
        BinaryOp::Add,
        BinaryOp::Divide,
        BinaryOp::Maximum,
        BinaryOp::Minimum,
        BinaryOp::Multiply,
        BinaryOp::PRelu,
        BinaryOp::Subtract,
    ] {
        let range = matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply).then_some((-0.3, 0.8));
        for range in [None, range] {
            let mut delegate = Delegate::default();
            let inputs = [delegate.input(float(&[2, 3, 5])), delegate.floats(&[5], 7)];
            let output = delegate.output(float(&[2, 3, 5]));
            delegate.node(NodeKind::Binary { op, inputs, output }, range);
            delegate.check(&[&[&[2, 3, 5]], &[&[1, 1, 5]]], TOLERANCE);
            if op == BinaryOp::Divide {
                continue;
            }
            let mut delegate = Delegate::default();
            let inputs = [delegate.input(int8(&[2, 3, 5], 0.02, 3)), delegate.input(int8(&[3, 1], 0.013, -7))];
            let output = delegate.output(int8(&[2, 3, 5], 0.031, 5));
            delegate.node(NodeKind::Binary { op, inputs, output }, range);
            delegate.check(&[&[&[2, 3, 5], &[3, 1]], &[&[1, 3, 5], &[1, 1]]], 0.0);
        }
    }
}

#[test]
fn softmax_is_over_the_last_dim() {
    let mut delegate = Delegate::default();
    let input = delegate.input(float(&[3, 9]));
    let output = delegate.output(float(&[3, 9]));
    delegate.node(NodeKind::Softmax { input, output }, None);
    delegate.check(&[&[&[3, 9]], &[&[1, 4]]], TOLERANCE);
}

#[test]
fn conversions_round_to_even() {
    let values = [float(&[5, 8]), int8(&[5, 8], 0.017, -4), int8(&[5, 8], 0.04, 9), int8(&[5, 8], 0.017, -4)];
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3)] {
        let mut delegate = Delegate::default();
        let input = delegate.input(values[from].clone());
        let output = delegate.output(values[to].clone());
        delegate.node(NodeKind::Convert { input, output }, None);
        delegate.check(&[&[&[5, 8]], &[&[1, 3]]], 0.0);
    }
}

/// A constant filter of integers, with scales of a kind.
pub(super) fn filter(
    delegate: &mut Delegate,
    dtype: file::DataType,
    dims: &[u32],
    quantization: file::Quantization,
) -> file::ValueId {
    let value = file::Value { quantization: Some(quantization), ..file::Value::new(dtype, dims) };
    let len = usize::try_from(value.byte_len().unwrap()).unwrap();
    let mut bytes = noise_bytes(11, len);
    if dtype.is_4bit() && dims[1] % 2 == 1 {
        bytes.chunks_exact_mut(dims[1].div_ceil(2) as usize).for_each(|row| *row.last_mut().unwrap() &= 15);
    }
    delegate.constant(value, bytes)
}

fn scales(count: u32) -> Vec<f32> {
    noise(12, count as usize).iter().map(|scale| 0.004 + scale.abs() * 0.003).collect()
}

pub(super) fn per_channel(delegate: &mut Delegate, count: u32, axis: u32, inline: bool) -> file::Quantization {
    let scales = scales(count);
    if inline {
        return file::Quantization::PerChannel { axis, scales: file::Scales::Inline(scales) };
    }
    let id = delegate.bytes(bytemuck::cast_slice(&scales).to_vec());
    file::Quantization::PerChannel { axis, scales: file::Scales::Constant { id, count } }
}

pub(super) fn per_group([n, k]: [u32; 2], group_size: u32) -> file::Quantization {
    file::Quantization::PerGroup { axis: 0, group_size, scales: file::Scales::Inline(scales(n * k / group_size)) }
}

/// The same with scales in a constant of 16-bit floats.
fn per_group_in_constant(delegate: &mut Delegate, [n, k]: [u32; 2], group_size: u32) -> file::Quantization {
    let count = n * k / group_size;
    let id = delegate.bytes(scales(count).iter().flat_map(|scale| scale.to_le_bytes()[2..].to_vec()).collect());
    file::Quantization::PerGroup { axis: 0, group_size, scales: file::Scales::Constant { id, count } }
}

pub(super) fn integers(delegate: &mut Delegate, count: u32) -> file::ValueId {
    let values: Vec<i32> = noise(13, count as usize).iter().map(|value| (value * 900.0) as i32).collect();
    let value = quantised(file::DataType::QInt32, &[count], 0.001, 0);
    delegate.constant(value, bytemuck::cast_slice(&values).to_vec())
}

#[test]
fn fully_connected_layers_of_floats() {
    for transposed_filter in [false, true] {
        for (dims, out) in [(&[6, 24][..], &[6, 8][..]), (&[2, 3, 24], &[2, 3, 8])] {
            let mut delegate = Delegate::default();
            let input = delegate.input(float(dims));
            let filter = delegate.floats(if transposed_filter { &[24, 8] } else { &[8, 24] }, 3);
            let bias = Some(delegate.floats(&[8], 4));
            let output = delegate.output(float(out));
            let kind = NodeKind::FullyConnected { input, filter, bias, output, transposed_filter };
            delegate.node(kind, Some((0.0, f32::INFINITY)));
            let mut live = dims.to_vec();
            live[0] = 1;
            delegate.check(&[&[dims], &[&live]], TOLERANCE);
        }
    }
}

#[test]
fn fully_connected_layers_of_integers_are_exact() {
    let layers = [(12, 32, true, true), (7, 13, false, true), (33, 40, true, false)];
    for ((n, k, channels, bias), transposed_filter) in layers.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let dims = if transposed_filter { [k, n] } else { [n, k] };
        let mut delegate = Delegate::default();
        let input = delegate.input(int8(&[5, k], 0.02, -3));
        let filter = if channels {
            let quantization = per_channel(&mut delegate, n, transposed_filter.into(), n == 12);
            filter(&mut delegate, file::DataType::QcInt8, &dims, quantization)
        } else {
            let quantization = file::Quantization::PerTensor { scale: 0.007, zero_point: 0 };
            filter(&mut delegate, file::DataType::QInt8, &dims, quantization)
        };
        let bias = bias.then(|| integers(&mut delegate, n));
        let output = delegate.output(int8(&[5, n], 0.09, 11));
        let kind = NodeKind::FullyConnected { input, filter, bias, output, transposed_filter };
        delegate.node(kind, (n == 7).then_some((0.0, f32::INFINITY)));
        delegate.check(&[&[&[5, k]], &[&[1, k]]], 0.0);
    }
}

/// Linears of rows that are quantised when the graph runs, with filters of each kind.
#[test]
fn fully_connected_layers_of_dynamic_rows() {
    for (n, k, dtype, group) in [
        (12, 64, file::DataType::QbInt4, 32),
        (8, 128, file::DataType::QbInt4, 64),
        (10, 64, file::DataType::QbInt4, 32),
        (16, 96, file::DataType::QcInt4, 0),
        (9, 15, file::DataType::QcInt4, 0),
        (12, 40, file::DataType::QcInt8, 0),
        (5, 7, file::DataType::QcInt8, 0),
    ] {
        for row_quantised in [true, false] {
            let mut delegate = Delegate::default();
            let input = delegate.input(float(&[9, k]));
            let rows = delegate.value(dynamic(&[9, k], 1));
            if row_quantised {
                delegate.node(NodeKind::Convert { input, output: rows }, None);
            }
            let quantization = match dtype {
                file::DataType::QbInt4 if n == 8 => per_group([n, k], group),
                file::DataType::QbInt4 => per_group_in_constant(&mut delegate, [n, k], group),
                _ => per_channel(&mut delegate, n, 0, false),
            };
            let filter = filter(&mut delegate, dtype, &[n, k], quantization);
            let bias = Some(delegate.floats(&[n], 5));
            let output = delegate.output(float(&[9, n]));
            let input = if row_quantised { rows } else { input };
            delegate.node(NodeKind::FullyConnected { input, filter, bias, output, transposed_filter: false }, None);
            delegate.check(&[&[&[9, k]], &[&[1, k]], &[&[3, k]]], TOLERANCE);
            let fused = delegate.operators() == [fused_linear::NAME];
            let expected = dtype.is_4bit() && n % 4 == 0 && k % 32 == 0;
            assert_eq!(fused, expected, "{n} × {k} of {dtype:?}: {:?}", delegate.operators());
        }
    }
}

#[test]
fn transposed_filters_of_dynamic_rows() {
    for [n, k] in [[12, 40], [5, 7]] {
        let mut delegate = Delegate::default();
        let input = delegate.input(float(&[9, k]));
        let rows = delegate.value(dynamic(&[9, k], 1));
        delegate.node(NodeKind::Convert { input, output: rows }, None);
        let quantization = per_channel(&mut delegate, n, 1, false);
        let filter = filter(&mut delegate, file::DataType::QcInt8, &[k, n], quantization);
        let output = delegate.output(float(&[9, n]));
        let kind = NodeKind::FullyConnected { input: rows, filter, bias: None, output, transposed_filter: true };
        delegate.node(kind, None);
        delegate.check(&[&[&[9, k]], &[&[1, k]]], TOLERANCE);
    }
}

#[test]
fn products_of_matrices() {
    for transposed_second in [false, true] {
        let mut delegate = Delegate::default();
        let inputs = [
            delegate.input(float(&[2, 3, 4, 8])),
            delegate.input(float(if transposed_second { &[2, 3, 5, 8] } else { &[2, 3, 8, 5] })),
        ];
        let output = delegate.output(float(&[2, 3, 4, 5]));
        delegate.node(NodeKind::BatchMatrixMultiply { inputs, output, transposed_second }, None);
        let second: &[u32] = if transposed_second { &[2, 3, 5, 8] } else { &[2, 3, 8, 5] };
        let live: &[u32] = if transposed_second { &[1, 3, 5, 8] } else { &[1, 3, 8, 5] };
        delegate.check(&[&[&[2, 3, 4, 8], second], &[&[1, 3, 2, 8], live]], TOLERANCE);
    }
}

/// A convolution of an image of 6 × 7 pixels.
pub(super) struct Conv {
    pub(super) kind: ConvolutionKind,
    pub(super) groups: u32,
    /// Channels of a group, in and out.
    pub(super) channels: [u32; 2],
    pub(super) kernel: file::Spatial,
    pub(super) stride: file::Spatial,
    pub(super) dilation: file::Spatial,
    pub(super) padding: file::Padding,
    pub(super) adjustment: file::Spatial,
}

impl Conv {
    pub(super) fn new(kind: ConvolutionKind, groups: u32, channels: [u32; 2]) -> Self {
        let (kernel, stride, dilation) = (spatial(3, 2), spatial(1, 1), spatial(1, 1));
        let (padding, adjustment) = (file::Padding::default(), spatial(0, 0));
        Self { kind, groups, channels, kernel, stride, dilation, padding, adjustment }
    }

    pub(super) fn filter_dims(&self) -> [u32; 4] {
        let [ins, outs] = self.channels;
        match self.kind {
            ConvolutionKind::Depthwise => [1, self.kernel.height, self.kernel.width, self.groups * outs],
            _ => [self.groups * outs, self.kernel.height, self.kernel.width, ins],
        }
    }

    pub(super) fn out_dims(&self) -> [u32; 4] {
        let size = |size: u32, kernel: u32, stride: u32, dilation: u32, pads: u32, more: u32| {
            let span = (kernel - 1) * dilation + 1;
            match self.kind {
                ConvolutionKind::Transposed => stride * (size - 1) + more + span - pads,
                _ => (size + pads - span) / stride + 1,
            }
        };
        let pads = [self.padding.top + self.padding.bottom, self.padding.left + self.padding.right];
        let height = size(6, self.kernel.height, self.stride.height, self.dilation.height, pads[0], self.adjustment.height);
        let width = size(7, self.kernel.width, self.stride.width, self.dilation.width, pads[1], self.adjustment.width);
        [2, height, width, self.groups * self.channels[1]]
    }

    pub(super) fn node(&self, operands: [file::ValueId; 4]) -> NodeKind {
        let [input, filter, bias, output] = operands;
        NodeKind::Convolution(file::Convolution {
            kind: self.kind,
            padding: self.padding,
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            adjustment: self.adjustment,
            groups: self.groups,
            group_input_channels: self.channels[0],
            group_output_channels: self.channels[1],
            input,
            filter,
            bias: Some(bias),
            output,
        })
    }

    pub(super) fn all() -> Vec<Self> {
        let padding = file::Padding { top: 1, right: 1, bottom: 0, left: 2 };
        vec![
            Self { padding, ..Self::new(ConvolutionKind::Direct, 1, [3, 8]) },
            Self {
                stride: spatial(2, 2),
                dilation: spatial(2, 1),
                padding,
                ..Self::new(ConvolutionKind::Direct, 1, [8, 6])
            },
            Self { padding, ..Self::new(ConvolutionKind::Direct, 2, [4, 4]) },
            Self { padding, ..Self::new(ConvolutionKind::Depthwise, 8, [1, 1]) },
            Self { stride: spatial(2, 1), ..Self::new(ConvolutionKind::Depthwise, 3, [1, 2]) },
            Self { stride: spatial(2, 2), ..Self::new(ConvolutionKind::Transposed, 1, [4, 8]) },
            Self {
                stride: spatial(2, 3),
                adjustment: spatial(1, 0),
                padding: file::Padding { top: 1, right: 0, bottom: 1, left: 1 },
                ..Self::new(ConvolutionKind::Transposed, 2, [3, 4])
            },
        ]
    }
}

#[test]
fn convolutions_of_floats_have_channels_last() {
    for conv in Conv::all() {
        let channels = conv.groups * conv.channels[1];
        let mut delegate = Delegate::default();
        let input = delegate.input(float(&[2, 6, 7, conv.groups * conv.channels[0]]));
        let filter = delegate.floats(&conv.filter_dims(), 3);
        let bias = delegate.floats(&[channels], 4);
        let output = delegate.output(float(&conv.out_dims()));
        delegate.node(conv.node([input, filter, bias, output]), Some((-0.4, 2.0)));
        let whole = [2, 6, 7, conv.groups * conv.channels[0]];
        delegate.check(&[&[&whole], &[&[1, 5, 6, whole[3]]]], TOLERANCE);
        let alone = [convolution::fused::NAME];
        let computes = convolution::fused::computes(conv.groups, conv.channels);
        assert_eq!(delegate.operators() == alone, computes, "{:?}", delegate.operators());
    }
}

#[test]
fn convolutions_of_integers_are_exact() {
    for conv in Conv::all() {
        let channels = conv.groups * conv.channels[1];
        let mut delegate = Delegate::default();
        let whole = [2, 6, 7, conv.groups * conv.channels[0]];
        let input = delegate.input(int8(&whole, 0.02, -6));
        let axis = if conv.kind == ConvolutionKind::Depthwise { 3 } else { 0 };
        let quantization = per_channel(&mut delegate, channels, axis, false);
        let filter = filter(&mut delegate, file::DataType::QcInt8, &conv.filter_dims(), quantization);
        let bias = integers(&mut delegate, channels);
        let output = delegate.output(int8(&conv.out_dims(), 0.06, 7));
        delegate.node(conv.node([input, filter, bias, output]), Some((0.0, 5.0)));
        delegate.check(&[&[&whole], &[&[1, 5, 6, whole[3]]]], 0.0);
        assert_eq!(delegate.operators(), [q8_conv::requantised::NAME]);
    }
}
