//! Changes to fields of an XNNPACK graph.

use fastrand::Rng;
use pteron_format::xnnpack::{
    Constant, ConstantId, ConstantSource, Convolution, DataType, External, Graph, Node, NodeKind, OutputRange, Padding,
    PoolOp, Quantization, Scales, Spatial, UnaryOp, Value, ValueId,
};

use super::atoms::{data, index, list, name, number, number32};
use super::external::float;

/// Changes one field of a graph, or of its stored bytes.
pub fn mutate(rng: &mut Rng, graph: &mut Graph, stored: &mut Vec<u8>) {
    let (values, constants) = (graph.values.len(), graph.constants.len());
    match rng.u8(..16) {
        0 => name(rng, &mut graph.version),
        1..7 => list(rng, &mut graph.nodes, |rng, change| node(rng, change, values)),
        7..12 => list(rng, &mut graph.values, |rng, change| value(rng, change, constants)),
        12 | 13 => list(rng, &mut graph.constants, |rng, change| constant(rng, change, stored.len())),
        14 => data(rng, stored),
        _ => graph.external_count = number32(rng, graph.external_count),
    }
}

fn float32(rng: &mut Rng) -> f32 {
    match rng.u8(..4) {
        // Rounding is what a file would do.
        0 => float(rng).0 as f32,
        1 => f32::from_bits(rng.u32(..)),
        2 => [0.0, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE][rng.usize(..8)],
        _ => rng.f32(),
    }
}

fn constant(rng: &mut Rng, constant: &mut Constant, stored: usize) {
    match (rng.u8(..4), &mut constant.source) {
        (0, _) => constant.len = number(rng, constant.len),
        (1, _) => {
            constant.source = ConstantSource::Stored(0);
            constant.len = rng.u64(..=stored as u64);
        }
        (_, ConstantSource::Stored(offset)) => *offset = number(rng, *offset),
        (_, ConstantSource::Named(key)) => name(rng, key),
    }
}

fn value(rng: &mut Rng, value: &mut Value, constants: usize) {
    match rng.u8(..8) {
        0 => value.dtype = *rng.choice(DataType::ALL).unwrap_or(&DataType::Float32),
        1 | 2 => list(rng, &mut value.dims, |rng, dim| *dim = number32(rng, *dim)),
        3 => value.dims.push(number32(rng, 1)),
        4 => {
            let old = value.constant.map_or(0, |id| id.0);
            value.constant = rng.bool().then(|| ConstantId(index(rng, old, constants)));
        }
        5 => value.external = rng.bool().then(|| External { index: index(rng, 0, 8), output: rng.bool() }),
        6 => value.quantization = quantization(rng, constants),
        _ => match &mut value.quantization {
            Some(Quantization::PerTensor { scale, zero_point }) => {
                *scale = float32(rng);
                *zero_point = number32(rng, zero_point.cast_unsigned()).cast_signed();
            }
            // The file holds these signed.
            Some(Quantization::PerToken { row_dims }) => *row_dims = number32(rng, *row_dims) >> 1,
            Some(Quantization::PerChannel { axis, scales: list }) => {
                *axis = number32(rng, *axis) >> 1;
                scales(rng, list, constants);
            }
            Some(Quantization::PerGroup { axis, group_size, scales: list }) => {
                match rng.u8(..4) {
                    0 => *axis = number32(rng, *axis) >> 1,
                    _ => *group_size = number32(rng, *group_size) >> 1,
                }
                scales(rng, list, constants);
            }
            None => value.quantization = quantization(rng, constants),
        },
    }
}

fn scales(rng: &mut Rng, scales: &mut Scales, constants: usize) {
    match scales {
        Scales::Inline(items) => list(rng, items, |rng, scale| *scale = float32(rng)),
        Scales::Constant { id, count } => match rng.bool() {
            true => *id = ConstantId(index(rng, id.0, constants).min(u32::MAX - 1)),
            false => *count = number32(rng, *count),
        },
    }
}

