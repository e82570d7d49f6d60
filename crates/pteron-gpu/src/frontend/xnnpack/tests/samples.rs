//! Translated graphs with calls, one of each operator that no file calls.

use pteron_format::xnnpack::{self as file, BinaryOp, ConvolutionKind, NodeKind, UnaryOp};

use super::cases::{Conv, filter, integers, per_channel, per_group, unary};
use super::{Delegate, dynamic, float, int8, spatial};
use crate::frontend::builder::ConstantOrigin;
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, dims, noise, noise_bytes};

/// A graph and the inputs of its calls.
type Sample = (GraphBuilder, Vec<Vec<HostTensor>>);

impl Delegate {
    /// The translated graph, called with inputs of these dims.
    fn sample(&self, shapes: &[&[&[u32]]]) -> Sample {
        let built = self.translated().unwrap();
        let bytes = |origin: &ConstantOrigin| match origin {
            ConstantOrigin::Delegate { constant, .. } => self.constants[*constant as usize].clone(),
            ConstantOrigin::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        let constants = built.origins.iter().map(bytes).collect();
        let inputs: Vec<file::DataType> = self
            .graph
            .externals()
            .filter(|(_, external)| !external.output)
            .filter_map(|(id, _)| Some(self.graph.value(id)?.dtype))
            .collect();
        let tensor = |(&dtype, shape): (&file::DataType, &&[u32])| {
            let count = shape.iter().product::<u32>() as usize;
            let data = match dtype {
                file::DataType::QInt8 => HostData::U8(noise_bytes(count as u64, count)),
                _ => HostData::F32(noise(count as u64, count)),
            };
            HostTensor { dims: dims(shape), data }
        };
        let calls = shapes.iter().map(|shapes| inputs.iter().zip(*shapes).map(tensor).collect()).collect();
        (GraphBuilder { graph: built.graph, constants }, calls)
    }
}

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = elementwise();
    samples.extend([int8_layer(), int8_convolution(), float_convolution(), moved(), resized(), product(), mean()]);
    samples.extend([file::DataType::QbInt4, file::DataType::QcInt8].map(|dtype| rows(dtype, true)));
    samples.push(rows(file::DataType::QcInt4, false));
    samples
}

fn elementwise() -> Vec<Sample> {
    let clamp = unary(UnaryOp::Clamp, |dims| int8(dims, 0.02, 3), Some((0.0, 1.2)));
    let mut samples = vec![clamp.sample(&[&[&[3, 4, 5]], &[&[1, 2, 5]]])];
    for op in [BinaryOp::Add, BinaryOp::Multiply] {
        let mut delegate = Delegate::default();
        let inputs = [delegate.input(int8(&[4, 6], 0.02, 3)), delegate.input(int8(&[4, 6], 0.013, -7))];
        let output = delegate.output(int8(&[4, 6], 0.031, 5));
        delegate.node(NodeKind::Binary { op, inputs, output }, None);
        samples.push(delegate.sample(&[&[&[4, 6], &[4, 6]], &[&[1, 3], &[1, 3]]]));
    }
    let mut delegate = Delegate::default();
    let input = delegate.input(int8(&[4, 6], 0.02, 3));
    let output = delegate.output(int8(&[4, 6], 0.03, 0));
    delegate.node(NodeKind::Convert { input, output }, None);
    samples.push(delegate.sample(&[&[&[4, 6]], &[&[2, 5]]]));
    let mut delegate = Delegate::default();
    let inputs = [delegate.input(float(&[4, 6])), delegate.floats(&[6], 1)];
    let output = delegate.output(float(&[4, 6]));
    delegate.node(NodeKind::Binary { op: BinaryOp::PRelu, inputs, output }, None);
    samples.push(delegate.sample(&[&[&[4, 6]], &[&[2, 6]]]));
    samples
}

fn int8_layer() -> Sample {
    let mut delegate = Delegate::default();
    let input = delegate.input(int8(&[5, 24], 0.02, -3));
    let quantization = per_channel(&mut delegate, 8, 0, false);
    let filter = filter(&mut delegate, file::DataType::QcInt8, &[8, 24], quantization);
    let bias = Some(integers(&mut delegate, 8));
    let output = delegate.output(int8(&[5, 8], 0.09, 11));
    delegate.node(NodeKind::FullyConnected { input, filter, bias, output, transposed_filter: false }, None);
    delegate.sample(&[&[&[5, 24]], &[&[1, 24]]])
}

