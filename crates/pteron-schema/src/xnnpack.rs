//! The tables of an XNNPACK delegate's graph: identifier `XN01` or `XN00`, root [`XnnGraph`].
//!
//! Many kinds of nodes have tables of one shape. Here a shape is one table, and the tag of [`XNodeUnion`] tells the kind.

use crate::macros::{shared_unions, tables, unions};

tables! {
    /// Bytes of a constant inside the tables, as older exporters wrote them.
    Buffer / BufferArgs { 0 storage: list u8 }
    /// A constant's bytes, in the delegate's blob or under a name.
    ConstantDataOffset / ConstantDataOffsetArgs {
        0 offset: scalar u64 = 0,
        1 size: scalar u64 = 0,
        2 named_key: text str,
    }
    /// A tensor.
    XnnTensorValue / XnnTensorValueArgs {
        0 datatype: scalar i16 = 0,
        1 num_dims: scalar u32 = 0,
        2 dims: list u32,
        3 constant_buffer_idx: scalar u32 = 0,
        4 external_id: scalar u32 = 0,
        5 flags: scalar u32 = 0,
        6 id_out: scalar u32 = 0,
        // Only in `XN00`.
        7 dq_datatype: scalar i16 = 0,
    }
    /// Scales per channel.
    PerChannelQuant / PerChannelQuantArgs {
        0 scale: list f32,
        1 channel_dim: scalar i32 = 0,
        2 scale_buffer_idx: scalar u32 = 0,
        3 num_scales: scalar u32 = 0,
    }
    /// One scale and zero point.
    PerTensorQuant / PerTensorQuantArgs { 0 scale: scalar f32 = 0.0, 1 zero_point: scalar i32 = 0 }
    /// Scales and zero points that are computed.
    PerTokenDynamicQuant / PerTokenDynamicQuantArgs { 0 num_nonbatch_dims: scalar i32 = 0 }
    /// Scales per group of a channel.
    PerChannelGroupQuant / PerChannelGroupQuantArgs {
        0 scale: list f32,
        1 channel_dim: scalar i32 = 0,
        2 group_size: scalar i32 = 0,
        4 scale_buffer_idx: scalar u32 = 0,
        5 num_scales: scalar u32 = 0,
    }
    /// A tensor of integers that stand for other numbers.
    XnnQuantizedTensorValue / XnnQuantizedTensorValueArgs { 0 tensor_value: table XnnTensorValue, 1 quant_params: union QuantParams }
    /// One value of the graph.
    XValue / XValueArgs { 0 xvalue_union: union XValueUnion }
    /// Bounds of a node's output.
    OutputMinMax / OutputMinMaxArgs { 0 output_min: scalar f32 = 0.0, 1 output_max: scalar f32 = 0.0 }
    /// One node of the graph.
    XNode / XNodeArgs {
        0 xnode_union: union XNodeUnion,
        2 debug_handle: scalar u32 = 0,
        3 output_min_max: table OutputMinMax,
    }
    /// The root.
    XnnGraph / XnnGraphArgs {
        0 version: text str,
        1 xnodes: tables XNode,
        2 xvalues: tables XValue,
        3 num_externs: scalar u32 = 0,
        4 input_ids: list u32,
        5 output_ids: list u32,
        6 constant_buffer: tables Buffer,
        7 mem_buffer_sizes: list u32,
        8 constant_data: tables ConstantDataOffset,
    }
}

