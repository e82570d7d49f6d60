//! A small XNNPACK graph with every kind of node, value and quantisation, and a program that calls it.

use pteron_format::program::{Chain, DataRef, Delegate, ExecutionPlan, Instruction, NamedData, SegmentId, Tensor};
use pteron_format::program::{Value as PlanValue, ValueId as PlanId};
use pteron_format::xnnpack::{
    BACKEND_ID, BinaryOp, Constant, ConstantId, ConstantSource, Convolution, ConvolutionKind, DataType, External, Graph,
    Node, NodeKind, OutputRange, Padding, PoolOp, Quantization, Scales, Spatial, UnaryOp, Value, ValueId, write_blob,
};
use pteron_format::{Program, ScalarType};

/// The key of the constant that is named data.
pub(crate) const KEY: &str = "scale_0123";
/// The length of that constant: 16 scales of bfloat16.
pub(crate) const NAMED_LEN: usize = 32;

/// Adds values and nodes to a graph. Constants are zeros in the stored bytes, one after the other.
#[derive(Default)]
pub(crate) struct Build {
    pub(crate) graph: Graph,
    pub(crate) stored: Vec<u8>,
}

impl Build {
    fn push(&mut self, value: Value) -> ValueId {
        self.graph.values.push(value);
        ValueId(u32::try_from(self.graph.values.len() - 1).unwrap())
    }

    /// A value that a node writes.
    pub(crate) fn value(&mut self, dtype: DataType, dims: &[u32], quantization: Option<Quantization>) -> ValueId {
        self.push(Value { quantization, ..Value::new(dtype, dims) })
    }

    pub(crate) fn float(&mut self, dims: &[u32]) -> ValueId {
        self.value(DataType::Float32, dims, None)
    }

    /// An argument of the call.
    pub(crate) fn external(&mut self, index: u32, output: bool, dtype: DataType, dims: &[u32]) -> ValueId {
        self.graph.external_count = self.graph.external_count.max(index + 1);
        self.push(Value { external: Some(External { index, output }), ..Value::new(dtype, dims) })
    }

    fn stored_constant(&mut self, len: u64) -> ConstantId {
        let source = ConstantSource::Stored(self.stored.len() as u64);
        let padded = usize::try_from(len).unwrap().next_multiple_of(16);
        self.stored.resize(self.stored.len() + padded, 0);
        self.graph.constants.push(Constant { len, source });
        ConstantId(u32::try_from(self.graph.constants.len() - 1).unwrap())
    }

    /// A constant of zeros.
    pub(crate) fn constant(&mut self, dtype: DataType, dims: &[u32], quantization: Option<Quantization>) -> ValueId {
        let value = Value { quantization, ..Value::new(dtype, dims) };
        let constant = Some(self.stored_constant(value.byte_len().unwrap()));
        self.push(Value { constant, ..value })
    }

    pub(crate) fn node(&mut self, kind: NodeKind) {
        self.graph.nodes.push(Node { kind, output_range: None, debug_handle: 3 });
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, input: ValueId) -> ValueId {
        let value = &self.graph.values[input.index()];
        let output = self.push(Value { external: None, ..value.clone() });
        self.node(NodeKind::Unary { op, input, output });
        output
    }

    fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let value = Value { external: None, constant: None, ..self.graph.values[a.index()].clone() };
        let output = self.push(value);
        self.node(NodeKind::Binary { op, inputs: [a, b], output });
        output
    }

    fn linear(&mut self, input: ValueId, filter: ValueId, bias: Option<ValueId>, output: ValueId) {
        self.node(NodeKind::FullyConnected { input, filter, bias, output, transposed_filter: false });
    }

    fn clamp_last(&mut self, min: f32, max: f32) {
        self.graph.nodes.last_mut().unwrap().output_range = Some(OutputRange { min, max });
    }
}

pub(crate) fn per_tensor(scale: f32, zero_point: i32) -> Option<Quantization> {
    Some(Quantization::PerTensor { scale, zero_point })
}

pub(crate) fn per_channel(axis: u32, count: usize) -> Option<Quantization> {
    Some(Quantization::PerChannel { axis, scales: Scales::Inline(vec![0.5; count]) })
}

fn same(size: u32) -> Spatial {
    Spatial { height: size, width: size }
}

