//! Converts the table of a node. Ids are those of the file until [`Graph`](super::Graph) reading maps them.

use pteron_schema::xnnpack::{self as fb, XNodeUnion as U};

use super::read::NONE;
use super::tags::{self, flags, of_tag};
use super::*;
use crate::error::{Item, Problem, Result};
use crate::reader::Reader;

impl Reader<'_> {
    pub(super) fn xnnpack_node(&mut self, index: usize, table: fb::XNode<'_>) -> Result<Node> {
        let (kind, found, allowed) = self.node_kind(index, table)?;
        if found & !allowed != 0 {
            let item = Item::Node { index, kind: kind.name() };
            return self.fail(item, Problem::Unknown { what: "the node's flags", value: found.into() });
        }
        let range = table.output_min_max().map(|t| OutputRange { min: t.output_min(), max: t.output_max() });
        let output_range = match &kind {
            NodeKind::Unary { op: UnaryOp::Clamp, .. } => Some(range.unwrap_or(OutputRange::UNBOUNDED)),
            kind if kind.has_output_range() => range,
            _ => None,
        };
        Ok(Node { kind, output_range, debug_handle: table.debug_handle() })
    }

    /// The kind, its flags, and the flags it may have.
    fn node_kind(&mut self, index: usize, table: fb::XNode<'_>) -> Result<(NodeKind, u32, u32)> {
        Ok(match table.xnode_union() {
            U::Unary(tag, t) => {
                let pooling = tag == tags::GLOBAL_AVG_POOLING_2D;
                (self.unary(index, tag, t)?, t.flags(), if pooling { flags::KEEP_DIMS } else { 0 })
            }
            U::Binary(tag, t) => {
                let transposes = tag == tags::BATCH_MATRIX_MULTIPLY;
                (self.binary(index, tag, t)?, t.flags(), if transposes { flags::TRANSPOSED } else { 0 })
            }
            U::Activation(tag, t) => {
                let parameter = t.parameter();
                let op = if tag == tags::ELU {
                    UnaryOp::Elu { alpha: parameter }
                } else {
                    UnaryOp::LeakyRelu { slope: parameter }
                };
                (NodeKind::Unary { op, input: ValueId(t.input_id()), output: ValueId(t.output_id()) }, t.flags(), 0)
            }
            U::FullyConnected(_, t) => {
                let kind = NodeKind::FullyConnected {
                    input: ValueId(t.input1_id()),
                    filter: ValueId(t.filter_id()),
                    bias: optional(t.bias_id()),
                    output: ValueId(t.output_id()),
                    transposed_filter: t.flags() & flags::TRANSPOSED != 0,
                };
                (kind, t.flags(), flags::TRANSPOSED)
            }
            U::Convolution(tag, t) => (self.convolution(index, tag, t)?, t.flags(), 0),
            U::Pooling(tag, t) => (pooling(tag, t), t.flags(), flags::KEEP_DIMS),
            U::ArgMaxPooling2d(_, t) => (arg_max(t), t.flags(), flags::KEEP_DIMS),
            U::Concatenate(tag, t) => (self.concatenate(index, tag, t)?, t.flags(), 0),
            U::StaticResizeBilinear2D(_, t) => {
                let kind = NodeKind::ResizeBilinear {
                    size: Spatial { height: t.new_height(), width: t.new_width() },
                    align_corners: t.flags() & flags::ALIGN_CORNERS != 0,
                    input: ValueId(t.input_id()),
                    output: ValueId(t.output_id()),
                };
                (kind, t.flags(), flags::ALIGN_CORNERS)
            }
            U::StaticTranspose(_, t) => (self.transpose(index, t)?, t.flags(), 0),
            U::StaticReshape(_, t) => (self.reshape(index, t)?, t.flags(), 0),
            U::StaticSlice(_, t) => (self.slice(index, t)?, t.flags(), 0),
            U::StaticConstantPad(_, t) => (self.pad(t)?, t.flags(), 0),
            U::Unknown(tag) => return self.unknown_kind(index, tag),
            U::Absent => return self.fail(Item::Entry { kind: "node", index }, Problem::Missing { what: "its content" }),
        })
    }

    fn unknown_kind<T>(&self, index: usize, tag: u8) -> Result<T> {
        let problem = match tag {
            tags::SCALED_DOT_PRODUCT_ATTENTION => {
                Problem::Unsupported { what: "the node kind", name: "ScaledDotProductAttention" }
            }
            _ => Problem::Unknown { what: "the node's kind", value: tag.into() },
        };
        self.fail(Item::Entry { kind: "node", index }, problem)
    }

    fn unary(&self, index: usize, tag: u8, t: fb::Unary<'_>) -> Result<NodeKind> {
        let (input, output) = (ValueId(t.input_id()), ValueId(t.output_id()));
        Ok(match (tag, of_tag(&tags::UNARY, tag)) {
            (_, Some(op)) => NodeKind::Unary { op, input, output },
            (tags::SOFTMAX, _) => NodeKind::Softmax { input, output },
            (tags::CONVERT, _) => NodeKind::Convert { input, output },
            (tags::GLOBAL_AVG_POOLING_2D, _) => NodeKind::GlobalAveragePool { input, output },
            _ => return self.unknown_kind(index, tag),
        })
    }

    fn binary(&self, index: usize, tag: u8, t: fb::Binary<'_>) -> Result<NodeKind> {
        let (inputs, output) = ([ValueId(t.input1_id()), ValueId(t.input2_id())], ValueId(t.output_id()));
        Ok(match (tag, of_tag(&tags::BINARY, tag)) {
            (_, Some(op)) => NodeKind::Binary { op, inputs, output },
            (tags::BATCH_MATRIX_MULTIPLY, _) => {
                let transposed_second = t.flags() & flags::TRANSPOSED != 0;
                NodeKind::BatchMatrixMultiply { inputs, output, transposed_second }
            }
            _ => return self.unknown_kind(index, tag),
        })
    }

    fn convolution(&self, index: usize, tag: u8, t: fb::Convolution<'_>) -> Result<NodeKind> {
        let Some(kind) = of_tag(&tags::CONVOLUTION, tag) else { return self.unknown_kind(index, tag) };
        Ok(NodeKind::Convolution(Convolution {
            kind,
            padding: Padding {
                top: t.padding_top(),
                right: t.padding_right(),
                bottom: t.padding_bottom(),
                left: t.padding_left(),
            },
            kernel: Spatial { height: t.kernel_height(), width: t.kernel_width() },
            stride: Spatial { height: t.subsampling_height(), width: t.subsampling_width() },
            dilation: Spatial { height: t.dilation_height(), width: t.dilation_width() },
            adjustment: Spatial { height: t.adjustment_height(), width: t.adjustment_width() },
            groups: t.groups(),
            group_input_channels: t.group_input_channels(),
            group_output_channels: t.group_output_channels(),
            input: ValueId(t.input1_id()),
            filter: ValueId(t.filter_id()),
            bias: optional(t.bias_id()),
            output: ValueId(t.output_id()),
        }))
    }

    fn concatenate(&mut self, index: usize, tag: u8, t: fb::Concatenate<'_>) -> Result<NodeKind> {
        let Some(count) = of_tag(&tags::CONCATENATE, tag) else { return self.unknown_kind(index, tag) };
        let ids = [t.input1_id(), t.input2_id(), t.input3_id(), t.input4_id(), t.input5_id()];
        let mut inputs = self.budget.vec(&self.section, count)?;
        inputs.extend(ids.into_iter().take(count).map(ValueId));
        Ok(NodeKind::Concatenate { axis: t.axis(), inputs, output: ValueId(t.output_id()) })
    }

    fn transpose(&mut self, index: usize, t: fb::StaticTranspose<'_>) -> Result<NodeKind> {
        let permutation = self.list(t.perm(), |_, dim| Ok(dim))?;
        let (len, input, output) = (permutation.len(), ValueId(t.input_id()), ValueId(t.output_id()));
        self.node(index, NodeKind::Transpose { permutation, input, output }, t.num_dims(), &[len])
    }

    fn reshape(&mut self, index: usize, t: fb::StaticReshape<'_>) -> Result<NodeKind> {
        let dims = self.list(t.new_shape(), |_, dim| Ok(dim))?;
        let (len, input, output) = (dims.len(), ValueId(t.input_id()), ValueId(t.output_id()));
        self.node(index, NodeKind::Reshape { dims, input, output }, t.num_dims(), &[len])
    }

    fn slice(&mut self, index: usize, t: fb::StaticSlice<'_>) -> Result<NodeKind> {
        let offsets = self.list(t.offsets(), |_, offset| Ok(offset))?;
        let sizes = self.list(t.sizes(), |_, size| Ok(size))?;
        let (lens, input, output) = ([offsets.len(), sizes.len()], ValueId(t.input_id()), ValueId(t.output_id()));
        self.node(index, NodeKind::Slice { offsets, sizes, input, output }, t.num_dims(), &lens)
    }

    fn pad(&mut self, t: fb::StaticConstantPad<'_>) -> Result<NodeKind> {
        Ok(NodeKind::Pad {
            before: self.list(t.pre_paddings(), |_, count| Ok(count))?,
            after: self.list(t.post_paddings(), |_, count| Ok(count))?,
            value: t.padding_value(),
            input: ValueId(t.input_id()),
            output: ValueId(t.output_id()),
        })
    }

    /// A node whose lists are as long as the file says beside them.
    fn node(&self, index: usize, kind: NodeKind, stated: u32, lens: &[usize]) -> Result<NodeKind> {
        for &len in lens {
            self.count(Item::Node { index, kind: kind.name() }, stated, len)?;
        }
        Ok(kind)
    }
}

