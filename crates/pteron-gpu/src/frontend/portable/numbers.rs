//! Numbers that steer: sizes, elements of inputs, and arithmetic on them.
//!
//! Arithmetic on literals is done here, so that operators which need a literal get one.

use pteron_format::program::{self as file, Value as PlanValue};

use super::PlanValues;
use super::flow::KernelArgs;
use crate::error::Result;
use crate::ir::ValueId;
use crate::ops::symint;

/// The operator of each kernel that computes with whole numbers. Those with `None` only rename a number.
const TABLE: &[(&str, Option<&str>)] = &[
    ("executorch_prim::add.Scalar", Some("add")),
    ("executorch_prim::sub.Scalar", Some("sub")),
    ("executorch_prim::mul.Scalar", Some("mul")),
    ("executorch_prim::floordiv.Scalar", Some("floordiv")),
    ("executorch_prim::floordiv.int", Some("floordiv")),
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
    ("executorch_prim::sym_not.Scalar", Some("eq")),
    (ROUND, None),
];

const MUL: &str = "executorch_prim::mul.Scalar";
const DIVIDE: &str = "executorch_prim::truediv.Scalar";
const FLOAT: &str = "executorch_prim::sym_float.Scalar";
const INT: &str = "executorch_prim::sym_int.Scalar";
const TRUNC: &str = "executorch_prim::trunc.Scalar";
const CEIL: &str = "executorch_prim::ceil.Scalar";
const ROUND: &str = "executorch_prim::round.Scalar";
/// Kernels that take or make fractions.
const FRACTIONS: &[&str] = &[DIVIDE, FLOAT, INT, TRUNC, CEIL];

const SIZE: &str = "aten::sym_size.int";
const NUMEL: &str = "aten::sym_numel";
const ITEM: &str = "aten::_local_scalar_dense";

/// Whether kernels of this name compute a number.
pub(super) fn is_known(kernel: &str) -> bool {
    [SIZE, NUMEL, ITEM].contains(&kernel) || FRACTIONS.contains(&kernel) || TABLE.iter().any(|(name, _)| *name == kernel)
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
        _ if FRACTIONS.contains(&kernel) || kernel == MUL => match fraction(values, kernel, args)? {
            Fraction { denominator: None, numerator } => numerator,
            Fraction { numerator, denominator: Some(denominator) } => {
                values.fractions.insert(out, (numerator, denominator));
                numerator
            }
        },
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

/// The list of a tensor's sizes.
pub(super) fn sizes(values: &mut PlanValues<'_>, id: file::ValueId) -> Result<ValueId> {
    let tensor = values.tensor(id)?;
    let rank = values.builder.tensor_at(tensor).map_or(0, |tensor| tensor.dims.len());
    let mut sizes = Vec::with_capacity(rank);
    for dim in (0i64..).take(rank) {
        sizes.push(match values.fixed_size(id, dim) {
            Some(size) => values.builder.int(size)?,
            None => size_of(values, tensor, dim)?,
        });
    }
    values.list_of(&sizes)
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

/// A number that need not be whole.
#[derive(Clone, Copy)]
struct Fraction {
    numerator: ValueId,
    denominator: Option<ValueId>,
}

/// Arithmetic with fractions of whole numbers, which ends in a whole number.
fn fraction(values: &mut PlanValues<'_>, kernel: &str, args: &KernelArgs<'_>) -> Result<Fraction> {
    let a = fraction_at(values, args, 0)?;
    match (kernel, a.denominator) {
        (MUL, _) => {
            let b = fraction_at(values, args, 1)?;
            let numerator = binary(values, "mul", a.numerator, b.numerator)?;
            Ok(Fraction { numerator, denominator: product(values, a.denominator, b.denominator)? })
        }
        (DIVIDE, _) => {
            let b = fraction_at(values, args, 1)?;
            let numerator = product(values, Some(a.numerator), b.denominator)?.unwrap_or(a.numerator);
            let denominator = product(values, a.denominator, Some(b.numerator))?;
            Ok(Fraction { numerator, denominator })
        }
        (CEIL, Some(denominator)) => {
            // The negative of the floor of the negative.
            let zero = values.builder.int(0)?;
            let negative = binary(values, "sub", zero, a.numerator)?;
            let floor = binary(values, "floordiv", negative, denominator)?;
            Ok(Fraction { numerator: binary(values, "sub", zero, floor)?, denominator: None })
        }
        // Sizes and positions are not negative.
        (INT | TRUNC, Some(denominator)) => {
            Ok(Fraction { numerator: binary(values, "floordiv", a.numerator, denominator)?, denominator: None })
        }
        _ => Ok(a),
    }
}

fn product(values: &mut PlanValues<'_>, a: Option<ValueId>, b: Option<ValueId>) -> Result<Option<ValueId>> {
    match (a, b) {
        (Some(a), Some(b)) => binary(values, "mul", a, b).map(Some),
        (one, other) => Ok(one.or(other)),
    }
}

fn fraction_at(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, index: usize) -> Result<Fraction> {
    let id = values.input_at(args, index)?;
    if let Some(&(numerator, denominator)) = values.fractions.get(&id) {
        return Ok(Fraction { numerator, denominator: Some(denominator) });
    }
    if let Some(PlanValue::Double(value)) = values.plan.value(id)
        && value.0.fract() != 0.0
        && let Some(bits) = (1..=20).find(|&bits| (value.0 * f64::from(1u32 << bits)).fract() == 0.0)
        && value.0.abs() < 1e6
    {
        #[allow(clippy::cast_possible_truncation, reason = "a whole number below 2^40")]
        let numerator = values.builder.int((value.0 * f64::from(1u32 << bits)) as i64)?;
        return Ok(Fraction { numerator, denominator: Some(values.builder.int(1 << bits)?) });
    }
    Ok(Fraction { numerator: number(values, args, index)?, denominator: None })
}

/// A whole number.
fn number(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, index: usize) -> Result<ValueId> {
    let id = values.input_at(args, index)?;
    if let Some(PlanValue::Double(value)) = values.plan.value(id)
        && value.0.fract() != 0.0
    {
        return Err(values.error("a", format!("is {}, only whole numbers are supported", value.0)));
    }
    if values.fractions.contains_key(&id) {
        return Err(values.error("a", "is a fraction, only whole numbers are supported"));
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