/// Linear layers of every kind of weights.
fn add_linears(b: &mut Build, x: ValueId) -> ValueId {
    let row = || Some(Quantization::PerToken { row_dims: 1 });
    let dynamic = b.value(DataType::QdInt8, &[2, 64], row());
    b.node(NodeKind::Convert { input: x, output: dynamic });
    // 16 scales of two bytes, as named data.
    b.graph.constants.push(Constant { len: NAMED_LEN as u64, source: ConstantSource::Named(KEY.to_owned()) });
    let scales = Scales::Constant { id: ConstantId(0), count: 16 };
    let groups = Quantization::PerGroup { axis: 0, group_size: 32, scales };
    let filter = b.constant(DataType::QbInt4, &[8, 64], Some(groups));
    let bias = b.constant(DataType::Float32, &[8], None);
    let y = b.float(&[2, 8]);
    b.linear(dynamic, filter, Some(bias), y);

    let cut = b.float(&[2, 7]);
    b.node(NodeKind::Slice { offsets: vec![0, 1], sizes: vec![2, 7], input: y, output: cut });
    let dynamic = b.value(DataType::QdInt8, &[2, 7], row());
    b.node(NodeKind::Convert { input: cut, output: dynamic });
    let filter = b.constant(DataType::QcInt4, &[5, 7], per_channel(0, 5));
    let narrow = b.float(&[2, 5]);
    b.linear(dynamic, filter, None, narrow);

    let quantised = b.value(DataType::QInt8, &[2, 8], per_tensor(0.5, 3));
    b.node(NodeKind::Convert { input: y, output: quantised });
    let scales = b.stored_constant(4 * 4);
    let scales = || Scales::Constant { id: scales, count: 4 };
    let filter = b.constant(DataType::QcInt8, &[4, 8], Some(Quantization::PerChannel { axis: 0, scales: scales() }));
    let bias = b.constant(DataType::QcInt32, &[4], Some(Quantization::PerChannel { axis: 0, scales: scales() }));
    let result = b.value(DataType::QInt8, &[2, 4], per_tensor(0.25, -7));
    b.linear(quantised, filter, Some(bias), result);
    b.clamp_last(0.0, f32::INFINITY);
    let filter = b.constant(DataType::QInt8, &[4, 8], per_tensor(0.125, 0));
    let bias = b.constant(DataType::QInt32, &[1, 4], per_tensor(0.0625, 0));
    let again = b.value(DataType::QInt8, &[2, 4], per_tensor(0.25, -7));
    b.linear(quantised, filter, Some(bias), again);
    let sum = b.binary(BinaryOp::Add, result, again);
    b.clamp_last(-1.0, 1.0);
    let back = b.float(&[2, 4]);
    b.node(NodeKind::Convert { input: sum, output: back });
    back
}

/// Convolutions and windows over an image of 6 by 6.
fn add_images(b: &mut Build, x: ValueId) -> (ValueId, ValueId) {
    let no_padding = Padding::default();
    let filter = b.constant(DataType::Float32, &[4, 3, 3, 2], None);
    let bias = Some(b.constant(DataType::Float32, &[4], None));
    let direct = b.float(&[1, 4, 4, 4]);
    let params = Convolution {
        kind: ConvolutionKind::Direct,
        padding: no_padding,
        kernel: same(3),
        stride: same(1),
        dilation: same(1),
        adjustment: same(0),
        groups: 1,
        group_input_channels: 2,
        group_output_channels: 4,
        input: x,
        filter,
        bias,
        output: direct,
    };
    b.node(NodeKind::Convolution(params));
    let filter = b.constant(DataType::Float32, &[1, 3, 3, 4], None);
    let (kind, output, bias) = (ConvolutionKind::Depthwise, b.float(&[1, 2, 2, 4]), None);
    let (groups, group_input_channels, group_output_channels) = (4, 1, 1);
    let params = Convolution {
        kind,
        groups,
        group_input_channels,
        group_output_channels,
        input: direct,
        filter,
        bias,
        output,
        ..params
    };
    b.node(NodeKind::Convolution(params));
    let filter = b.constant(DataType::Float32, &[2, 2, 2, 4], None);
    let (kind, input, output) = (ConvolutionKind::Transposed, output, b.float(&[1, 4, 4, 2]));
    let (groups, group_input_channels, group_output_channels) = (1, 4, 2);
    let (kernel, stride) = (same(2), same(2));
    let params = Convolution {
        kind,
        groups,
        group_input_channels,
        group_output_channels,
        kernel,
        stride,
        input,
        filter,
        output,
        ..params
    };
    b.node(NodeKind::Convolution(params));
    let mut pooled = output;
    for op in [PoolOp::Max, PoolOp::Average] {
        let size = b.graph.values[pooled.index()].dims[1] / 2;
        let output = b.float(&[1, size, size, 2]);
        let (padding, kernel, stride, dilation) = (no_padding, same(2), same(2), same(1));
        b.node(NodeKind::Pool { op, padding, kernel, stride, dilation, input: pooled, output });
        pooled = output;
    }
    let output = b.float(&[1, 4, 6, 2]);
    let size = Spatial { height: 4, width: 6 };
    b.node(NodeKind::ResizeBilinear { size, align_corners: true, input: pooled, output });
    let mean = b.float(&[1, 1, 1, 2]);
    b.node(NodeKind::GlobalAveragePool { input: output, output: mean });
    let maxima = b.float(&[1, 2, 3, 2]);
    let indices = b.external(4, true, DataType::Int32, &[1, 2, 3, 2]);
    b.node(NodeKind::ArgMaxPool { padding: no_padding, kernel: same(2), input: output, output: maxima, indices });
    let slopes = b.constant(DataType::Float32, &[2], None);
    (b.binary(BinaryOp::PRelu, maxima, slopes), mean)
}

