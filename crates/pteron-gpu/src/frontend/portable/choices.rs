//! Operators that choose elements by their order. Tensors of 16-bit floats hold 32-bit floats on the GPU, of which no two are equal where the
//! file's numbers would be; what is chosen among equal ones, and whether they are, follows the file's.

use super::PlanValues;
use super::flow::KernelArgs;
use crate::error::Result;
use crate::graph::Elem;
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

/// Those of them whose first output holds elements of their input.
const ORDERS: &[&str] = &["aten.sort.default", "aten.sort.stable", "aten.topk.default"];

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

/// Orders bytes as words, which is all that the operators take. Returns false for anything else.
pub(super) fn of_bytes(
    values: &mut PlanValues<'_>,
    operator: &str,
    args: &KernelArgs<'_>,
    inputs: &mut [ValueId],
) -> Result<bool> {
    let (true, &[ordered, places], Some(first)) = (ORDERS.contains(&operator), args.outputs, inputs.first_mut()) else {
        return Ok(false);
    };
    let elem = values.builder.tensor_at(*first).and_then(|tensor| Elem::of(tensor.dtype));
    if matches!(elem, None | Some(Elem::F32 | Elem::I32)) {
        return Ok(false);
    }
    *first = values.converted(*first, DataType::Int32)?;
    let (_, dims) = values.tensor_type(ordered)?;
    let (words, places) = (values.builder.tensor(DataType::Int32, dims)?, values.output(places)?);
    let outputs = values.builder.list(&[words, places])?;
    values.builder.call(operator, &[&*inputs, &[outputs]].concat())?;
    values.assign(ordered, words)?;
    Ok(true)
}
