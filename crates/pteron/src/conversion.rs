//! Conversion of tensors into a delegate's inputs, and of its outputs into tensors.

use std::borrow::Cow;

use bytemuck::AnyBitPattern;
use half::f16;
use pteron_format::ScalarType;
use pteron_format::alloc::{self, OutOfMemory};
use pteron_format::program::Tensor as PlanTensor;
use pteron_gpu::engine::{HostView, InputView, OutputData};
use pteron_gpu::graph::Elem;
use pteron_gpu::shape::Dims;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tensor as the GPU takes it: borrowed where the bytes are the same.
pub(crate) struct StagedInput<'a> {
    dims: Dims,
    data: StagedElements<'a>,
}

enum StagedElements<'a> {
    F32(Cow<'a, [f32]>),
    I32(Cow<'a, [i32]>),
    Bytes(&'a [u8]),
}

impl<'a> StagedInput<'a> {
    /// A tensor as the GPU takes it; `refused` turns a reason into an error.
    pub(crate) fn new(tensor: &'a Tensor, refused: impl Fn(String) -> Error) -> Result<Self> {
        let Some(dims) = Dims::new(tensor.shape()) else {
            return Err(refused(format!("has {} dimensions, too many", tensor.shape().len())));
        };
        let bytes = tensor.bytes();
        let data = match tensor.scalar_type() {
            ScalarType::Float => StagedElements::F32(elements(bytes)?),
            ScalarType::Half => {
                let wide = |half: &[u8]| f16::from_le_bytes([half[0], half[1]]).to_f32();
                StagedElements::F32(Cow::Owned(alloc::collect(bytes.chunks_exact(2).map(wide))?))
            }
            ScalarType::Int => StagedElements::I32(elements(bytes)?),
            ScalarType::Long => {
                let mut values = alloc::vec(bytes.len() / 8)?;
                for value in bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned::<i64>) {
                    let range = || refused(format!("holds {value}, allowed is {} to {}", i32::MIN, i32::MAX));
                    values.push(i32::try_from(value).map_err(|_| range())?);
                }
                StagedElements::I32(Cow::Owned(values))
            }
            ScalarType::Byte | ScalarType::Char | ScalarType::Bool => StagedElements::Bytes(bytes),
            other => return Err(refused(format!("is {}, which GPUs do not compute with", other.name()))),
        };
        Ok(Self { dims, data })
    }

    pub(crate) fn view(&self) -> InputView<'_> {
        let data = match &self.data {
            StagedElements::F32(values) => HostView::F32(values),
            StagedElements::I32(values) => HostView::I32(values),
            StagedElements::Bytes(values) => HostView::Bytes(values),
        };
        InputView { dims: self.dims, data }
    }
}

/// Bytes as elements, copied only where they are not aligned as those must be.
fn elements<T: AnyBitPattern + bytemuck::NoUninit>(bytes: &[u8]) -> Result<Cow<'_, [T]>, OutOfMemory> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => Ok(Cow::Borrowed(elements)),
        Err(_) => alloc::collect(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)).map(Cow::Owned),
    }
}

/// An answer as the method's tensor has it.
pub(crate) fn from_gpu(tensor: &PlanTensor, answer: OutputData) -> Result<Tensor> {
    let words = || answer.bytes.chunks_exact(4);
    let bytes = match (answer.elem, tensor.scalar_type) {
        (Elem::F32, ScalarType::Half) => {
            let mut bytes = alloc::vec(answer.bytes.len() / 2)?;
            let halves = words().map(|word| f16::from_f32(bytemuck::pod_read_unaligned(word)).to_le_bytes());
            halves.for_each(|half| bytes.extend_from_slice(&half));
            bytes
        }
        (Elem::I32, ScalarType::Long) => {
            let mut bytes = alloc::vec(answer.bytes.len().saturating_mul(2))?;
            let longs = words().map(|word| i64::from(bytemuck::pod_read_unaligned::<i32>(word)).to_le_bytes());
            longs.for_each(|long| bytes.extend_from_slice(&long));
            bytes
        }
        _ => answer.bytes,
    };
    Tensor::new(tensor.scalar_type, &answer.dims, bytes)
}
