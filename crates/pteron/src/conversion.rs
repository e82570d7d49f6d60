//! Conversion of tensors into a delegate's inputs, and of its outputs into tensors.

use std::borrow::Cow;

use half::{bf16, f16};
use pteron_format::ScalarType;
use pteron_format::alloc;
use pteron_gpu::engine::TensorData;
use pteron_gpu::graph::Elem;
use pteron_gpu::shape::Dims;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Converts a tensor to the element type that the GPU computes with, borrowing its bytes where they are the same. `refused`
/// turns a reason into an error.
pub(crate) fn to_gpu(tensor: &Tensor, refused: impl Fn(String) -> Error) -> Result<TensorData<'_>> {
    let Some(dims) = Dims::new(tensor.shape()) else {
        return Err(refused(format!("has {} dimensions, too many", tensor.shape().len())));
    };
    let bytes = tensor.bytes();
    let (elem, bytes) = match tensor.scalar_type() {
        ScalarType::Float => (Elem::F32, Cow::Borrowed(bytes)),
        ScalarType::Half => (Elem::F32, words(bytes, |[a, b]: [u8; 2]| f16::from_le_bytes([a, b]).to_f32().to_le_bytes())?),
        ScalarType::BFloat16 => {
            (Elem::F32, words(bytes, |[a, b]: [u8; 2]| bf16::from_le_bytes([a, b]).to_f32().to_le_bytes())?)
        }
        #[allow(clippy::cast_possible_truncation, reason = "GPUs compute with 32-bit floats")]
        ScalarType::Double => (Elem::F32, words(bytes, |bytes: [u8; 8]| (f64::from_le_bytes(bytes) as f32).to_le_bytes())?),
        ScalarType::Short => (Elem::I32, words(bytes, |bytes: [u8; 2]| i32::from(i16::from_le_bytes(bytes)).to_le_bytes())?),
        ScalarType::Int => (Elem::I32, Cow::Borrowed(bytes)),
        ScalarType::Long => {
            let mut narrow = alloc::vec(bytes.len() / 2)?;
            for value in bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned::<i64>) {
                let range = || refused(format!("holds {value}, allowed is {} to {}", i32::MIN, i32::MAX));
                narrow.extend_from_slice(&i32::try_from(value).map_err(|_| range())?.to_le_bytes());
            }
            (Elem::I32, Cow::Owned(narrow))
        }
        ScalarType::Byte => (Elem::U8, Cow::Borrowed(bytes)),
        ScalarType::Char => (Elem::I8, Cow::Borrowed(bytes)),
        ScalarType::Bool => (Elem::Bool, Cow::Borrowed(bytes)),
        other => return Err(refused(format!("is {}, which GPUs do not compute with", other.name()))),
    };
    Ok(TensorData { dims, elem, bytes })
}

/// Converts elements of `N` bytes to ones of `M` bytes.
fn words<const N: usize, const M: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> [u8; M]) -> Result<Cow<'static, [u8]>> {
    let (elements, _) = bytes.as_chunks::<N>();
    let mut converted = alloc::vec(elements.len().saturating_mul(M))?;
    elements.iter().for_each(|&element| converted.extend_from_slice(&convert(element)));
    Ok(Cow::Owned(converted))
}

/// Converts an output of the GPU to the type that a method's tensor has.
pub(crate) fn from_gpu(scalar_type: ScalarType, output: TensorData<'static>) -> Result<Tensor> {
    let float = |bytes: [u8; 4]| f32::from_le_bytes(bytes);
    let int = |bytes: [u8; 4]| i32::from_le_bytes(bytes);
    let bytes = match (output.elem, scalar_type) {
        (Elem::F32, ScalarType::Half) => words(&output.bytes, |word| f16::from_f32(float(word)).to_le_bytes())?,
        (Elem::F32, ScalarType::BFloat16) => words(&output.bytes, |word| bf16::from_f32(float(word)).to_le_bytes())?,
        (Elem::F32, ScalarType::Double) => words(&output.bytes, |word| f64::from(float(word)).to_le_bytes())?,
        (Elem::I32, ScalarType::Long) => words(&output.bytes, |word| i64::from(int(word)).to_le_bytes())?,
        #[allow(clippy::cast_possible_truncation, reason = "integers wrap as PyTorch wraps them")]
        (Elem::I32, ScalarType::Short) => words(&output.bytes, |word| (int(word) as i16).to_le_bytes())?,
        _ => output.bytes,
    };
    Tensor::new(scalar_type, &output.dims, bytes.into_owned())
}
