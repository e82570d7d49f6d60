//! Tests: `value is …`.

use super::Given;
use crate::template::ast::Comparison;
use crate::template::fault::{Fault, failed};
use crate::template::operators::compare;
use crate::template::render::Renderer;
use crate::template::value::Value;

/// Whether a test holds for a value.
pub(in crate::template) fn test(
    renderer: &mut Renderer<'_>,
    name: &str,
    value: &Value,
    given: &mut Given,
) -> Result<bool, Fault> {
    if let Some(comparison) = comparison(name) {
        let other = given.take("other").unwrap_or(Value::Undefined);
        return compare(comparison, value, &other, &mut renderer.budget);
    }
    let text = value.as_text().unwrap_or_default();
    renderer.budget.scan(text.len())?;
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined),
        "undefined" => matches!(value, Value::Undefined),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
        "string" => matches!(value, Value::Text(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "iterable" => matches!(value, Value::Undefined | Value::Text(_) | Value::List(_) | Value::Dict(_)),
        "sequence" => matches!(value, Value::Undefined | Value::Text(_) | Value::List(_) | Value::Dict(_)),
        "callable" => matches!(value, Value::Macro(_) | Value::Function(_) | Value::Loop(_)),
        "odd" => value.as_int().is_some_and(|value| value % 2 != 0),
        "even" => value.as_int().is_some_and(|value| value % 2 == 0),
        "divisibleby" => {
            let by = given.int("num")?.unwrap_or(0);
            value.as_int().and_then(|value| value.checked_rem(by)) == Some(0)
        }
        "lower" => text.chars().any(char::is_alphabetic) && !text.chars().any(char::is_uppercase),
        "upper" => text.chars().any(char::is_alphabetic) && !text.chars().any(char::is_lowercase),
        "sameas" => {
            let other = given.take("other").unwrap_or(Value::Undefined);
            std::mem::discriminant(value) == std::mem::discriminant(&other) && value.equals(&other, &mut renderer.budget)?
        }
        _ => return failed(format!("there is no test {name:?}")),
    })
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" | "equalto" | "==" => Comparison::Equal,
        "ne" | "!=" => Comparison::Unequal,
        "lt" | "lessthan" | "<" => Comparison::Less,
        "le" | "<=" => Comparison::LessOrEqual,
        "gt" | "greaterthan" | ">" => Comparison::Greater,
        "ge" | ">=" => Comparison::GreaterOrEqual,
        "in" => Comparison::In,
        _ => return None,
    })
}
