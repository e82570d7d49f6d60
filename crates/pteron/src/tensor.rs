//! Tensors as a method takes and returns them.

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use pteron_format::{ScalarType, alloc};

use crate::error::{Error, Result};

/// A tensor on the host: a type, a shape, and contiguous little-endian bytes. Clones share the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    scalar_type: ScalarType,
    shape: Vec<u32>,
    bytes: Storage,
}

/// The bytes of a tensor, which clones share.
#[derive(Clone)]
pub(crate) enum Storage {
    Owned(Arc<Vec<u8>>),
    /// Memory of somebody else, who may change it between calls.
    Borrowed(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Borrowed(owner) => (**owner).as_ref(),
        }
    }

    /// The address of the bytes, the same for all that share them.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Owned(bytes) => Arc::as_ptr(bytes).addr(),
            Self::Borrowed(owner) => Arc::as_ptr(owner).addr(),
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

impl PartialEq for Storage {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Tensor {
    /// Creates a tensor from bytes.
    ///
    /// # Errors
    /// A number of bytes other than the type and shape need.
    pub fn new(scalar_type: ScalarType, shape: &[u32], bytes: Vec<u8>) -> Result<Self> {
        Self::shared(scalar_type, shape, Storage::Owned(Arc::new(bytes)))
    }

    /// Creates a tensor whose bytes are another owner's memory, which is not copied: an array of another library, or a mapped file.
    ///
    /// A call reads the bytes while it runs. State never refers to them, but an output that is an input of the method does; see
    /// [`into_bytes`](Self::into_bytes).
    ///
    /// # Errors
    /// A number of bytes other than the type and shape need.
    pub fn from_owner(scalar_type: ScalarType, shape: &[u32], owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Result<Self> {
        Self::shared(scalar_type, shape, Storage::Borrowed(owner))
    }

    /// Creates a tensor from bytes that may be shared.
    pub(crate) fn shared(scalar_type: ScalarType, shape: &[u32], bytes: Storage) -> Result<Self> {
        let count = pteron_format::element_count(shape.iter().copied());
        let need = count.and_then(|count| count.checked_mul(scalar_type.size()));
        let len = bytes.bytes().len();
        if need != Some(len as u64) {
            let name = scalar_type.name();
            let need = need.map_or_else(|| "too many to count".to_owned(), |need| need.to_string());
            return Err(Error::Tensor(format!("{name} {shape:?} needs {need} bytes, but {len} came")));
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
        self.bytes.bytes()
    }

    /// Takes the elements as little-endian bytes. They are copied if another tensor shares them, or another owner has them.
    ///
    /// # Errors
    /// Out of memory.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        match self.bytes {
            Storage::Owned(bytes) => match Arc::try_unwrap(bytes) {
                Ok(bytes) => Ok(bytes),
                Err(shared) => Ok(alloc::copied(&shared)?),
            },
            Storage::Borrowed(owner) => Ok(alloc::copied((*owner).as_ref())?),
        }
    }

    /// The same tensor with bytes that no other owner can change.
    pub(crate) fn detached(&self) -> Result<Self> {
        match &self.bytes {
            Storage::Owned(_) => Ok(self.clone()),
            Storage::Borrowed(owner) => Self::new(self.scalar_type, &self.shape, alloc::copied((**owner).as_ref())?),
        }
    }

    /// The shared bytes.
    pub(crate) fn storage(&self) -> &Storage {
        &self.bytes
    }

    /// The elements as floats; `None` for a tensor of any other type.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match self.scalar_type {
            ScalarType::Float => Some(bytemuck::pod_collect_to_vec(self.bytes())),
            ScalarType::Half => {
                Some(self.bytes().chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
            }
            ScalarType::BFloat16 => {
                Some(self.bytes().chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
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
            ScalarType::Byte | ScalarType::Bool => Some(self.bytes().iter().map(|&byte| byte.into()).collect()),
            ScalarType::Char => Some(self.bytes().iter().map(|&byte| byte.cast_signed().into()).collect()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_another_owner_are_not_copied_until_they_are_taken() {
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![1u8, 0, 0, 0]);
        let tensor = Tensor::from_owner(ScalarType::Int, &[1], Arc::clone(&owner)).unwrap();
        assert_eq!(tensor.bytes().as_ptr(), (*owner).as_ref().as_ptr());
        assert_eq!(tensor.to_i64(), Some(vec![1]));
        let detached = tensor.detached().unwrap();
        assert_ne!(detached.bytes().as_ptr(), tensor.bytes().as_ptr());
        assert_eq!(detached, tensor);
        assert_eq!(tensor.into_bytes().unwrap(), [1, 0, 0, 0]);
        let error = Tensor::from_owner(ScalarType::Int, &[2], owner).unwrap_err().to_string();
        assert_eq!(error, "tensor: int32 [2] needs 8 bytes, but 4 came");
    }

    #[test]
    fn owned_bytes_are_moved_out_unless_a_clone_shares_them() {
        let tensor = Tensor::from_i64(&[1], &[7]).unwrap();
        let (address, clone) = (tensor.bytes().as_ptr(), tensor.clone());
        let copied = tensor.into_bytes().unwrap();
        assert_ne!(copied.as_ptr(), address);
        let moved = clone.into_bytes().unwrap();
        assert_eq!(moved.as_ptr(), address);
    }
}
