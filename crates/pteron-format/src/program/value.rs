//! The values of a plan: tensors, numbers, strings and lists of them.

use super::ValueId;
use crate::dtype::{ScalarType, element_count};
use crate::number::{Float, wire_enum};

/// A value of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(Float),
    /// A tensor.
    Tensor(Box<Tensor>),
    /// A string.
    String(String),
    /// Ids of integer values.
    IntList(Vec<ValueId>),
    /// Floating-point numbers.
    DoubleList(Vec<Float>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Ids of tensor values.
    TensorList(Vec<ValueId>),
    /// Ids of tensor values, or None.
    OptionalTensorList(Vec<Option<ValueId>>),
}

impl Value {
    /// The kind of value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "None",
            Self::Int(_) => "an integer",
            Self::Bool(_) => "a bool",
            Self::Double(_) => "a float",
            Self::Tensor(_) => "a tensor",
            Self::String(_) => "a string",
            Self::IntList(_) => "a list of integers",
            Self::DoubleList(_) => "a list of floats",
            Self::BoolList(_) => "a list of bools",
            Self::TensorList(_) => "a list of tensors",
            Self::OptionalTensorList(_) => "a list of optional tensors",
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

wire_enum! {
    /// Whether a tensor's sizes can change from call to call.
    ShapeDynamism: i8, "a tensor's shape dynamism" {
        /// The sizes are the sizes.
        Static = 0,
        /// The sizes are upper bounds.
        Bound = 1,
        /// The sizes are not known before the program runs.
        Unbound = 2,
    }
    /// Where a constant tensor's data lies.
    TensorDataLocation: i8, "a tensor's data location" {
        /// In a segment of the program.
        Segment = 0,
        /// In external data, under the tensor's name.
        External = 1,
    }
    /// Where a tensor or buffer lives at run time.
    DeviceType: i8, "a device type" {
        /// Host memory.
        Cpu = 0,
        /// A CUDA device.
        Cuda = 1,
    }
}

/// A tensor value of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub scalar_type: ScalarType,
    /// First element within the storage; always 0 in what the exporter writes.
    pub storage_offset: u32,
    /// Sizes, or their upper bounds.
    pub sizes: Vec<u32>,
    /// Dimensions from outermost to innermost in memory.
    pub dim_order: Vec<u8>,
    /// Whether the tensor wants gradients.
    pub requires_grad: bool,
    /// Which constant or initial value; 0 for neither.
    pub buffer: u32,
    /// Where the memory planner put it.
    pub allocation: Option<AllocationDetails>,
    /// PyTorch's layout; 0 (strided) in practice.
    pub layout: i8,
    /// Whether sizes can change.
    pub dynamism: ShapeDynamism,
    /// Optional information that only some tensors have.
    pub extra: Option<ExtraTensorInfo>,
}

impl Tensor {
    /// Elements at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.sizes.iter().copied())
    }

    /// Bytes at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.scalar_type.size())
    }
}

/// A place in planned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationDetails {
    /// The planned buffer.
    pub memory: u32,
    /// The offset in it.
    pub offset: u64,
}

/// Optional information that only some tensors have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraTensorInfo {
    /// Which list of initial values a mutable tensor's buffer counts in.
    pub mutable_segment: u64,
    /// The name the tensor had in the module.
    pub name: Option<String>,
    /// Where its data lies.
    pub location: TensorDataLocation,
    /// The kind of device it lives on.
    pub device: DeviceType,
    /// Which device of that kind.
    pub device_index: i8,
}
