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
        /// The sizes are fixed.
        Static = 0,
        /// The sizes are upper bounds.
        Bound = 1,
        /// The sizes are not known before the program runs.
        Unbound = 2,
    }
    /// The location of a constant tensor's data.
    TensorDataLocation: i8, "a tensor's data location" {
        /// In a segment of the program.
        Segment = 0,
        /// In external data, under the tensor's name.
        External = 1,
    }
    /// The device of a tensor or buffer at run time.
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
    /// The offset of the first element in the storage; the exporter always writes 0.
    pub storage_offset: u32,
    /// Sizes, or their upper bounds.
    pub sizes: Vec<u32>,
    /// Dimensions from outermost to innermost in memory.
    pub dim_order: Vec<u8>,
    /// Whether the tensor requires gradients.
    pub requires_grad: bool,
    /// The index of the constant or initial value; 0 for neither.
    pub buffer: u32,
    /// Its location in planned memory.
    pub allocation: Option<AllocationDetails>,
    /// PyTorch's layout; 0 (strided) in practice.
    pub layout: i8,
    /// Whether sizes can change.
    pub dynamism: ShapeDynamism,
    /// Optional information that only some tensors have.
    pub extra: Option<ExtraTensorInfo>,
}

impl Tensor {
    /// Creates a contiguous tensor of fixed sizes, without data and without a place in planned memory.
    #[must_use]
    pub fn new(scalar_type: ScalarType, sizes: &[u32]) -> Self {
        Self {
            scalar_type,
            storage_offset: 0,
            sizes: sizes.to_vec(),
            dim_order: (0..).take(sizes.len()).collect(),
            requires_grad: false,
            buffer: 0,
            allocation: None,
            layout: 0,
            dynamism: ShapeDynamism::Static,
            extra: None,
        }
    }

    /// The number of elements at the largest size; `None` if it overflows 64 bits.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.sizes.iter().copied())
    }

    /// The number of bytes at the largest size; `None` if it overflows 64 bits.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.scalar_type.size())
    }
}

/// A location in planned memory.
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
    /// The list of initial values that a mutable tensor's buffer indexes.
    pub mutable_segment: u64,
    /// The name the tensor had in the module.
    pub name: Option<String>,
    /// The location of its data.
    pub location: TensorDataLocation,
    /// The kind of its device.
    pub device: DeviceType,
    /// Which device of that kind.
    pub device_index: i8,
}
