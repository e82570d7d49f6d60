//! Element types on the GPU.

use crate::ir::DataType;

/// The element type of a tensor on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32-bit floats; 16-bit floats of files are widened to them, 64-bit floats rounded.
    F32,
    /// 16-bit floats, two per word, for narrowed state. No tensor of a file is decoded to them.
    F16,
    /// 32-bit integers; the host narrows 64-bit ones.
    I32,
    /// Unsigned bytes, four per word.
    U8,
    /// Signed bytes, four per word.
    I8,
    /// Booleans, one byte each, four per word.
    Bool,
}

impl Elem {
    /// The element type that a program's is computed with; `None` if GPUs do not compute with it.
    #[must_use]
    pub fn of(dtype: DataType) -> Option<Self> {
        Some(match dtype {
            DataType::Float32 | DataType::Float16 | DataType::BFloat16 | DataType::Float64 => Self::F32,
            DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::I32,
            DataType::UInt8 => Self::U8,
            DataType::Int8 => Self::I8,
            DataType::Bool => Self::Bool,
            DataType::UInt4 => return None,
        })
    }

    /// Converts a number to an element of this type, in the low bits of a word.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers wrap as PyTorch wraps them")]
    pub fn bits(self, value: f64) -> u32 {
        match self {
            Self::F32 => (value as f32).to_bits(),
            Self::F16 => half::f16::from_f64(value).to_bits().into(),
            Self::I32 => value as i64 as u32,
            Self::U8 | Self::I8 => (value as i64 as u8).into(),
            Self::Bool => u32::from(value != 0.0),
        }
    }

    /// The number of elements per word.
    #[must_use]
    pub fn lanes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 1,
            Self::F16 => 2,
            Self::U8 | Self::I8 | Self::Bool => 4,
        }
    }

    /// Bytes that `count` elements take on the GPU; elements smaller than a word are packed into whole words.
    #[must_use]
    pub fn bytes(self, count: u64) -> u64 {
        match self {
            Self::F32 | Self::I32 => count.saturating_mul(4),
            Self::F16 => count.div_ceil(2).saturating_mul(4),
            Self::U8 | Self::I8 | Self::Bool => count.div_ceil(4).saturating_mul(4),
        }
    }
}
