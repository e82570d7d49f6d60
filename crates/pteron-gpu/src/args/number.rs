//! Numbers as arguments hold them. Python merges equal constants, so an integer can arrive as a float, and a float as an integer.

use crate::ir::Value;

/// A dimension counted from the end if negative.
#[must_use]
pub fn normalise(axis: i64, rank: usize) -> Option<usize> {
    // A single number takes axis 0 and −1, as in PyTorch.
    let rank = rank.max(1);
    let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

pub(super) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::Bool(value) => Some((*value).into()),
        #[allow(clippy::cast_possible_truncation, reason = "the number is whole and small enough to be exact")]
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 9.0e15 => Some(*value as i64),
        _ => None,
    }
}

pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        #[allow(clippy::cast_precision_loss, reason = "a float argument that was merged with an equal integer")]
        Value::Int(value) => Some(*value as f64),
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        _ => None,
    }
}