/// Every function, and every way to move elements.
fn add_elementwise(b: &mut Build, mut x: ValueId) -> ValueId {
    use UnaryOp as U;
    let ops =
        [U::Abs, U::Ceiling, U::Clamp, U::Copy, U::Cos, U::Elu { alpha: 1.5 }, U::Exp, U::Floor, U::Gelu, U::HardSwish];
    for op in ops {
        x = b.unary(op, x);
        if op == U::Clamp {
            b.clamp_last(-0.0, 6.0);
        }
    }
    let ops = [U::LeakyRelu { slope: -0.0 }, U::Log, U::Negate, U::ReciprocalSquareRoot, U::Sigmoid, U::Sin, U::Square];
    for op in ops.into_iter().chain([U::SquareRoot, U::Tanh]) {
        x = b.unary(op, x);
    }
    for op in [BinaryOp::Divide, BinaryOp::Maximum, BinaryOp::Minimum, BinaryOp::Multiply, BinaryOp::Subtract] {
        x = b.binary(op, x, x);
    }
    let swapped = b.float(&[4, 2]);
    b.node(NodeKind::Transpose { permutation: vec![1, 0], input: x, output: swapped });
    let product = b.float(&[2, 2]);
    b.node(NodeKind::BatchMatrixMultiply { inputs: [x, x], output: product, transposed_second: true });
    let soft = b.float(&[2, 2]);
    b.node(NodeKind::Softmax { input: product, output: soft });
    let padded = b.float(&[4, 2]);
    let (before, after, value) = (vec![1, 0], vec![1, 0], f32::NEG_INFINITY);
    b.node(NodeKind::Pad { before, after, value, input: soft, output: padded });
    let mut inputs = vec![padded, swapped];
    let mut all = padded;
    for count in [4, 6, 8, 10] {
        all = b.float(&[4, count]);
        b.node(NodeKind::Concatenate { axis: 1, inputs: inputs.clone(), output: all });
        inputs.push(padded);
    }
    let flat = b.float(&[40, 1]);
    b.node(NodeKind::Reshape { dims: vec![0, 1], input: all, output: flat });
    flat
}

/// Arguments: a row, an integer, an image; four results.
pub(crate) fn sample() -> Build {
    let mut b = Build::default();
    b.graph.version = "0".to_owned();
    let x = b.external(0, false, DataType::Float32, &[2, 64]);
    let image = b.external(2, false, DataType::Float32, &[1, 6, 6, 2]);
    let rows = add_linears(&mut b, x);
    let (pooled, mean) = add_images(&mut b, image);
    let flat = add_elementwise(&mut b, rows);
    for (index, input) in [(3, flat), (5, pooled), (6, mean)] {
        let dims = b.graph.values[input.index()].dims.clone();
        let output = b.external(index, true, DataType::Float32, &dims);
        b.node(NodeKind::Unary { op: UnaryOp::Copy, input, output });
    }
    b
}

/// A program that calls a graph with the arguments of [`sample`]: segment 0 is the blob, segment 1 the named constant.
pub(crate) fn program_of(blob: Vec<u8>) -> Program<Vec<u8>> {
    let tensor = |scalar, sizes: &[u32]| PlanValue::Tensor(Box::new(Tensor::new(scalar, sizes)));
    let float = |sizes: &[u32]| tensor(ScalarType::Float, sizes);
    let values = vec![
        float(&[2, 64]),
        PlanValue::Int(7),
        float(&[1, 6, 6, 2]),
        float(&[40, 1]),
        tensor(ScalarType::Long, &[1, 2, 3, 2]),
        float(&[1, 2, 3, 2]),
        float(&[1, 1, 1, 2]),
    ];
    let call = Instruction::DelegateCall { delegate: 0, args: (0..7).map(PlanId).collect() };
    let data = DataRef::Segment(SegmentId(0));
    let plan = ExecutionPlan {
        name: "forward".to_owned(),
        values,
        inputs: [0, 2].map(PlanId).to_vec(),
        outputs: (3..7).map(PlanId).collect(),
        chains: vec![Chain { instructions: vec![call], ..Chain::default() }],
        delegates: vec![Delegate { id: BACKEND_ID.to_owned(), data, specs: Vec::new() }],
        buffer_sizes: vec![0],
        ..ExecutionPlan::default()
    };
    Program {
        plans: vec![plan],
        segments: vec![blob, vec![0; NAMED_LEN]],
        named_data: Some(vec![NamedData { key: KEY.to_owned(), segment: SegmentId(1) }]),
        ..Program::default()
    }
}

pub(crate) fn program() -> Program<Vec<u8>> {
    let Build { graph, stored } = sample();
    program_of(write_blob(&graph, &stored).expect("the sample graph is valid"))
}