/// Linears of rows that are quantised when the graph runs, or of floats.
fn rows(dtype: file::DataType, quantised: bool) -> Sample {
    let mut delegate = Delegate::default();
    let mut input = delegate.input(float(&[9, 64]));
    if quantised {
        let rows = delegate.value(dynamic(&[9, 64], 1));
        delegate.node(NodeKind::Convert { input, output: rows }, None);
        input = rows;
    }
    let quantization = match dtype {
        file::DataType::QbInt4 => per_group([12, 64], 32),
        _ => per_channel(&mut delegate, 12, 0, true),
    };
    let filter = filter(&mut delegate, dtype, &[12, 64], quantization);
    let output = delegate.output(float(&[9, 12]));
    delegate.node(NodeKind::FullyConnected { input, filter, bias: None, output, transposed_filter: false }, None);
    delegate.sample(&[&[&[9, 64]], &[&[1, 64]], &[&[5, 64]]])
}

fn int8_convolution() -> Sample {
    let conv = Conv::new(ConvolutionKind::Direct, 1, [4, 8]);
    let mut delegate = Delegate::default();
    let input = delegate.input(int8(&[2, 6, 7, 4], 0.02, -6));
    let quantization = per_channel(&mut delegate, 8, 0, false);
    let filter = filter(&mut delegate, file::DataType::QcInt8, &conv.filter_dims(), quantization);
    let bias = integers(&mut delegate, 8);
    let output = delegate.output(int8(&conv.out_dims(), 0.06, 7));
    delegate.node(conv.node([input, filter, bias, output]), None);
    delegate.sample(&[&[&[2, 6, 7, 4]], &[&[1, 3, 4, 4]]])
}

/// A convolution whose channels are no whole vectors.
fn float_convolution() -> Sample {
    let conv = Conv::new(ConvolutionKind::Direct, 1, [4, 7]);
    let mut delegate = Delegate::default();
    let input = delegate.input(float(&[2, 6, 7, 4]));
    let [filter, bias] = [delegate.floats(&conv.filter_dims(), 3), delegate.floats(&[7], 4)];
    let output = delegate.output(float(&conv.out_dims()));
    delegate.node(conv.node([input, filter, bias, output]), None);
    delegate.sample(&[&[&[2, 6, 7, 4]], &[&[1, 3, 4, 4]]])
}

fn moved() -> Sample {
    let mut delegate = Delegate::default();
    let input = delegate.input(float(&[4, 6]));
    let output = delegate.output(float(&[8, 3]));
    delegate.node(NodeKind::Reshape { dims: vec![0, 3], input, output }, None);
    delegate.sample(&[&[&[4, 6]], &[&[1, 6]]])
}

fn resized() -> Sample {
    let mut delegate = Delegate::default();
    let input = delegate.input(float(&[2, 5, 4, 3]));
    let output = delegate.output(float(&[2, 8, 9, 3]));
    delegate.node(NodeKind::ResizeBilinear { size: spatial(8, 9), align_corners: false, input, output }, None);
    delegate.sample(&[&[&[2, 5, 4, 3]], &[&[1, 2, 3, 3]]])
}

fn product() -> Sample {
    let mut delegate = Delegate::default();
    let inputs = [delegate.input(float(&[2, 3, 4, 8])), delegate.input(float(&[2, 3, 8, 5]))];
    let output = delegate.output(float(&[2, 3, 4, 5]));
    delegate.node(NodeKind::BatchMatrixMultiply { inputs, output, transposed_second: false }, None);
    delegate.sample(&[&[&[2, 3, 4, 8], &[2, 3, 8, 5]], &[&[1, 3, 2, 8], &[1, 3, 8, 5]]])
}

fn mean() -> Sample {
    let mut delegate = Delegate::default();
    let input = delegate.input(int8(&[2, 5, 6, 7], 0.02, 3));
    let output = delegate.output(int8(&[2, 1, 1, 7], 0.011, -5));
    delegate.node(NodeKind::GlobalAveragePool { input, output }, None);
    delegate.sample(&[&[&[2, 5, 6, 7]], &[&[1, 2, 3, 7]]])
}