fn quantization(rng: &mut Rng, constants: usize) -> Option<Quantization> {
    let scales = match rng.bool() {
        true => Scales::Inline(vec![float32(rng).abs(); rng.usize(..20)]),
        false => Scales::Constant { id: ConstantId(index(rng, 0, constants).min(u32::MAX - 1)), count: rng.u32(..20) },
    };
    Some(match rng.u8(..5) {
        0 => return None,
        1 => Quantization::PerTensor { scale: float32(rng), zero_point: rng.i32(-200..300) },
        2 => Quantization::PerToken { row_dims: rng.u32(..8) },
        3 => Quantization::PerChannel { axis: rng.u32(..5), scales },
        _ => Quantization::PerGroup { axis: rng.u32(..2), group_size: 32 * rng.u32(..4), scales },
    })
}

fn node(rng: &mut Rng, node: &mut Node, values: usize) {
    match rng.u8(..8) {
        0 => node.debug_handle = number32(rng, node.debug_handle),
        1 => node.output_range = rng.bool().then(|| OutputRange { min: float32(rng), max: float32(rng) }),
        2..5 => {
            let chosen = rng.usize(..4);
            let mut at = 0;
            node.kind.for_each_operand(|id, _| {
                if at == chosen {
                    *id = ValueId(index(rng, id.0, values));
                }
                at += 1;
            });
        }
        _ => parameters(rng, &mut node.kind),
    }
}

fn spatial(rng: &mut Rng, size: &mut Spatial) {
    match rng.bool() {
        true => size.height = number32(rng, size.height),
        false => size.width = number32(rng, size.width),
    }
}

fn padding(rng: &mut Rng, padding: &mut Padding) {
    let sides = [&mut padding.top, &mut padding.right, &mut padding.bottom, &mut padding.left];
    let [top, right, bottom, left] = sides;
    let side = match rng.u8(..4) {
        0 => top,
        1 => right,
        2 => bottom,
        _ => left,
    };
    *side = number32(rng, *side);
}

fn parameters(rng: &mut Rng, kind: &mut NodeKind) {
    match kind {
        NodeKind::Unary { op: UnaryOp::Elu { alpha: parameter } | UnaryOp::LeakyRelu { slope: parameter }, .. } => {
            *parameter = float32(rng);
        }
        NodeKind::FullyConnected { transposed_filter, bias, .. } => match rng.bool() {
            true => *transposed_filter = !*transposed_filter,
            false => *bias = None,
        },
        NodeKind::BatchMatrixMultiply { transposed_second, .. } => *transposed_second = !*transposed_second,
        NodeKind::Convolution(params) => convolution(rng, params),
        NodeKind::Pool { op, padding: pads, kernel, stride, dilation, .. } => match rng.u8(..5) {
            0 => *op = if *op == PoolOp::Max { PoolOp::Average } else { PoolOp::Max },
            1 => padding(rng, pads),
            2 => spatial(rng, kernel),
            3 => spatial(rng, stride),
            // Means have none.
            _ if *op == PoolOp::Max => spatial(rng, dilation),
            _ => {}
        },
        NodeKind::ArgMaxPool { padding: pads, kernel, .. } => match rng.bool() {
            true => padding(rng, pads),
            false => spatial(rng, kernel),
        },
        NodeKind::Concatenate { axis, .. } => *axis = number32(rng, *axis),
        NodeKind::Transpose { permutation: numbers, .. } | NodeKind::Reshape { dims: numbers, .. } => {
            list(rng, numbers, |rng, entry| *entry = number32(rng, *entry));
        }
        NodeKind::Slice { offsets: first, sizes: second, .. } | NodeKind::Pad { before: first, after: second, .. } => {
            let at = rng.usize(..first.len().max(1));
            let numbers = if rng.bool() { first } else { second };
            if let Some(entry) = numbers.get_mut(at) {
                *entry = number32(rng, *entry);
            }
        }
        NodeKind::ResizeBilinear { size, align_corners, .. } => match rng.bool() {
            true => spatial(rng, size),
            false => *align_corners = !*align_corners,
        },
        _ => {}
    }
}

fn convolution(rng: &mut Rng, params: &mut Convolution) {
    match rng.u8(..9) {
        0 => padding(rng, &mut params.padding),
        1 => spatial(rng, &mut params.kernel),
        2 => spatial(rng, &mut params.stride),
        3 => spatial(rng, &mut params.dilation),
        4 => spatial(rng, &mut params.adjustment),
        5 => params.groups = number32(rng, params.groups),
        6 => params.group_input_channels = number32(rng, params.group_input_channels),
        7 => params.group_output_channels = number32(rng, params.group_output_channels),
        _ => params.bias = None,
    }
}
