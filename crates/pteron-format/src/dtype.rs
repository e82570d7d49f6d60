//! Element types of a program's tensors.

use crate::number::wire_enum;

/// The largest rank ExecuTorch's runtime accepts.
pub const MAX_RANK: usize = 16;

wire_enum! {
    /// The element type of a program's tensor, numbered as PyTorch numbers them.
    #[allow(missing_docs, reason = "the names are PyTorch's")]
    ScalarType: i8, "a tensor's element type" {
        Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, Bool = 11, QInt8 = 12, QUInt8 = 13,
        QInt32 = 14, BFloat16 = 15, QUInt4x2 = 16, QUInt2x4 = 17, Bits16 = 22, Float8E5M2 = 23, Float8E4M3Fn = 24,
        Float8E5M2Fnuz = 25, Float8E4M3Fnuz = 26, UInt16 = 27, UInt32 = 28, UInt64 = 29,
    }
}

impl ScalarType {
    /// The size of an element in bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::Bool | Self::QInt8 | Self::QUInt8 | Self::QUInt4x2 | Self::QUInt2x4 => 1,
            Self::Float8E5M2 | Self::Float8E4M3Fn | Self::Float8E5M2Fnuz | Self::Float8E4M3Fnuz => 1,
            Self::Short | Self::Half | Self::BFloat16 | Self::Bits16 | Self::UInt16 => 2,
            Self::Int | Self::Float | Self::QInt32 | Self::UInt32 => 4,
            Self::Long | Self::Double | Self::UInt64 => 8,
        }
    }

    /// The name in PyTorch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Byte => "uint8",
            Self::Char => "int8",
            Self::Short => "int16",
            Self::Int => "int32",
            Self::Long => "int64",
            Self::Half => "float16",
            Self::Float => "float32",
            Self::Double => "float64",
            Self::Bool => "bool",
            Self::QInt8 => "qint8",
            Self::QUInt8 => "quint8",
            Self::QInt32 => "qint32",
            Self::BFloat16 => "bfloat16",
            Self::QUInt4x2 => "quint4x2",
            Self::QUInt2x4 => "quint2x4",
            Self::Bits16 => "bits16",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E4M3Fn => "float8_e4m3fn",
            Self::Float8E5M2Fnuz => "float8_e5m2fnuz",
            Self::Float8E4M3Fnuz => "float8_e4m3fnuz",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
        }
    }
}

/// The number of elements in a tensor of these dimensions; `None` if it overflows 64 bits.
pub fn element_count(dims: impl IntoIterator<Item = u32>) -> Option<u64> {
    // A zero anywhere makes the product zero, even where the other dimensions alone would overflow.
    let mut count = Some(1u64);
    for dim in dims {
        if dim == 0 {
            return Some(0);
        }
        count = count.and_then(|count| count.checked_mul(u64::from(dim)));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_type_survives_the_wire() {
        for &scalar in ScalarType::ALL {
            assert_eq!(ScalarType::from_wire(scalar.to_wire()), Some(scalar));
            assert!(scalar.size().is_power_of_two());
        }
        assert_eq!(ScalarType::from_wire(8), None);
    }

    #[test]
    fn counting_elements() {
        assert_eq!(element_count([]), Some(1));
        assert_eq!(element_count([2, 3, 4]), Some(24));
        assert_eq!(element_count([u32::MAX, u32::MAX, u32::MAX, 0]), Some(0));
        assert_eq!(element_count([u32::MAX, u32::MAX, 2]), None);
    }
}
