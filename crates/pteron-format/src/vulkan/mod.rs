//! The typed graph of a Vulkan delegate, and the blob that holds it.

mod blob;
mod read;
mod verify;
mod write;

use std::fmt;

pub use blob::{Blob, read_blob, write_blob};
#[cfg(feature = "fuzzing")]
pub(crate) use blob::{assemble, write_blob_unverified};
pub(crate) use blob::{pad, read_blob_within};
#[cfg(feature = "fuzzing")]
pub(crate) use verify::verify as verify_graph;

pub use crate::constant::{Constant, ConstantId, ConstantSource};
use crate::dtype::element_count;
use crate::number::{Float, wire_enum};
use crate::program::ids;

/// The backend id of a delegate that holds such a graph.
pub const BACKEND_ID: &str = "VulkanBackend";

ids! {
    /// A value of a graph.
    ValueId,
}

/// A delegate's graph: calls in order over numbered values. Dims are upper bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The version of the exporter's schema.
    pub version: String,
    /// The calls, in the order they run.
    pub chain: Vec<Call>,
    /// Everything calls refer to.
    pub values: Vec<Value>,
    /// The graph's inputs.
    pub inputs: Vec<ValueId>,
    /// The graph's outputs.
    pub outputs: Vec<ValueId>,
    /// Bytes of constants, or their names.
    pub constants: Vec<Constant>,
    /// Bytes of shaders; none in practice.
    pub shaders: Vec<Constant>,
    /// The storage that overrides every tensor's.
    pub storage_override: StorageType,
    /// The memory layout that overrides every tensor's.
    pub layout_override: MemoryLayout,
}

impl Graph {
    /// The value with this id.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// The keys of constants that lie outside the delegate, in order, repeated where tensors share one.
    pub fn named_keys(&self) -> impl Iterator<Item = &str> {
        self.constants.iter().filter_map(|constant| match &constant.source {
            ConstantSource::Named(key) => Some(key.as_str()),
            ConstantSource::Stored(_) => None,
        })
    }
}

/// One operator call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The node it came from, for profilers.
    pub node_id: u32,
    /// The operator's name, `aten.add.Tensor`.
    pub name: String,
    /// All arguments of the operator's schema in order, the output last.
    pub args: Vec<ValueId>,
}

/// A value of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(Float),
    /// A truth value.
    Bool(bool),
    /// A tensor.
    Tensor(Tensor),
    /// Integers.
    IntList(Vec<i64>),
    /// Floating-point numbers.
    DoubleList(Vec<Float>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Ids of values.
    ValueList(Vec<ValueId>),
    /// A string.
    String(String),
    /// An integer known only when the graph runs.
    SymInt(i32),
}

impl Value {
    /// The kind of value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "None",
            Self::Int(_) => "an integer",
            Self::Double(_) => "a float",
            Self::Bool(_) => "a bool",
            Self::Tensor(_) => "a tensor",
            Self::IntList(_) => "a list of integers",
            Self::DoubleList(_) => "a list of floats",
            Self::BoolList(_) => "a list of bools",
            Self::ValueList(_) => "a list of values",
            Self::String(_) => "a string",
            Self::SymInt(_) => "a symbolic integer",
        }
    }

    /// The tensor, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// A tensor value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type in the graph.
    pub dtype: DataType,
    /// Upper bounds of the sizes.
    pub dims: Vec<u32>,
    /// The constant that is its initial value.
    pub constant: Option<ConstantId>,
    /// Tensors of one object share memory, in the exporter's plan.
    pub memory_object: Option<u32>,
    /// The storage that the exporter chose.
    pub storage: StorageType,
    /// The memory layout that the exporter chose.
    pub layout: MemoryLayout,
    /// Element type at the graph's inputs and outputs, if it differs.
    pub staging: Option<DataType>,
}

impl Tensor {
    /// Creates a tensor in a buffer, without a constant.
    #[must_use]
    pub fn new(dtype: DataType, dims: &[u32]) -> Self {
        Self {
            dtype,
            dims: dims.to_vec(),
            constant: None,
            memory_object: None,
            storage: StorageType::Buffer,
            layout: MemoryLayout::WidthPacked,
            staging: None,
        }
    }

    /// The number of elements at the largest size; `None` if it overflows 64 bits.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.dims.iter().copied())
    }

    /// The number of bytes at the largest size; `None` if it overflows 64 bits.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.dtype.size())
    }

    /// The element type at the graph's inputs and outputs.
    #[must_use]
    pub fn border_dtype(&self) -> DataType {
        self.staging.unwrap_or(self.dtype)
    }
}

wire_enum! {
    /// The element type of a graph's tensor.
    #[allow(missing_docs, reason = "the names say it")]
    DataType: i8, "a tensor's element type" {
        Bool = 0, UInt8 = 1, Int8 = 2, Int32 = 3, Float16 = 4, Float32 = 5, Float64 = 6, Int64 = 7,
    }
    /// The storage that the exporter chose for a tensor. A runtime that uses buffers ignores it.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the names say it")]
    StorageType: u8, "a tensor's storage type" {
        Buffer = 0, Texture3d = 1, Texture2d = 2,
        /// Not decided.
        #[default]
        Unset = 255,
    }
    /// The memory layout that the exporter chose for a tensor. A runtime that uses buffers ignores it.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the names are the exporter's")]
    MemoryLayout: u8, "a tensor's memory layout" {
        WidthPacked = 0, HeightPacked = 1, ChannelsPacked = 2, PackedInt8W4C4 = 3, PackedInt8H4W4 = 4, PackedInt8W4 = 5,
        PackedInt8C4 = 6, PackedInt8C4W1 = 8, PackedInt8Conv2d = 9,
        /// Not decided.
        #[default]
        Unset = 255,
    }
}

impl DataType {
    /// The size of an element in bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::Bool | Self::UInt8 | Self::Int8 => 1,
            Self::Float16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Float64 | Self::Int64 => 8,
        }
    }

    /// The name in PyTorch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Int64 => "int64",
        }
    }
}
