//! Writes a typed graph to tables.

use pteron_schema::xnnpack as fb;
use pteron_schema::{Builder, UnionWIPOffset, WIPOffset};

use super::read::{EXTERNAL_INPUT, EXTERNAL_OUTPUT, NAMED, NONE};
use super::tags::{self, flags, tag_of};
use super::*;
use crate::program::{signed, tables};

type Off<T> = WIPOffset<T>;
type Union = (u8, Off<UnionWIPOffset>);

pub(super) fn write_graph<'b>(b: &mut Builder<'b>, graph: &Graph) -> Off<fb::XnnGraph<'b>> {
    let mut index = 0;
    let ids = |output| {
        let external = graph.externals().filter(move |(_, external)| external.output == output);
        external.map(|(id, _)| id.0).collect::<Vec<_>>()
    };
    let mut constants = vec![fb::ConstantDataOffsetArgs::default().write(b)];
    constants.extend(graph.constants.iter().map(|entry| constant(b, entry)));
    fb::XnnGraphArgs {
        version: Some(b.create_string(&graph.version)),
        xnodes: tables(b, &graph.nodes, node),
        xvalues: tables(b, &graph.values, |b, entry| {
            index += 1;
            value(b, index - 1, entry)
        }),
        num_externs: graph.external_count,
        input_ids: Some(b.create_vector(&ids(false))),
        output_ids: Some(b.create_vector(&ids(true))),
        constant_data: Some(b.create_vector(&constants)),
        ..Default::default()
    }
    .write(b)
}

fn constant<'b>(b: &mut Builder<'b>, constant: &Constant) -> Off<fb::ConstantDataOffset<'b>> {
    let (offset, key) = match &constant.source {
        ConstantSource::Named(key) => (NAMED, key.as_str()),
        ConstantSource::Stored(offset) => (*offset, ""),
    };
    let named_key = Some(b.create_string(key));
    fb::ConstantDataOffsetArgs { offset, size: constant.len, named_key, ..Default::default() }.write(b)
}

fn value<'b>(b: &mut Builder<'b>, id_out: u32, value: &Value) -> Off<fb::XValue<'b>> {
    let dims = Some(b.create_vector(&value.dims));
    let (external_id, flags) = match value.external {
        None => (NONE, 0),
        Some(External { index, output: false }) => (index, EXTERNAL_INPUT),
        Some(External { index, output: true }) => (index, EXTERNAL_OUTPUT),
    };
    let tensor = fb::XnnTensorValueArgs {
        datatype: value.dtype.to_wire(),
        num_dims: u32::try_from(value.dims.len()).unwrap_or(NONE),
        dims,
        constant_buffer_idx: value.constant.map_or(0, entry),
        external_id,
        flags,
        id_out,
        ..Default::default()
    }
    .write(b);
    let content = match &value.quantization {
        None => (fb::XnnTensorValue::TAG, tensor.as_union_value()),
        Some(params) => {
            let quant_params = Some(quantization(b, params));
            let tensor_value = Some(tensor);
            let table = fb::XnnQuantizedTensorValueArgs { tensor_value, quant_params, ..Default::default() }.write(b);
            (fb::XnnQuantizedTensorValue::TAG, table.as_union_value())
        }
    };
    fb::XValueArgs { xvalue_union: Some(content), ..Default::default() }.write(b)
}

/// Entry 0 of the file's list stands for "not a constant".
fn entry(id: ConstantId) -> u32 {
    id.0.saturating_add(1)
}

fn quantization(b: &mut Builder<'_>, params: &Quantization) -> Union {
    let numbers = params.scales().map(|scales| match scales {
        Scales::Inline(scales) => (Some(b.create_vector(scales)), 0, 0),
        Scales::Constant { id, count } => (None, entry(*id), *count),
    });
    let (scale, scale_buffer_idx, num_scales) = numbers.unwrap_or_default();
    match *params {
        Quantization::PerTensor { scale, zero_point } => {
            let table = fb::PerTensorQuantArgs { scale, zero_point, ..Default::default() }.write(b);
            (fb::PerTensorQuant::TAG, table.as_union_value())
        }
        Quantization::PerToken { row_dims } => {
            let num_nonbatch_dims = signed(row_dims);
            let table = fb::PerTokenDynamicQuantArgs { num_nonbatch_dims, ..Default::default() }.write(b);
            (fb::PerTokenDynamicQuant::TAG, table.as_union_value())
        }
        Quantization::PerChannel { axis, .. } => {
            let channel_dim = signed(axis);
            let args = fb::PerChannelQuantArgs { scale, channel_dim, scale_buffer_idx, num_scales, ..Default::default() };
            (fb::PerChannelQuant::TAG, args.write(b).as_union_value())
        }
        Quantization::PerGroup { axis, group_size, .. } => {
            let args = fb::PerChannelGroupQuantArgs {
                scale,
                channel_dim: signed(axis),
                group_size: signed(group_size),
                scale_buffer_idx,
                num_scales,
                ..Default::default()
            };
            (fb::PerChannelGroupQuant::TAG, args.write(b).as_union_value())
        }
    }
}

