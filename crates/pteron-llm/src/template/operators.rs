//! Operators with Python's semantics.

use std::cmp::Ordering;

use super::ast::{Comparison, Operator};
use super::budget::Budget;
use super::builtin::format::percent;
use super::fault::{Fault, failed};
use super::value::{Value, to_float};

/// Applies an operator to two values.
pub(super) fn operate(operator: Operator, left: &Value, right: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    match (operator, left, right) {
        (Operator::Concatenate, ..) => {
            let (left, right) = (left.to_text(budget)?, right.to_text(budget)?);
            join(&left, &right, budget)
        }
        (Operator::Add, Value::Text(left), Value::Text(right)) => join(left, right, budget),
        (Operator::Add, Value::List(_), Value::List(_)) => {
            let (left, right) = (left.as_list().unwrap_or_default(), right.as_list().unwrap_or_default());
            budget.allocate(32 * (left.len() + right.len()))?;
            Value::list([left, right].concat(), budget)
        }
        (Operator::Multiply, Value::Text(_) | Value::List(_), count) => repeat(left, count, budget),
        (Operator::Multiply, count, Value::Text(_) | Value::List(_)) => repeat(right, count, budget),
        (Operator::Remainder, Value::Text(format), _) => {
            let arguments = right.as_list().unwrap_or(std::slice::from_ref(right));
            percent(format, arguments, budget)
        }
        _ => match number(operator, left, right) {
            Some(value) => Ok(value),
            None => failed(format!("{} and {} cannot be computed with", left.kind(), right.kind())),
        },
    }
}

fn join(left: &str, right: &str, budget: &mut Budget) -> Result<Value, Fault> {
    // Once where it is joined, once where it is kept.
    budget.allocate(2 * (left.len() + right.len()))?;
    Ok(Value::Text([left, right].concat().into()))
}

fn repeat(value: &Value, count: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let Some(count) = count.as_int() else { return failed(format!("{} is not repeated by {}", value.kind(), count.kind())) };
    let count = usize::try_from(count).unwrap_or(0);
    match value.as_list() {
        // Nothing is nothing, however often.
        Some([]) => Ok(value.clone()),
        Some(items) => {
            budget.allocate(items.len().saturating_mul(count).saturating_mul(32))?;
            Value::list(std::iter::repeat_n(items, count).flatten().cloned().collect(), budget)
        }
        None => {
            let text = value.as_text().unwrap_or_default();
            budget.allocate(text.len().saturating_mul(count).saturating_mul(2))?;
            Ok(Value::Text(text.repeat(count).into()))
        }
    }
}

fn number(operator: Operator, left: &Value, right: &Value) -> Option<Value> {
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        let exact = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::FloorDivide => floor_divide(a, b),
            Operator::Remainder => floor_divide(a, b).and_then(|times| a.checked_sub(times.checked_mul(b)?)),
            Operator::Power if b >= 0 => a.checked_pow(u32::try_from(b).ok()?),
            _ => return fraction(operator, to_float(a), to_float(b)),
        };
        return exact.map(Value::Int);
    }
    fraction(operator, left.as_float()?, right.as_float()?)
}

fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let (times, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    Some(if rest != 0 && (rest < 0) != (b < 0) { times - 1 } else { times })
}

fn fraction(operator: Operator, a: f64, b: f64) -> Option<Value> {
    let divides = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder);
    if divides && b == 0.0 {
        return None;
    }
    Some(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => libm::floor(a / b),
        Operator::Remainder => a - b * libm::floor(a / b),
        Operator::Power => libm::pow(a, b),
        Operator::Concatenate => return None,
    }))
}

/// Whether a comparison holds.
pub(super) fn compare(comparison: Comparison, left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    Ok(match comparison {
        Comparison::Equal => left.equals(right, budget)?,
        Comparison::Unequal => !left.equals(right, budget)?,
        Comparison::Less => left.order(right, budget)? == Ordering::Less,
        Comparison::LessOrEqual => left.order(right, budget)? != Ordering::Greater,
        Comparison::Greater => left.order(right, budget)? == Ordering::Greater,
        Comparison::GreaterOrEqual => left.order(right, budget)? != Ordering::Less,
        Comparison::In => contains(right, left, budget)?,
        Comparison::NotIn => !contains(right, left, budget)?,
    })
}

/// Whether a value has another in it: a text a part, a list an item, a dictionary a key.
pub(super) fn contains(container: &Value, value: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    match container {
        Value::Undefined => Ok(false),
        Value::Text(text) => {
            budget.scan(text.len())?;
            match value.as_text() {
                Some(part) => Ok(text.contains(part)),
                None => failed(format!("a string has no {} in it", value.kind().trim_start_matches("a "))),
            }
        }
        Value::List(_) => {
            for item in container.as_list().unwrap_or_default() {
                if item.equals(value, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Dict(_) => Ok(container.get(value, budget)?.is_some()),
        _ => failed(format!("nothing can be in {}", container.kind())),
    }
}

/// Evaluates `value[start:stop:step]` as Python does.
pub(super) fn slice(value: &Value, [start, stop, step]: &[Value; 3], budget: &mut Budget) -> Result<Value, Fault> {
    let bound = |value: &Value| match value {
        Value::None => Ok(None),
        _ => value.as_int().map_or_else(|| failed("the parts of a slice are numbers"), |value| Ok(Some(value))),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return failed("the step of a slice cannot be 0");
    }
    match value {
        Value::Undefined => Value::list(Vec::new(), budget),
        Value::Text(text) => {
            budget.allocate(text.len().saturating_mul(8))?;
            let characters: Vec<char> = text.chars().collect();
            let chosen = indices(characters.len(), start, stop, step);
            Ok(Value::Text(chosen.filter_map(|index| characters.get(index)).collect::<String>().into()))
        }
        Value::List(_) => {
            let items = value.as_list().unwrap_or_default();
            let chosen = indices(items.len(), start, stop, step).filter_map(|index| items.get(index).cloned());
            budget.allocate(32 * items.len())?;
            Value::list(chosen.collect(), budget)
        }
        _ => failed(format!("{} has no slices", value.kind())),
    }
}

/// The places that a slice takes, in its order.
fn indices(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    // One before the first place is where a slice that runs backwards ends.
    let (low, high) = if step < 0 { (-1, len - 1) } else { (0, len) };
    let clamp = |bound: i64| if bound < 0 { bound.saturating_add(len).max(low) } else { bound.min(high) };
    let (first, last) = if step < 0 { (high, low) } else { (low, high) };
    let (start, stop) = (start.map_or(first, clamp), stop.map_or(last, clamp));
    let places = std::iter::successors(Some(start), move |place| place.checked_add(step));
    places
        .take_while(move |&place| if step < 0 { place > stop } else { place < stop })
        .filter_map(|place| usize::try_from(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_those_of_python() {
        let slice = |len, start, stop, step| indices(len, start, stop, step).collect::<Vec<_>>();
        assert_eq!(slice(3, None, None, -1), [2, 1, 0]);
        assert_eq!(slice(0, None, None, -1), [0; 0]);
        assert_eq!(slice(6, Some(5), Some(2), -1), [5, 4, 3]);
        assert_eq!(slice(6, Some(1), Some(4), -1), [0; 0]);
        assert_eq!(slice(6, Some(-2), None, 1), [4, 5]);
        assert_eq!(slice(6, None, Some(-9), -2), [5, 3, 1]);
        assert_eq!(slice(6, Some(i64::MIN), Some(i64::MAX), i64::MAX), [0]);
        assert_eq!(slice(6, Some(i64::MAX), Some(i64::MIN), i64::MIN), [5]);
    }
}
