//! The typed graph of an XNNPACK delegate, and the blob that holds it.
//!
//! A graph that was read is verified: ids, order, ranks, element types and the lengths of constants are as [`Graph`] and
//! [`NodeKind`] describe them. A translator relies on that and checks only what its target cannot do.

mod blob;
mod node;
mod operands;
mod read;
mod read_node;
mod rules;
mod tags;
mod verify;
mod write;

pub(crate) use blob::read_blob_within;
pub use blob::{Blob, read_blob, write_blob};
#[cfg(feature = "fuzzing")]
pub(crate) use blob::{assemble, write_blob_unverified};
pub use node::{BinaryOp, Convolution, ConvolutionKind, Node, NodeKind, OutputRange, Padding, PoolOp, Spatial, UnaryOp};

use std::fmt;

pub use crate::constant::{Constant, ConstantId, ConstantSource};
use crate::dtype::element_count;
use crate::number::wire_enum;
use crate::program::ids;

/// The backend id of a delegate that holds such a graph.
pub const BACKEND_ID: &str = "XnnpackBackend";

/// The largest rank of a tensor, as in XNNPACK.
pub const MAX_RANK: usize = 6;

/// The most arguments of a delegate call that can be tensors of its graph, as in ExecuTorch.
pub const MAX_EXTERNALS: u32 = 4096;

ids! {
    /// A value of a graph: its index in [`Graph::values`].
    ValueId,
}

/// A delegate's graph: nodes in order over numbered values.
///
/// Guarantees of reading: every id is an index; every node's inputs are constants, external inputs or outputs of earlier nodes; a
/// value is written by one node at most, and never if it is a constant or an external input; every external output is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The version of the exporter's schema.
    pub version: String,
    /// Everything nodes refer to. All are tensors.
    pub values: Vec<Value>,
    /// The nodes, in the order they run.
    pub nodes: Vec<Node>,
    /// Bytes of weights, biases and scales, or their names. Entry `i` is entry `i + 1` of the file, whose first entry is none.
    pub constants: Vec<Constant>,
    /// One past the largest external index that the graph may use; at most [`MAX_EXTERNALS`].
    pub external_count: u32,
}

impl Graph {
    /// The value with this id.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// The external values with their ids, in the order of [`values`](Self::values).
    pub fn externals(&self) -> impl Iterator<Item = (ValueId, External)> {
        (0..).map(ValueId).zip(&self.values).filter_map(|(id, value)| Some((id, value.external?)))
    }

    /// The keys of constants that lie outside the delegate, in order, repeated where tensors share one.
    pub fn named_keys(&self) -> impl Iterator<Item = &str> {
        self.constants.iter().filter_map(|constant| match &constant.source {
            ConstantSource::Named(key) => Some(key.as_str()),
            ConstantSource::Stored(_) => None,
        })
    }
}

/// A tensor of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Element type.
    pub dtype: DataType,
    /// Upper bounds of the sizes, outermost first in memory. Constants have these sizes exactly.
    pub dims: Vec<u32>,
    /// The constant that holds its elements in C order. It is as long as type and dims say ([`Value::byte_len`]).
    pub constant: Option<ConstantId>,
    /// The argument of the delegate call that it is; never together with a constant.
    pub external: Option<External>,
    /// The meaning of its integers: present exactly where the type is quantised ([`DataType::is_quantized`]), and of a kind that
    /// fits the type ([`Quantization`]).
    pub quantization: Option<Quantization>,
}

impl Value {
    /// Creates a value inside a graph, without a constant and without quantisation.
    #[must_use]
    pub fn new(dtype: DataType, dims: &[u32]) -> Self {
        Self { dtype, dims: dims.to_vec(), constant: None, external: None, quantization: None }
    }

    /// The number of elements at the largest size; `None` if it overflows 64 bits.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.dims.iter().copied())
    }

    /// The number of bytes at the largest size; `None` if it overflows 64 bits. Rows of 4-bit elements are padded to whole bytes.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        if !self.dtype.is_4bit() {
            return self.element_count()?.checked_mul(self.dtype.size());
        }
        let (&width, rows) = self.dims.split_last()?;
        element_count(rows.iter().copied().chain([width.div_ceil(2)]))
    }
}

/// The position of a value in the argument list of a delegate call.
///
/// Arguments at positions that no value has are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External {
    /// The index of the argument. No two values share one.
    pub index: u32,
    /// Whether the graph writes it.
    pub output: bool,
}

