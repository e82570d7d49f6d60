//! Pools, moves and images, and unsupported nodes.

use super::*;

#[test]
fn pools_ignore_padding() {
    let padding = file::Padding { top: 1, right: 1, bottom: 2, left: 0 };
    let bytes = |dims: &[u32]| int8(dims, 0.02, 3);
    type OfDims = fn(&[u32]) -> file::Value;
    let values: [(PoolOp, OfDims); 3] = [(PoolOp::Max, float), (PoolOp::Max, bytes), (PoolOp::Average, float)];
    for (op, value) in values {
        let dilation = if op == PoolOp::Max { spatial(1, 2) } else { spatial(1, 1) };
        let mut delegate = Delegate::default();
        let input = delegate.input(value(&[2, 7, 9, 6]));
        let span = if op == PoolOp::Max { 3 } else { 2 };
        let output = delegate.output(value(&[2, 4, 9 + 1 - span + 1, 6]));
        let (kernel, stride) = (spatial(3, 2), spatial(2, 1));
        delegate.node(NodeKind::Pool { op, padding, kernel, stride, dilation, input, output }, None);
        delegate.check(&[&[&[2, 7, 9, 6]], &[&[1, 3, 4, 6]]], TOLERANCE);
    }
}

#[test]
fn global_averages() {
    for (from, to) in
        [(float(&[2, 5, 6, 7]), float(&[2, 1, 1, 7])), (int8(&[2, 5, 6, 7], 0.02, 3), int8(&[2, 1, 1, 7], 0.011, -5))]
    {
        let mut delegate = Delegate::default();
        let input = delegate.input(from);
        let output = delegate.output(to);
        delegate.node(NodeKind::GlobalAveragePool { input, output }, None);
        delegate.check(&[&[&[2, 5, 6, 7]], &[&[1, 2, 3, 7]]], TOLERANCE);
    }
}

#[test]
fn positions_of_maxima_count_within_windows() {
    for (kernel, out) in [(spatial(4, 1), [2, 1, 6, 5]), (spatial(2, 3), [2, 2, 2, 5])] {
        let mut delegate = Delegate::default();
        let input = delegate.input(float(&[2, 4, 6, 5]));
        let output = delegate.output(float(&out));
        let indices = delegate.output(file::Value::new(file::DataType::Int32, &out));
        let padding = file::Padding::default();
        delegate.node(NodeKind::ArgMaxPool { padding, kernel, input, output, indices }, None);
        delegate.check(&[&[&[2, 4, 6, 5]], &[&[1, 4, 6, 5]]], 0.0);
    }
}

#[test]
fn nodes_that_move_elements() {
    for value in [float as fn(&[u32]) -> file::Value, |dims| int8(dims, 0.02, 3)] {
        let mut delegate = Delegate::default();
        let x = delegate.input(value(&[2, 6, 5]));
        let cut = delegate.value(value(&[2, 3, 5]));
        let turned = delegate.value(value(&[5, 2, 3]));
        let flat = delegate.value(value(&[2, 15]));
        let padded = delegate.value(value(&[3, 17]));
        let joined = delegate.output(value(&[3, 51]));
        delegate.node(NodeKind::Slice { offsets: vec![0, 2, 0], sizes: vec![2, 3, 5], input: x, output: cut }, None);
        delegate.node(NodeKind::Transpose { permutation: vec![2, 0, 1], input: cut, output: turned }, None);
        delegate.node(NodeKind::Reshape { dims: vec![0, 15], input: turned, output: flat }, None);
        delegate
            .node(NodeKind::Pad { before: vec![1, 0], after: vec![0, 2], value: 0.71, input: flat, output: padded }, None);
        delegate.node(NodeKind::Concatenate { axis: 1, inputs: vec![padded; 3], output: joined }, None);
        delegate.check(&[&[&[2, 6, 5]], &[&[1, 6, 5]]], 0.0);
    }
}

#[test]
fn a_slice_of_a_whole_dim_follows_its_live_size() {
    let mut delegate = Delegate::default();
    let input = delegate.input(float(&[8, 10]));
    let output = delegate.output(float(&[8, 7]));
    delegate.node(NodeKind::Slice { offsets: vec![0, 3], sizes: vec![8, 7], input, output }, None);
    delegate.check(&[&[&[8, 10]], &[&[5, 10]], &[&[2, 6]]], 0.0);
}

