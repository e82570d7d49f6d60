//! Operators that choose elements by their order. Tensors of 16-bit floats hold 32-bit floats on the GPU, of which no two are equal where the
//! file's numbers would be; what is chosen among equal ones, and whether they are, follows the file's.

use super::PlanValues;
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::ops::convert::{AS_BF16, AS_F16};

const CHOICES: &[&str] = &[
    "aten.argmax.default",
    "aten.argmin.default",
    "aten.max.dim",
    "aten.min.dim",
    "aten.sort.default",
    "aten.sort.stable",
    "aten.topk.default",
];

/// Rounds the first argument of such an operator to the numbers of its type.
pub(super) fn narrow(values: &mut PlanValues<'_>, operator: &str, inputs: &mut [ValueId]) -> Result<()> {
    let Some(first) = inputs.first_mut().filter(|_| CHOICES.contains(&operator)) else { return Ok(()) };
    let Some(tensor) = values.builder.tensor_at(*first).filter(|tensor| tensor.constant.is_none()) else { return Ok(()) };
    let narrow = match tensor.dtype {
        DataType::BFloat16 => AS_BF16,
        DataType::Float16 => AS_F16,
        _ => return Ok(()),
    };
    let (dtype, dims) = (tensor.dtype, tensor.dims.clone());
    *first = values.builder.compute(narrow, &[*first], dtype, &dims)?;
    Ok(())
}
