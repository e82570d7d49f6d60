//! Numbers that decide a jump, or that come from computed tensors.

use pteron_format::ScalarType;

use super::{Argument, at, axis, created};
use crate::tensor::Tensor;

/// A number as a tensor of one element, as graphs take it.
fn number(value: i64) -> Result<Vec<Tensor>, String> {
    Ok(vec![created(Tensor::from_i64(&[1], &[value]))?])
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
    match tensor.to_f32().and_then(|values| values.first().copied()) {
        Some(value) => Ok(vec![created(Tensor::from_f32(&[1], &[value]))?]),
        None => Err(format!("reads a number of {}", tensor.scalar_type().name())),
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
    #[allow(clippy::cast_precision_loss, reason = "numbers that steer are sizes and positions")]
    let value = |argument: &Argument<'_>| match argument {
        Argument::Float(value) => Ok(*value),
        other => other.int().map(|value| value as f64),
    };
    truth(holds(value(at(args, 0)?)?, value(at(args, 1)?)?))
}

pub(super) fn not(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    truth(at(args, 0)?.int()? == 0)
}

fn truth(value: bool) -> Result<Vec<Tensor>, String> {
    Ok(vec![created(Tensor::new(ScalarType::Bool, &[1], vec![value.into()]))?])
}
