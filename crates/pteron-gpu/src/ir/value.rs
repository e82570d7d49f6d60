//! Values: arguments and results of calls.

use std::fmt;

use super::{DataType, DimOrder, Quantization};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

ids! {
    /// A value of a graph.
    ValueId,
    /// A constant of a graph.
    ConstantId,
}

/// A value of a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A Boolean.
    Bool(bool),
    /// A tensor.
    Tensor(Tensor),
    /// Integers.
    IntList(Vec<i64>),
    /// Floating-point numbers.
    DoubleList(Vec<f64>),
    /// Booleans.
    BoolList(Vec<bool>),
    /// Ids of values that are not lists of values themselves.
    ValueList(Vec<ValueId>),
    /// A string.
    String(String),
    /// An integer that a call computes when the graph runs.
    SymInt,
}

impl Value {
    /// The kind of value, for error messages.
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
            Self::SymInt => "a symbolic integer",
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
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its element type.
    pub dtype: DataType,
    /// Upper bounds of its sizes.
    pub dims: Vec<u32>,
    /// The order of its dims in memory.
    pub dim_order: DimOrder,
    /// The parameters that convert its integers to real numbers, if it is quantised.
    pub quantization: Option<Quantization>,
    /// The constant with its initial bytes.
    pub constant: Option<ConstantId>,
}

impl Tensor {
    /// Creates a contiguous tensor of plain numbers that a call computes or the caller passes.
    #[must_use]
    pub fn new(dtype: DataType, dims: &[u32]) -> Self {
        Self { dtype, dims: dims.to_vec(), dim_order: DimOrder::CONTIGUOUS, quantization: None, constant: None }
    }

    /// Elements at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        DataType::UInt8.byte_len(&self.dims)
    }

    /// Bytes at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        self.dtype.byte_len(&self.dims)
    }
}