fn node<'b>(b: &mut Builder<'b>, node: &Node) -> Off<fb::XNode<'b>> {
    let output_min_max = node
        .output_range
        .map(|range| fb::OutputMinMaxArgs { output_min: range.min, output_max: range.max, ..Default::default() }.write(b));
    let xnode_union = Some(kind(b, &node.kind));
    fb::XNodeArgs { xnode_union, debug_handle: node.debug_handle, output_min_max, ..Default::default() }.write(b)
}

fn kind(b: &mut Builder<'_>, kind: &NodeKind) -> Union {
    match kind {
        NodeKind::Unary { op: UnaryOp::Elu { alpha }, input, output } => activation(b, tags::ELU, *alpha, *input, *output),
        NodeKind::Unary { op: UnaryOp::LeakyRelu { slope }, input, output } => {
            activation(b, tags::LEAKY_RELU, *slope, *input, *output)
        }
        NodeKind::Unary { op, input, output } => unary(b, tag_of(&tags::UNARY, *op), *input, *output),
        NodeKind::Softmax { input, output } => unary(b, tags::SOFTMAX, *input, *output),
        NodeKind::Convert { input, output } => unary(b, tags::CONVERT, *input, *output),
        NodeKind::GlobalAveragePool { input, output } => unary(b, tags::GLOBAL_AVG_POOLING_2D, *input, *output),
        NodeKind::Binary { op, inputs, output } => binary(b, tag_of(&tags::BINARY, *op), *inputs, *output, 0),
        NodeKind::BatchMatrixMultiply { inputs, output, transposed_second } => {
            binary(b, tags::BATCH_MATRIX_MULTIPLY, *inputs, *output, flag(*transposed_second, flags::TRANSPOSED))
        }
        NodeKind::FullyConnected { input, filter, bias, output, transposed_filter } => {
            let args = fb::FullyConnectedArgs {
                input1_id: input.0,
                filter_id: filter.0,
                bias_id: bias.map_or(NONE, |id| id.0),
                output_id: output.0,
                flags: flag(*transposed_filter, flags::TRANSPOSED),
                ..Default::default()
            };
            (tags::FULLY_CONNECTED, args.write(b).as_union_value())
        }
        NodeKind::Convolution(params) => convolution(b, params),
        NodeKind::Concatenate { axis, inputs, output } => {
            let id = |at: usize| inputs.get(at).map_or(NONE, |id| id.0);
            let args = fb::ConcatenateArgs {
                axis: *axis,
                input1_id: id(0),
                input2_id: id(1),
                input3_id: id(2),
                input4_id: id(3),
                input5_id: id(4),
                output_id: output.0,
                ..Default::default()
            };
            (tag_of(&tags::CONCATENATE, inputs.len()), args.write(b).as_union_value())
        }
        spatial @ (NodeKind::Pool { .. } | NodeKind::ArgMaxPool { .. } | NodeKind::ResizeBilinear { .. }) => {
            image(b, spatial)
        }
        movement => moves(b, movement),
    }
}

