//! Small XNNPACK graphs made from bytes: elementwise nodes and linears of every kind of weights, in sequence.

use pteron_format::xnnpack::{BinaryOp, DataType, NodeKind, OutputRange, Quantization, UnaryOp, ValueId};

use super::cursor::Cursor;
use crate::xnnpack_sample::{Build, per_channel};

/// A graph of rows: one or two inputs, some nodes, one or two outputs.
pub(crate) fn graph(cursor: &mut Cursor<'_>) -> Build {
    let mut build = Build::default();
    build.graph.version = "0".to_owned();
    let rows = cursor.of(&[1, 2, 3, 5]);
    let mut width = cursor.of(&[1, 2, 4, 8, 32]);
    let mut inputs = vec![build.external(0, false, DataType::Float32, &[rows, width])];
    if cursor.flip() {
        inputs.push(build.external(1, false, DataType::Float32, &[rows, width]));
    }
    let mut last = inputs[0];
    for _ in 0..1 + cursor.below(5) {
        last = match cursor.below(6) {
            0 | 1 => build.unary(cursor.of(&UNARY), last),
            2 => {
                let like = |id: &&ValueId| build.graph.values[id.index()].dims == [rows, width];
                let other = inputs.iter().find(like).copied().unwrap_or(last);
                binary(&mut build, cursor.of(&BINARY), [last, other], &[rows, width])
            }
            3 => softmax(&mut build, last, &[rows, width]),
            _ => {
                let columns = cursor.of(&[1, 3, 4, 8]);
                let output = linear(&mut build, cursor, last, [rows, width, columns]);
                width = columns;
                output
            }
        };
        if cursor.one_in(4) {
            let min = cursor.of(&[-1.0, 0.0, f32::NEG_INFINITY]);
            if let Some(node) = build.graph.nodes.last_mut() {
                node.output_range = Some(OutputRange { min, max: 6.0 });
            }
        }
    }
    let outputs = 1 + u32::from(cursor.one_in(4));
    for index in 0..outputs {
        let output = build.external(inputs.len() as u32 + index, true, DataType::Float32, &[rows, width]);
        build.node(NodeKind::Unary { op: UnaryOp::Copy, input: last, output });
    }
    build
}

const UNARY: [UnaryOp; 8] = [
    UnaryOp::Abs,
    UnaryOp::Clamp,
    UnaryOp::Copy,
    UnaryOp::Exp,
    UnaryOp::Floor,
    UnaryOp::HardSwish,
    UnaryOp::Elu { alpha: 1.0 },
    UnaryOp::Gelu,
];
const BINARY: [BinaryOp; 5] = [BinaryOp::Add, BinaryOp::Multiply, BinaryOp::Subtract, BinaryOp::Maximum, BinaryOp::Divide];

fn binary(build: &mut Build, op: BinaryOp, inputs: [ValueId; 2], dims: &[u32]) -> ValueId {
    let output = build.float(dims);
    build.node(NodeKind::Binary { op, inputs, output });
    output
}

fn softmax(build: &mut Build, input: ValueId, dims: &[u32]) -> ValueId {
    let output = build.float(dims);
    build.node(NodeKind::Softmax { input, output });
    output
}

/// A linear with float weights, or with 8- or 4-bit weights over rows that are quantised when the graph runs.
fn linear(build: &mut Build, cursor: &mut Cursor<'_>, input: ValueId, [rows, width, columns]: [u32; 3]) -> ValueId {
    let (input, filter) = match cursor.below(3) {
        0 => (input, build.constant(DataType::Float32, &[columns, width], None)),
        kind => {
            let row = Some(Quantization::PerToken { row_dims: 1 });
            let quantised = build.value(DataType::QdInt8, &[rows, width], row);
            build.node(NodeKind::Convert { input, output: quantised });
            let dtype = if kind == 1 { DataType::QcInt8 } else { DataType::QcInt4 };
            (quantised, build.constant(dtype, &[columns, width], per_channel(0, columns as usize)))
        }
    };
    let bias = cursor.flip().then(|| build.constant(DataType::Float32, &[columns], None));
    let output = build.float(&[rows, columns]);
    build.node(NodeKind::FullyConnected { input, filter, bias, output, transposed_filter: false });
    output
}
