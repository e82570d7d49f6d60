//! Numbers that steer: sizes, elements of inputs, and arithmetic on them.
//!
//! Arithmetic on literals is done here, so that operators which need a literal get one.

use pteron_format::program::Value as PlanValue;

use super::PlanValues;
use super::flow::KernelArgs;
use crate::error::Result;
use crate::ir::ValueId;
use crate::ops::symint;

/// The operator of each kernel that computes with numbers. Those with `None` only rename a number.
const TABLE: &[(&str, Option<&str>)] = &[
    ("executorch_prim::add.Scalar", Some("add")),
    ("executorch_prim::sub.Scalar", Some("sub")),
    ("executorch_prim::mul.Scalar", Some("mul")),
    ("executorch_prim::floordiv.Scalar", Some("floordiv")),
    ("executorch_prim::mod.Scalar", Some("mod")),
    ("executorch_prim::mod.int", Some("mod")),
    ("executorch_prim::sym_max.Scalar", Some("sym_max")),
    ("executorch_prim::sym_min.Scalar", Some("sym_min")),
    ("executorch_prim::lt.Scalar", Some("lt")),
    ("executorch_prim::le.Scalar", Some("le")),
    ("executorch_prim::gt.Scalar", Some("gt")),
    ("executorch_prim::ge.Scalar", Some("ge")),
    ("executorch_prim::eq.Scalar", Some("eq")),
    ("executorch_prim::neg.Scalar", Some("sub")),
    ("executorch_prim::trunc.Scalar", None),
    ("executorch_prim::ceil.Scalar", None),
    ("executorch_prim::round.Scalar", None),
];

const SIZE: &str = "aten::sym_size.int";
const NUMEL: &str = "aten::sym_numel";
const ITEM: &str = "aten::_local_scalar_dense";

/// Whether kernels of this name compute a number.
pub(super) fn is_known(kernel: &str) -> bool {
    [SIZE, NUMEL, ITEM].contains(&kernel) || TABLE.iter().any(|(name, _)| *name == kernel)
}

pub(super) fn translate(values: &mut PlanValues<'_>, kernel: &str, args: &KernelArgs<'_>) -> Result<()> {
    let out = super::first_output(values, args)?;
    let number = match kernel {
        SIZE => size(values, args)?,
        NUMEL => numel(values, args)?,
        ITEM => {
            let tensor = values.tensor_in(args, 0)?;
            match values.known_number(tensor)? {
                Some(number) => number,
                None => {
                    // The host reads it, between two graphs.
                    values.computed_number = true;
                    values.builder.int(0)?
                }
            }
        }
        _ => arithmetic(values, kernel, args)?,
    };
    values.set(out, number);
    Ok(())
}

fn size(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<ValueId> {
    let dim = values.literal_at(args, 1, "dim")?;
    let id = values.input_at(args, 0)?;
    if let Some(size) = values.fixed_size(id, dim) {
        return values.builder.int(size);
    }
    let tensor = values.tensor(id)?;
    size_of(values, tensor, dim)
}

fn size_of(values: &mut PlanValues<'_>, tensor: ValueId, dim: i64) -> Result<ValueId> {
    let (dim, out) = (values.builder.int(dim)?, values.builder.symint()?);
    values.builder.call("sym_size.int", &[tensor, dim, out])?;
    Ok(out)
}

/// The product of all sizes.
fn numel(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<ValueId> {
    let tensor = values.tensor_in(args, 0)?;
    let rank = values.builder.tensor_at(tensor).map_or(0, |tensor| tensor.dims.len());
    let mut product = values.builder.int(1)?;
    for dim in (0i64..).take(rank) {
        let size = size_of(values, tensor, dim)?;
        product = binary(values, "mul", product, size)?;
    }
    Ok(product)
}

fn arithmetic(values: &mut PlanValues<'_>, kernel: &str, args: &KernelArgs<'_>) -> Result<ValueId> {
    let operator = TABLE.iter().find(|(name, _)| *name == kernel).and_then(|(_, operator)| *operator);
    let a = number(values, args, 0)?;
    match (operator, args.inputs.len()) {
        (None, _) => Ok(a),
        (Some(operator), 1) => {
            let zero = values.builder.int(0)?;
            binary(values, operator, zero, a)
        }
        (Some(operator), _) => {
            let b = number(values, args, 1)?;
            binary(values, operator, a, b)
        }
    }
}

/// A whole number. Fractions are not numbers that steer.
fn number(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, index: usize) -> Result<ValueId> {
    let id = values.input_at(args, index)?;
    if let Some(PlanValue::Double(value)) = values.plan.value(id)
        && value.0.fract() != 0.0
    {
        return Err(values.error("a", format!("is {}, only whole numbers are supported", value.0)));
    }
    values.number(id)
}

fn binary(values: &mut PlanValues<'_>, operator: &str, a: ValueId, b: ValueId) -> Result<ValueId> {
    if let (Some(a), Some(b)) = (values.literal(a), values.literal(b))
        && let Some(result) = symint::compute(operator, a, b)
    {
        return values.builder.int(result);
    }
    let out = values.builder.symint()?;
    values.builder.call(operator, &[a, b, out])?;
    Ok(out)
}