fn flag(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

fn unary(b: &mut Builder<'_>, tag: u8, input: ValueId, output: ValueId) -> Union {
    let args = fb::UnaryArgs { input_id: input.0, output_id: output.0, ..Default::default() };
    (tag, args.write(b).as_union_value())
}

fn activation(b: &mut Builder<'_>, tag: u8, parameter: f32, input: ValueId, output: ValueId) -> Union {
    let args = fb::ActivationArgs { parameter, input_id: input.0, output_id: output.0, ..Default::default() };
    (tag, args.write(b).as_union_value())
}

fn binary(b: &mut Builder<'_>, tag: u8, inputs: [ValueId; 2], output: ValueId, flags: u32) -> Union {
    let [input1_id, input2_id] = inputs.map(|id| id.0);
    let args = fb::BinaryArgs { input1_id, input2_id, output_id: output.0, flags, ..Default::default() };
    (tag, args.write(b).as_union_value())
}

fn convolution(b: &mut Builder<'_>, params: &Convolution) -> Union {
    let Convolution { padding, kernel, stride, dilation, adjustment, .. } = *params;
    let args = fb::ConvolutionArgs {
        padding_top: padding.top,
        padding_right: padding.right,
        padding_bottom: padding.bottom,
        padding_left: padding.left,
        kernel_height: kernel.height,
        kernel_width: kernel.width,
        subsampling_height: stride.height,
        subsampling_width: stride.width,
        dilation_height: dilation.height,
        dilation_width: dilation.width,
        group_input_channels: params.group_input_channels,
        group_output_channels: params.group_output_channels,
        groups: params.groups,
        adjustment_height: adjustment.height,
        adjustment_width: adjustment.width,
        input1_id: params.input.0,
        filter_id: params.filter.0,
        bias_id: params.bias.map_or(NONE, |id| id.0),
        output_id: params.output.0,
        ..Default::default()
    };
    (tag_of(&tags::CONVOLUTION, params.kind), args.write(b).as_union_value())
}

/// Nodes over windows of images.
fn image(b: &mut Builder<'_>, kind: &NodeKind) -> Union {
    match kind {
        NodeKind::Pool { op, padding, kernel, stride, dilation, input, output } => {
            let args = fb::PoolingArgs {
                padding_top: padding.top,
                padding_right: padding.right,
                padding_bottom: padding.bottom,
                padding_left: padding.left,
                pooling_height: kernel.height,
                pooling_width: kernel.width,
                stride_height: stride.height,
                stride_width: stride.width,
                dilation_height: dilation.height,
                dilation_width: dilation.width,
                input_id: input.0,
                output_id: output.0,
                ..Default::default()
            };
            let tag = if *op == PoolOp::Average { tags::AVG_POOLING_2D } else { tags::MAX_POOLING_2D };
            (tag, args.write(b).as_union_value())
        }
        NodeKind::ArgMaxPool { padding, kernel, input, output, indices } => {
            let args = fb::ArgMaxPooling2dArgs {
                padding_top: padding.top,
                padding_right: padding.right,
                padding_bottom: padding.bottom,
                padding_left: padding.left,
                pooling_height: kernel.height,
                pooling_width: kernel.width,
                input_id: input.0,
                output_value_id: output.0,
                output_index_id: indices.0,
                ..Default::default()
            };
            (tags::ARG_MAX_POOLING_2D, args.write(b).as_union_value())
        }
        NodeKind::ResizeBilinear { size, align_corners, input, output } => {
            let args = fb::StaticResizeBilinear2DArgs {
                new_height: size.height,
                new_width: size.width,
                input_id: input.0,
                output_id: output.0,
                flags: flag(*align_corners, flags::ALIGN_CORNERS),
                ..Default::default()
            };
            (tags::STATIC_RESIZE_BILINEAR_2D, args.write(b).as_union_value())
        }
        // The other kinds are written by `kind`.
        _ => unary(b, 0, ValueId(0), ValueId(0)),
    }
}

/// Nodes that move elements.
fn moves(b: &mut Builder<'_>, kind: &NodeKind) -> Union {
    let count = |list: &[u32]| u32::try_from(list.len()).unwrap_or(NONE);
    match kind {
        NodeKind::Transpose { permutation, input, output } => {
            let (num_dims, perm) = (count(permutation), Some(b.create_vector(permutation)));
            let (input_id, output_id) = (input.0, output.0);
            let args = fb::StaticTransposeArgs { num_dims, perm, input_id, output_id, ..Default::default() };
            (tags::STATIC_TRANSPOSE, args.write(b).as_union_value())
        }
        NodeKind::Reshape { dims, input, output } => {
            let (num_dims, new_shape) = (count(dims), Some(b.create_vector(dims)));
            let (input_id, output_id) = (input.0, output.0);
            let args = fb::StaticReshapeArgs { num_dims, new_shape, input_id, output_id, ..Default::default() };
            (tags::STATIC_RESHAPE, args.write(b).as_union_value())
        }
        NodeKind::Slice { offsets, sizes, input, output } => {
            let num_dims = count(offsets);
            let (offsets, sizes) = (Some(b.create_vector(offsets)), Some(b.create_vector(sizes)));
            let (input_id, output_id) = (input.0, output.0);
            let args = fb::StaticSliceArgs { num_dims, offsets, sizes, input_id, output_id, ..Default::default() };
            (tags::STATIC_SLICE, args.write(b).as_union_value())
        }
        NodeKind::Pad { before, after, value, input, output } => {
            let args = fb::StaticConstantPadArgs {
                pre_paddings: Some(b.create_vector(before)),
                post_paddings: Some(b.create_vector(after)),
                padding_value: *value,
                input_id: input.0,
                output_id: output.0,
                ..Default::default()
            };
            (tags::STATIC_CONSTANT_PAD, args.write(b).as_union_value())
        }
        // The other kinds are written by `kind` and `image`.
        _ => unary(b, 0, ValueId(0), ValueId(0)),
    }
}