tables! {
    /// A node with one input.
    Unary / UnaryArgs {
        0 input_id: scalar u32 = 0,
        1 output_id: scalar u32 = 0,
        2 flags: scalar u32 = 0,
    }
    /// A node with two inputs.
    Binary / BinaryArgs {
        0 input1_id: scalar u32 = 0,
        1 input2_id: scalar u32 = 0,
        2 output_id: scalar u32 = 0,
        3 flags: scalar u32 = 0,
    }
    /// A node with one input and a number.
    Activation / ActivationArgs {
        0 parameter: scalar f32 = 0.0,
        1 input_id: scalar u32 = 0,
        2 output_id: scalar u32 = 0,
        3 flags: scalar u32 = 0,
    }
    /// A linear layer.
    FullyConnected / FullyConnectedArgs {
        0 input1_id: scalar u32 = 0,
        1 filter_id: scalar u32 = 0,
        2 bias_id: scalar u32 = 0,
        3 output_id: scalar u32 = 0,
        4 flags: scalar u32 = 0,
    }
    /// Two to five values one after the other.
    Concatenate / ConcatenateArgs {
        0 axis: scalar u32 = 0,
        1 input1_id: scalar u32 = 0,
        2 input2_id: scalar u32 = 0,
        3 input3_id: scalar u32 = 0,
        4 input4_id: scalar u32 = 0,
        5 output_id: scalar u32 = 0,
        6 flags: scalar u32 = 0,
        7 input5_id: scalar u32 = 0,
    }
    /// A convolution.
    Convolution / ConvolutionArgs {
        0 padding_top: scalar u32 = 0,
        1 padding_right: scalar u32 = 0,
        2 padding_bottom: scalar u32 = 0,
        3 padding_left: scalar u32 = 0,
        4 kernel_height: scalar u32 = 0,
        5 kernel_width: scalar u32 = 0,
        6 subsampling_height: scalar u32 = 0,
        7 subsampling_width: scalar u32 = 0,
        8 dilation_height: scalar u32 = 0,
        9 dilation_width: scalar u32 = 0,
        10 group_input_channels: scalar u32 = 0,
        11 group_output_channels: scalar u32 = 0,
        12 groups: scalar u32 = 0,
        13 adjustment_height: scalar u32 = 0,
        14 adjustment_width: scalar u32 = 0,
        15 input1_id: scalar u32 = 0,
        16 filter_id: scalar u32 = 0,
        17 bias_id: scalar u32 = 0,
        18 output_id: scalar u32 = 0,
        19 flags: scalar u32 = 0,
    }
    /// A mean or a maximum of windows.
    Pooling / PoolingArgs {
        0 padding_top: scalar u32 = 0,
        1 padding_right: scalar u32 = 0,
        2 padding_bottom: scalar u32 = 0,
        3 padding_left: scalar u32 = 0,
        4 pooling_height: scalar u32 = 0,
        5 pooling_width: scalar u32 = 0,
        6 stride_height: scalar u32 = 0,
        7 stride_width: scalar u32 = 0,
        8 dilation_height: scalar u32 = 0,
        9 dilation_width: scalar u32 = 0,
        10 input_id: scalar u32 = 0,
        11 output_id: scalar u32 = 0,
        12 flags: scalar u32 = 0,
    }
    /// A permutation of dims.
    StaticTranspose / StaticTransposeArgs {
        0 num_dims: scalar u32 = 0,
        1 perm: list u32,
        2 input_id: scalar u32 = 0,
        3 output_id: scalar u32 = 0,
        4 flags: scalar u32 = 0,
    }
    /// Other dims.
    StaticReshape / StaticReshapeArgs {
        0 num_dims: scalar u32 = 0,
        1 new_shape: list u32,
        2 input_id: scalar u32 = 0,
        3 output_id: scalar u32 = 0,
        4 flags: scalar u32 = 0,
    }
    /// A box of a value.
    StaticSlice / StaticSliceArgs {
        0 num_dims: scalar u32 = 0,
        1 offsets: list u32,
        2 sizes: list u32,
        3 input_id: scalar u32 = 0,
        4 output_id: scalar u32 = 0,
        5 flags: scalar u32 = 0,
    }
    /// A value with a constant around it.
    StaticConstantPad / StaticConstantPadArgs {
        0 pre_paddings: list u32,
        1 post_paddings: list u32,
        2 padding_value: scalar f32 = 0.0,
        3 input_id: scalar u32 = 0,
        4 output_id: scalar u32 = 0,
        5 flags: scalar u32 = 0,
    }
    /// An image of another size.
    StaticResizeBilinear2D / StaticResizeBilinear2DArgs {
        0 new_height: scalar u32 = 0,
        1 new_width: scalar u32 = 0,
        2 input_id: scalar u32 = 0,
        3 output_id: scalar u32 = 0,
        4 flags: scalar u32 = 0,
    }
    /// Maxima of windows, and their positions.
    ArgMaxPooling2d / ArgMaxPooling2dArgs {
        0 padding_top: scalar u32 = 0,
        1 padding_right: scalar u32 = 0,
        2 padding_bottom: scalar u32 = 0,
        3 padding_left: scalar u32 = 0,
        4 pooling_height: scalar u32 = 0,
        5 pooling_width: scalar u32 = 0,
        6 input_id: scalar u32 = 0,
        7 output_value_id: scalar u32 = 0,
        8 output_index_id: scalar u32 = 0,
        9 flags: scalar u32 = 0,
    }
}

unions! {
    /// Both kinds of value.
    XValueUnion { 1 XnnTensorValue, 2 XnnQuantizedTensorValue }
    /// Every kind of quantisation.
    QuantParams { 1 PerChannelQuant, 2 PerTensorQuant, 3 PerTokenDynamicQuant, 4 PerChannelGroupQuant }
}

shared_unions! {
    /// Every shape of a node's table that is known, with the tag of its kind.
    XNodeUnion {
        Unary: 3 | 4 | 6 | 17 | 18 | 19 | 22 | 23 | 24 | 27 | 28 | 30 | 40 | 41 | 42 | 43 | 44 | 45 | 46 | 47,
        Binary: 1 | 8 | 12 | 15 | 16 | 26 | 31 | 37,
        Activation: 25 | 29,
        FullyConnected: 2,
        Concatenate: 32 | 33 | 34 | 38,
        Convolution: 7 | 13 | 39,
        Pooling: 11 | 14,
        StaticTranspose: 5,
        StaticReshape: 20,
        StaticSlice: 35,
        StaticConstantPad: 10,
        StaticResizeBilinear2D: 9,
        ArgMaxPooling2d: 21,
    }
}