wire_enum! {
    /// The element type of a graph's tensor.
    DataType: i16, "a tensor's element type" {
        /// 32-bit float.
        Float32 = 1,
        /// 16-bit float.
        Float16 = 2,
        /// 8-bit integers with one scale and zero point.
        QInt8 = 3,
        /// 8-bit unsigned integers with one scale and zero point.
        QUInt8 = 4,
        /// 32-bit integers with one scale.
        QInt32 = 5,
        /// 8-bit integers with a scale per channel.
        QcInt8 = 6,
        /// 32-bit integers with a scale per channel.
        QcInt32 = 7,
        /// 4-bit integers with a scale per channel. See [`DataType::is_4bit`].
        QcInt4 = 8,
        /// 8-bit integers quantised when the graph runs, with a scale and a zero point per row.
        QdInt8 = 9,
        /// 4-bit integers with a scale per group of a row. See [`DataType::is_4bit`].
        QbInt4 = 10,
        /// 32-bit integer.
        Int32 = 12,
        /// The upper half of a 32-bit float.
        BFloat16 = 14,
    }
}

impl DataType {
    /// The size of an element in bytes; 1 for a pair of 4-bit elements.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::QInt8 | Self::QUInt8 | Self::QcInt8 | Self::QdInt8 | Self::QcInt4 | Self::QbInt4 => 1,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Float32 | Self::QInt32 | Self::QcInt32 | Self::Int32 => 4,
        }
    }

    /// Whether two elements share a byte: the low half has the even index, the value is the half minus 8, and a row of odd length
    /// ends with an unused half.
    #[must_use]
    pub fn is_4bit(self) -> bool {
        matches!(self, Self::QcInt4 | Self::QbInt4)
    }

    /// Whether the elements are floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::BFloat16)
    }

    /// Whether the elements are integers that stand for other numbers, so that the value has a [`Quantization`].
    #[must_use]
    pub fn is_quantized(self) -> bool {
        !self.is_float() && self != Self::Int32
    }

    /// The name in the exporter, spelled out for floats.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::QInt8 => "qint8",
            Self::QUInt8 => "quint8",
            Self::QInt32 => "qint32",
            Self::QcInt8 => "qcint8",
            Self::QcInt32 => "qcint32",
            Self::QcInt4 => "qcint4",
            Self::QdInt8 => "qdint8",
            Self::QbInt4 => "qbint4",
            Self::Int32 => "int32",
            Self::BFloat16 => "bfloat16",
        }
    }
}

/// The meaning of a quantised value's integers. Scales that the file holds as numbers are finite and positive.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantization {
    /// `(q - zero_point) * scale`: [`QInt8`](DataType::QInt8), [`QUInt8`](DataType::QUInt8) and [`QInt32`](DataType::QInt32), whose
    /// zero point is 0. The zero point is a number of the type.
    PerTensor {
        /// The scale.
        scale: f32,
        /// The integer that stands for 0.
        zero_point: i32,
    },
    /// `q * scales[channel]`: [`QcInt8`](DataType::QcInt8), [`QcInt32`](DataType::QcInt32) and [`QcInt4`](DataType::QcInt4), always
    /// constants. There are `dims[axis]` scales.
    PerChannel {
        /// The dim of the channels.
        axis: u32,
        /// The float32 scales.
        scales: Scales,
    },
    /// A scale and a zero point per row, computed by the Convert node that writes the value: [`QdInt8`](DataType::QdInt8).
    PerToken {
        /// The number of innermost dims that are one row: from 1 to the rank.
        row_dims: u32,
    },
    /// `q * scales[channel][i / group_size]`, with `i` the index along the last dim: [`QbInt4`](DataType::QbInt4), always a constant
    /// of rank 2. There are `dims[0] * (dims[1] / group_size)` scales.
    PerGroup {
        /// The dim of the channels: 0.
        axis: u32,
        /// The elements of a group: a multiple of 32 that divides `dims[1]`.
        group_size: u32,
        /// The scales, group after group of channel after channel: bfloat16 in a constant. As numbers in the file they are
        /// float32, and ExecuTorch rounds each to bfloat16 by multiplying it with `1.00389105` and dropping the lower 16 bits.
        scales: Scales,
    },
}

impl Quantization {
    /// The name of the kind, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::PerTensor { .. } => "per tensor",
            Self::PerChannel { .. } => "per channel",
            Self::PerToken { .. } => "per token",
            Self::PerGroup { .. } => "per group",
        }
    }

    /// The scales, if there is a list of them.
    #[must_use]
    pub fn scales(&self) -> Option<&Scales> {
        match self {
            Self::PerChannel { scales, .. } | Self::PerGroup { scales, .. } => Some(scales),
            Self::PerTensor { .. } | Self::PerToken { .. } => None,
        }
    }
}

/// A list of scales.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// In the graph's tables. Finite and positive.
    Inline(Vec<f32>),
    /// In a constant, which is as long as `count` scales. Its bytes are not read here: check that they are finite.
    Constant {
        /// The constant.
        id: ConstantId,
        /// The number of scales.
        count: u32,
    },
}

impl Scales {
    /// The number of scales.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Inline(scales) => scales.len() as u64,
            Self::Constant { count, .. } => (*count).into(),
        }
    }
}
