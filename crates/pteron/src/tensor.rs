//! Tensors as a method takes and returns them.

use std::sync::Arc;

use half::{bf16, f16};
use pteron_format::{ScalarType, alloc};

use crate::error::{Error, Result};

/// A tensor on the host: a type, a shape, and contiguous little-endian bytes. Clones share the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    scalar_type: ScalarType,
    shape: Vec<u32>,
    bytes: Arc<Vec<u8>>,
}

impl Tensor {
    /// Creates a tensor from bytes.
    ///
    /// # Errors
    /// A number of bytes other than the type and shape need.
    pub fn new(scalar_type: ScalarType, shape: &[u32], bytes: Vec<u8>) -> Result<Self> {
        Self::shared(scalar_type, shape, Arc::new(bytes))
    }

    /// Creates a tensor from bytes that may be shared.
    pub(crate) fn shared(scalar_type: ScalarType, shape: &[u32], bytes: Arc<Vec<u8>>) -> Result<Self> {
        let count = pteron_format::element_count(shape.iter().copied());
        let need = count.and_then(|count| count.checked_mul(scalar_type.size()));
        if need != Some(bytes.len() as u64) {
            let name = scalar_type.name();
            let need = need.map_or_else(|| "too many to count".to_owned(), |need| need.to_string());
            return Err(Error::Tensor(format!("{name} {shape:?} needs {need} bytes, but {} came", bytes.len())));
        }
        Ok(Self { scalar_type, shape: shape.to_vec(), bytes })
    }

    /// Creates a tensor of floats.
    ///
    /// # Errors
    /// A number of values other than the shape needs.
    pub fn from_f32(shape: &[u32], values: &[f32]) -> Result<Self> {
        Self::new(ScalarType::Float, shape, bytemuck::cast_slice(values).to_vec())
    }

    /// Creates a tensor of 64-bit integers, such as token ids and positions.
    ///
    /// # Errors
    /// A number of values other than the shape needs.
    pub fn from_i64(shape: &[u32], values: &[i64]) -> Result<Self> {
        Self::new(ScalarType::Long, shape, bytemuck::cast_slice(values).to_vec())
    }

    /// Creates a tensor of zeros.
    ///
    /// # Errors
    /// A shape that is too large, or out of memory.
    pub fn zeros(scalar_type: ScalarType, shape: &[u32]) -> Result<Self> {
        let count = pteron_format::element_count(shape.iter().copied());
        let len = count.and_then(|count| usize::try_from(count.checked_mul(scalar_type.size())?).ok());
        match len {
            Some(len) => Self::new(scalar_type, shape, alloc::zeroed(len)?),
            None => Err(Error::Tensor(format!("{} {shape:?} is too large", scalar_type.name()))),
        }
    }

    /// The element type.
    #[must_use]
    pub fn scalar_type(&self) -> ScalarType {
        self.scalar_type
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// The elements as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The shared bytes.
    pub(crate) fn storage(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// The elements as floats; `None` for a tensor of any other type.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match self.scalar_type {
            ScalarType::Float => Some(bytemuck::pod_collect_to_vec(self.bytes())),
            ScalarType::Half => {
                Some(self.bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
            }
            ScalarType::BFloat16 => {
                Some(self.bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
            }
            #[allow(clippy::cast_possible_truncation, reason = "the caller asks for 32-bit floats")]
            ScalarType::Double => {
                Some(bytemuck::pod_collect_to_vec::<u8, f64>(self.bytes()).into_iter().map(|double| double as f32).collect())
            }
            _ => None,
        }
    }

    /// The elements as integers; `None` for a tensor of floats.
    #[must_use]
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        match self.scalar_type {
            ScalarType::Long => Some(bytemuck::pod_collect_to_vec(self.bytes())),
            ScalarType::Int => {
                Some(bytemuck::pod_collect_to_vec::<u8, i32>(self.bytes()).into_iter().map(i64::from).collect())
            }
            ScalarType::Short => {
                Some(bytemuck::pod_collect_to_vec::<u8, i16>(self.bytes()).into_iter().map(i64::from).collect())
            }
            ScalarType::Byte | ScalarType::Bool => Some(self.bytes.iter().map(|&byte| byte.into()).collect()),
            ScalarType::Char => Some(self.bytes.iter().map(|&byte| byte.cast_signed().into()).collect()),
            _ => None,
        }
    }
}
