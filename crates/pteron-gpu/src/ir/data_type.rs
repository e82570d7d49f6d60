//! Element types of tensors.

/// The element type of a tensor in a program. [`Elem`](crate::graph::Elem) is its representation on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DataType {
    Bool,
    UInt8,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    /// Two per byte, the first in the low half. Rows (along the last dim) start at whole bytes.
    UInt4,
}

impl DataType {
    /// Bits per element.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::UInt4 => 4,
            Self::Bool | Self::UInt8 | Self::Int8 => 8,
            Self::Int16 | Self::Float16 | Self::BFloat16 => 16,
            Self::Int32 | Self::Float32 => 32,
            Self::Float64 | Self::Int64 => 64,
        }
    }

    /// The name in PyTorch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::UInt4 => "uint4",
        }
    }

    /// Bytes of a tensor with these dims, if 64 bits can count them.
    #[must_use]
    pub fn byte_len(self, dims: &[u32]) -> Option<u64> {
        let (last, rows) = dims.split_last().map_or((1, dims), |(last, rows)| (u64::from(*last), rows));
        // 2^32 elements of 64 bits each do not overflow.
        let row_bytes = (last * self.bits()).div_ceil(8);
        // A later 0 makes the product 0 again, so an intermediate overflow is not an error.
        if row_bytes == 0 || rows.contains(&0) {
            return Some(0);
        }
        rows.iter().try_fold(row_bytes, |bytes, &dim| bytes.checked_mul(dim.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_four_bit_integers_start_at_whole_bytes() {
        assert_eq!(DataType::UInt4.byte_len(&[3, 5]), Some(9));
        assert_eq!(DataType::UInt4.byte_len(&[3, 6]), Some(9));
        assert_eq!(DataType::UInt4.byte_len(&[]), Some(1));
    }

    #[test]
    fn lengths_that_64_bits_cannot_count_are_none() {
        assert_eq!(DataType::Float32.byte_len(&[2, 3, 4]), Some(96));
        assert_eq!(DataType::BFloat16.byte_len(&[]), Some(2));
        assert_eq!(DataType::Int64.byte_len(&[u32::MAX, u32::MAX]), None);
        assert_eq!(DataType::Int64.byte_len(&[u32::MAX, u32::MAX, 0]), Some(0));
        assert_eq!(DataType::Int64.byte_len(&[0, u32::MAX, u32::MAX, u32::MAX]), Some(0));
    }
}
