//! Conversion of tensors into a delegate's inputs, and of its outputs into tensors.

use std::borrow::Cow;

use half::f16;
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
        ScalarType::Half => {
            let mut wide = alloc::vec(bytes.len().saturating_mul(2))?;
            let widen = |half: &[u8]| f16::from_le_bytes([half[0], half[1]]).to_f32().to_le_bytes();
            bytes.chunks_exact(2).for_each(|half| wide.extend_from_slice(&widen(half)));
            (Elem::F32, Cow::Owned(wide))
        }
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

/// Converts an output of the GPU to the type that a method's tensor has.
pub(crate) fn from_gpu(scalar_type: ScalarType, output: TensorData<'static>) -> Result<Tensor> {
    let words = || output.bytes.chunks_exact(4);
    let bytes = match (output.elem, scalar_type) {
        (Elem::F32, ScalarType::Half) => {
            let mut bytes = alloc::vec(output.bytes.len() / 2)?;
            let halves = words().map(|word| f16::from_f32(bytemuck::pod_read_unaligned(word)).to_le_bytes());
            halves.for_each(|half| bytes.extend_from_slice(&half));
            bytes
        }
        (Elem::I32, ScalarType::Long) => {
            let mut bytes = alloc::vec(output.bytes.len().saturating_mul(2))?;
            let longs = words().map(|word| i64::from(bytemuck::pod_read_unaligned::<i32>(word)).to_le_bytes());
            longs.for_each(|long| bytes.extend_from_slice(&long));
            bytes
        }
        _ => output.bytes.into_owned(),
    };
    Tensor::new(scalar_type, &output.dims, bytes)
}