fn optional(id: u32) -> Option<ValueId> {
    (id != NONE).then_some(ValueId(id))
}

fn pooling(tag: u8, t: fb::Pooling<'_>) -> NodeKind {
    let average = tag == tags::AVG_POOLING_2D;
    let dilation = Spatial { height: t.dilation_height(), width: t.dilation_width() };
    NodeKind::Pool {
        op: if average { PoolOp::Average } else { PoolOp::Max },
        padding: Padding {
            top: t.padding_top(),
            right: t.padding_right(),
            bottom: t.padding_bottom(),
            left: t.padding_left(),
        },
        kernel: Spatial { height: t.pooling_height(), width: t.pooling_width() },
        stride: Spatial { height: t.stride_height(), width: t.stride_width() },
        // Exporters write 0 for means, which have none.
        dilation: if average { Spatial { height: 1, width: 1 } } else { dilation },
        input: ValueId(t.input_id()),
        output: ValueId(t.output_id()),
    }
}

fn arg_max(t: fb::ArgMaxPooling2d<'_>) -> NodeKind {
    NodeKind::ArgMaxPool {
        padding: Padding {
            top: t.padding_top(),
            right: t.padding_right(),
            bottom: t.padding_bottom(),
            left: t.padding_left(),
        },
        kernel: Spatial { height: t.pooling_height(), width: t.pooling_width() },
        input: ValueId(t.input_id()),
        output: ValueId(t.output_value_id()),
        indices: ValueId(t.output_index_id()),
    }
}
