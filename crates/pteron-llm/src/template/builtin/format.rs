//! Python's string formatting, with a limited field width.

use crate::template::budget::{Budget, Limit, MAX_WIDTH};
use crate::template::fault::{Fault, failed};
use crate::template::value::Value;

/// How a value is written.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    width: usize,
    precision: Option<usize>,
    left: bool,
    zeros: bool,
}

/// A number at the start of a text, taken off it; one that is too wide is an error.
fn number(text: &mut &str) -> Result<Option<usize>, Fault> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at_checked(digits).unwrap_or((text, ""));
    *text = rest;
    if number.is_empty() {
        return Ok(None);
    }
    number.parse().ok().filter(|number| *number <= MAX_WIDTH).map(Some).ok_or(Fault::Limit(Limit::Memory))
}

/// Evaluates `format % arguments` as Python does, for `%s`, `%r`, `%d`, `%i`, `%f` and `%%`.
pub(in crate::template) fn percent(format: &str, arguments: &[Value], budget: &mut Budget) -> Result<Value, Fault> {
    let mut arguments = arguments.iter();
    let (mut out, mut rest) = (String::new(), format);
    budget.allocate(2 * format.len())?;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut spec = Spec::default();
        rest = after.trim_start_matches(|c: char| {
            spec.left |= c == '-';
            spec.zeros |= c == '0';
            matches!(c, '-' | '0' | '+' | ' ')
        });
        spec.width = number(&mut rest)?.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            spec.precision = Some(number(&mut rest)?.unwrap_or(0));
        }
        let Some(kind) = rest.chars().next() else { return failed("a format ends in the middle of a place") };
        rest = rest.get(kind.len_utf8()..).unwrap_or_default();
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = arguments.next() else { return failed("a format has more places than there are values") };
        write(kind, spec, value, &mut out, budget)?;
    }
    out.push_str(rest);
    budget.allocate(out.len())?;
    Ok(Value::Text(out.into()))
}

fn write(kind: char, spec: Spec, value: &Value, out: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    budget.allocate(2 * spec.width.saturating_add(spec.precision.unwrap_or(0)))?;
    let text = match (kind, value.as_float()) {
        ('s' | 'r', _) => value.to_text(budget)?.chars().take(spec.precision.unwrap_or(usize::MAX)).collect(),
        ('d' | 'i', Some(number)) => match value.as_int() {
            Some(number) => number.to_string(),
            None => format!("{:.0}", libm::trunc(number)),
        },
        ('f', Some(number)) => format!("{number:.*}", spec.precision.unwrap_or(6)),
        _ => return failed(format!("a format has a place %{kind} that is not known, or not for {}", value.kind())),
    };
    budget.allocate(text.len())?;
    let missing = spec.width.saturating_sub(text.chars().count());
    let pad = |out: &mut String, with: char| out.extend(std::iter::repeat_n(with, missing));
    let zeros = spec.zeros && !spec.left && !matches!(kind, 's' | 'r');
    let (sign, digits) = if zeros { text.split_at(usize::from(text.starts_with('-'))) } else { ("", text.as_str()) };
    out.push_str(sign);
    if !spec.left {
        pad(out, if zeros { '0' } else { ' ' });
    }
    out.push_str(digits);
    if spec.left {
        pad(out, ' ');
    }
    Ok(())
}

/// Evaluates `format.format(…)` as Python does, for fields without a width: `{}`, `{0}` and `{name}`.
pub(super) fn braces(
    format: &str,
    positional: &[Value],
    named: &[(std::sync::Arc<str>, Value)],
    budget: &mut Budget,
) -> Result<Value, Fault> {
    let (mut out, mut next, mut rest) = (String::new(), 0, format);
    budget.allocate(2 * format.len())?;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        if after.starts_with("{{") || after.starts_with("}}") {
            out.push_str(&after[..1]);
            rest = &after[2..];
            continue;
        }
        let Some((place, after)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) else {
            return failed("a format has a brace without its other");
        };
        rest = after;
        let value = if place.is_empty() {
            next += 1;
            positional.get(next - 1)
        } else if let Ok(index) = place.parse::<usize>() {
            positional.get(index)
        } else {
            named.iter().find(|(name, _)| &**name == place).map(|(_, value)| value)
        };
        match value {
            Some(value) => value.write(&mut out, budget)?,
            None => return failed("a format has a place without a value, or one with a width, which is not supported"),
        }
    }
    out.push_str(rest);
    budget.allocate(out.len())?;
    Ok(Value::Text(out.into()))
}

/// Pads a text with spaces to a width in characters.
pub(super) fn pad(
    text: &str,
    width: i64,
    fill: char,
    before: bool,
    after: bool,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    budget.scan(text.len())?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    if missing > MAX_WIDTH {
        return Err(Fault::Limit(Limit::Memory));
    }
    budget.allocate(2 * (text.len() + fill.len_utf8() * missing))?;
    let left = match (before, after) {
        (true, true) => missing / 2,
        (true, false) => missing,
        _ => 0,
    };
    let spaces = |count| std::iter::repeat_n(fill, count);
    Ok(Value::Text(spaces(left).chain(text.chars()).chain(spaces(missing - left)).collect::<String>().into()))
}
