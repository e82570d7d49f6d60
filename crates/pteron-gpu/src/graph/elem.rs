//! Element types as the GPU holds them.

use crate::ir::DataType;

/// The element type of a tensor on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32-bit floats; 16-bit ones of files are held so too.
    F32,
    /// 16-bit floats, two a word: caches that are kept so. No file's tensor is decoded to them.
    F16,
    /// 32-bit integers; 64-bit ones are narrowed by the host.
    I32,
    /// Unsigned bytes, four a word.
    U8,
    /// Signed bytes, four a word.
    I8,
    /// Truth values, a byte each, four a word.
    Bool,
}

impl Elem {
    pub(super) fn of(dtype: DataType) -> Option<Self> {
        Some(match dtype {
            DataType::Float32 | DataType::Float16 => Self::F32,
            DataType::Int32 | DataType::Int64 => Self::I32,
            DataType::UInt8 => Self::U8,
            DataType::Int8 => Self::I8,
            DataType::Bool => Self::Bool,
            DataType::Float64 | DataType::BFloat16 | DataType::UInt4 => return None,
        })
    }

    /// A number as an element of this type, in the low bits of a word.
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

    /// How many elements lie in a word.
    #[must_use]
    pub fn lanes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 1,
            Self::F16 => 2,
            Self::U8 | Self::I8 | Self::Bool => 4,
        }
    }

    /// Bytes that `count` elements take on the GPU; what is smaller than a word is packed into whole ones.
    #[must_use]
    pub fn bytes(self, count: u64) -> u64 {
        match self {
            Self::F32 | Self::I32 => count.saturating_mul(4),
            Self::F16 => count.div_ceil(2).saturating_mul(4),
            Self::U8 | Self::I8 | Self::Bool => count.div_ceil(4).saturating_mul(4),
        }
    }
}