#[test]
fn images_are_resized() {
    for (align_corners, value) in
        [(false, float as fn(&[u32]) -> file::Value), (true, float), (false, |dims| int8(dims, 0.02, 3))]
    {
        let mut delegate = Delegate::default();
        let input = delegate.input(value(&[2, 5, 4, 3]));
        let output = delegate.output(value(&[2, 8, 9, 3]));
        delegate.node(NodeKind::ResizeBilinear { size: spatial(8, 9), align_corners, input, output }, None);
        delegate.check(&[&[&[2, 5, 4, 3]], &[&[1, 2, 3, 3]]], TOLERANCE);
    }
}

/// A block as in `MobileNetV2`, with transposes at its borders: nothing is copied in between.
#[test]
fn between_convolutions_nothing_is_transposed() {
    let mut delegate = Delegate::default();
    let x = delegate.input(float(&[1, 8, 6, 7]));
    let last = delegate.value(float(&[1, 6, 7, 8]));
    delegate.node(NodeKind::Transpose { permutation: vec![0, 2, 3, 1], input: x, output: last }, None);
    let convs = [
        Conv { kernel: spatial(1, 1), ..Conv::new(ConvolutionKind::Direct, 1, [8, 8]) },
        Conv { kernel: spatial(1, 1), ..Conv::new(ConvolutionKind::Direct, 1, [8, 16]) },
        Conv {
            kernel: spatial(3, 3),
            padding: file::Padding { top: 1, right: 1, bottom: 1, left: 1 },
            ..Conv::new(ConvolutionKind::Depthwise, 16, [1, 1])
        },
        Conv { kernel: spatial(1, 1), ..Conv::new(ConvolutionKind::Direct, 1, [16, 8]) },
    ];
    let (mut before, mut residual) = (last, last);
    for (at, conv) in convs.iter().enumerate() {
        let channels = conv.groups * conv.channels[1];
        let filter = delegate.floats(&conv.filter_dims(), 3);
        let bias = delegate.floats(&[channels], 4);
        let out = delegate.value(float(&[1, 6, 7, channels]));
        delegate.node(conv.node([before, filter, bias, out]), None);
        before = out;
        residual = if at == 0 { out } else { residual };
        if (1..3).contains(&at) {
            let clamped = delegate.value(float(&[1, 6, 7, channels]));
            delegate.node(NodeKind::Unary { op: UnaryOp::Clamp, input: out, output: clamped }, Some((0.0, 6.0)));
            before = clamped;
        }
    }
    let sum = delegate.value(float(&[1, 6, 7, 8]));
    delegate.node(NodeKind::Binary { op: BinaryOp::Add, inputs: [before, residual], output: sum }, None);
    let output = delegate.output(float(&[1, 8, 6, 7]));
    delegate.node(NodeKind::Transpose { permutation: vec![0, 3, 1, 2], input: sum, output }, None);
    const PERMUTE: &str = "aten.permute_copy.default";
    let fused = convolution::fused::NAME;
    assert_eq!(delegate.operators(), [PERMUTE, fused, fused, fused, fused, PERMUTE]);
    delegate.check(&[&[&[1, 8, 6, 7]]], TOLERANCE);
}

#[test]
fn unsupported_nodes_are_named_at_once() {
    let mut delegate = Delegate::default();
    let input = delegate.input(quantised(file::DataType::QUInt8, &[4], 0.1, 3));
    let [a, b] = [(); 2].map(|()| delegate.value(quantised(file::DataType::QUInt8, &[4], 0.1, 3)));
    let output = delegate.output(quantised(file::DataType::QUInt8, &[4], 0.1, 3));
    delegate.node(NodeKind::Unary { op: UnaryOp::Abs, input, output: a }, None);
    delegate.node(NodeKind::Unary { op: UnaryOp::Abs, input: a, output: b }, None);
    delegate.node(NodeKind::Binary { op: BinaryOp::Add, inputs: [a, b], output }, None);
    let error = delegate.translated().unwrap_err().to_string();
    assert!(error.contains("XNNPACK Abs of unsigned bytes (2 calls)") && error.contains("XNNPACK Add"), "{error}");
}
