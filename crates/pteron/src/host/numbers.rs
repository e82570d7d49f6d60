//! Numbers that decide a jump, or that come from computed tensors.

use pteron_format::ScalarType;

use super::{Argument, at, axis, created};
use crate::tensor::Tensor;

/// A number as a tensor of one element, as graphs take it.
fn number(value: i64) -> Result<Vec<Tensor>, String> {
    Ok(vec![created(Tensor::from_i64(&[1], &[value]))?])
}

/// The number that a tensor of one element is.
pub(super) fn argument(tensor: &Tensor) -> Argument<'static> {
    if let (ScalarType::Double, Ok(bytes)) = (tensor.scalar_type(), <[u8; 8]>::try_from(tensor.bytes())) {
        return Argument::Float(f64::from_le_bytes(bytes));
    }
    let int = tensor.to_i64().and_then(|values| values.first().copied()).map(Argument::Int);
    let float = || tensor.to_f32().and_then(|values| values.first().copied());
    int.or_else(|| float().map(|value| Argument::Float(value.into()))).unwrap_or(Argument::Other)
}

/// A number that need not be whole.
pub(super) fn float(value: f64) -> Result<Vec<Tensor>, String> {
    Ok(vec![created(Tensor::new(ScalarType::Double, &[1], value.to_le_bytes().to_vec()))?])
}

/// The only element of a tensor.
pub(super) fn item(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let tensor = at(args, 0)?.tensor()?;
    if tensor.shape().iter().any(|&size| size != 1) {
        return Err(format!("reads one number of a tensor of {:?}", tensor.shape()));
    }
    if let Some(value) = tensor.to_i64().and_then(|values| values.first().copied()) {
        return number(value);
    }
    match argument(tensor) {
        Argument::Float(value) => float(value),
        _ => Err(format!("reads a number of {}", tensor.scalar_type().name())),
    }
}

pub(super) fn size(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let (tensor, dim) = (at(args, 0)?.tensor()?, at(args, 1)?.int()?);
    let size = tensor.shape().get(axis(dim, tensor.shape().len())?).copied();
    number(size.unwrap_or(1).into())
}

pub(super) fn count(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let tensor = at(args, 0)?.tensor()?;
    let size = tensor.scalar_type().size();
    number(i64::try_from(tensor.bytes().len() as u64 / size).unwrap_or(i64::MAX))
}

/// An operator on whole numbers.
pub(super) fn whole(args: &[Argument<'_>], compute: fn(i64, i64) -> Option<i64>) -> Result<Vec<Tensor>, String> {
    let (a, b) = (at(args, 0)?.int()?, at(args, 1)?.int()?);
    number(compute(a, b).ok_or_else(|| format!("has no result for {a} and {b}"))?)
}

pub(super) fn floor_div(a: i64, b: i64) -> Option<i64> {
    let inexact = a.checked_rem(b)? != 0;
    a.checked_div(b)?.checked_sub(i64::from(inexact && (a < 0) != (b < 0)))
}

/// Python's remainder, which has the sign of the divisor.
pub(super) fn modulo(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// A comparison of numbers.
pub(super) fn compare(args: &[Argument<'_>], holds: fn(f64, f64) -> bool) -> Result<Vec<Tensor>, String> {
    truth(holds(at(args, 0)?.number()?, at(args, 1)?.number()?))
}

pub(super) fn negate(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    match at(args, 0)? {
        Argument::Float(value) => float(-value),
        other => number(other.int()?.wrapping_neg()),
    }
}

pub(super) fn divide(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    float(at(args, 0)?.number()? / at(args, 1)?.number()?)
}

/// A number rounded to a whole one.
pub(super) fn rounded(args: &[Argument<'_>], round: fn(f64) -> f64) -> Result<Vec<Tensor>, String> {
    number(Argument::Float(round(at(args, 0)?.number()?)).int()?)
}

/// `sym_ite(condition, a, b)`: the first number if the condition is true.
pub(super) fn choose(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    match at(args, if at(args, 0)?.int()? != 0 { 1 } else { 2 })? {
        Argument::Float(value) => float(*value),
        other => number(other.int()?),
    }
}

pub(super) fn not(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    truth(at(args, 0)?.int()? == 0)
}

fn truth(value: bool) -> Result<Vec<Tensor>, String> {
    Ok(vec![created(Tensor::new(ScalarType::Bool, &[1], vec![value.into()]))?])
}
