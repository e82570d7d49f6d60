//! Filters: `value | …`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::format::percent;
use super::methods::{split, strip};
use super::{Given, capitalized, owned, replace, test, titled};
use crate::template::budget::{Budget, Limit, MAX_WIDTH};
use crate::template::fault::{Fault, failed};
use crate::template::json;
use crate::template::operators::operate;
use crate::template::render::Renderer;
use crate::template::value::Value;

/// Applies a filter to a value.
pub(in crate::template) fn filter(
    renderer: &mut Renderer<'_>,
    name: &str,
    value: Value,
    given: &mut Given,
) -> Result<Value, Fault> {
    let budget = &mut renderer.budget;
    match name {
        "default" | "d" => {
            let (other, falsy) = (given.take("default_value"), given.flag("boolean"));
            let missing = matches!(value, Value::Undefined) || falsy && !value.is_true();
            Ok(if missing { other.unwrap_or(Value::Text("".into())) } else { value })
        }
        "length" | "count" => match value.len() {
            Some(len) => {
                budget.scan(value.as_text().map_or(0, str::len))?;
                Ok(Value::Int(i64::try_from(len).unwrap_or(i64::MAX)))
            }
            None => failed(format!("{} has no length", value.kind())),
        },
        "tojson" => to_json(&value, given, budget),
        "safe" => Ok(value),
        "string" => value.to_text(budget).map(Value::Text),
        "bool" => Ok(Value::Bool(value.is_true())),
        "int" | "float" | "abs" | "round" => numeric(name, &value, given, budget),
        "upper" | "lower" | "capitalize" | "title" | "trim" | "replace" | "indent" | "escape" | "e" | "split" | "format"
        | "center" | "wordcount" => {
            let text = value.to_text(budget)?;
            of_text(name, &text, given, budget)
        }
        "items" => pairs(&value, budget),
        "join" => {
            let (between, attribute) = (given.text("d")?.unwrap_or_else(|| "".into()), given.take("attribute"));
            match attribute {
                None => join(&value, &between, None, budget),
                Some(path) => {
                    let items = mapped(renderer, &value, &path)?;
                    join(&items, &between, None, &mut renderer.budget)
                }
            }
        }
        "list" | "first" | "last" | "reverse" | "sort" | "unique" | "min" | "max" | "sum" | "batch" | "slice"
        | "dictsort" | "groupby" => of_list(renderer, name, &value, given),
        "map" => map(renderer, &value, given),
        "select" | "reject" | "selectattr" | "rejectattr" => select(renderer, name, &value, given),
        "attr" => {
            let name = given.needed_text("name")?;
            renderer.attribute(&value, &name)
        }
        _ => failed(format!("there is no filter {name:?}")),
    }
}

fn to_json(value: &Value, given: &mut Given, budget: &mut Budget) -> Result<Value, Fault> {
    let indent = given.int("indent")?.map(|indent| usize::try_from(indent).unwrap_or(0));
    let mut separators = None;
    if let Some(pair) = given.take("separators").as_ref().and_then(Value::as_list)
        && let [Value::Text(comma), Value::Text(colon)] = pair
    {
        separators = Some((Arc::clone(comma), Arc::clone(colon)));
    }
    let ascii = given.flag("ensure_ascii");
    json::write(value, json::Style { indent, separators, ascii }, budget)
}

fn numeric(name: &str, value: &Value, given: &mut Given, budget: &mut Budget) -> Result<Value, Fault> {
    let text = value.as_text().unwrap_or_default().trim();
    budget.scan(text.len())?;
    let float = value.as_float().or_else(|| text.parse().ok());
    let whole = value.as_int().or_else(|| text.parse().ok()).or_else(|| float.and_then(to_int));
    let precision = if name == "round" { given.int("precision")?.unwrap_or(0) } else { 0 };
    let other = || failed(format!("{} is no number", value.kind()));
    match (name, whole, float) {
        ("int", Some(value), _) => Ok(Value::Int(value)),
        ("int", None, _) => Ok(Value::Int(given.int("default")?.unwrap_or(0))),
        ("float", _, float) => Ok(Value::Float(float.unwrap_or(0.0))),
        ("abs", Some(whole), _) if value.as_int().is_some() => whole.checked_abs().map(Value::Int).map_or_else(other, Ok),
        ("abs", _, Some(float)) => Ok(Value::Float(float.abs())),
        ("round", _, Some(float)) => {
            let scale = libm::pow(10.0, f64::from(i32::try_from(precision.clamp(-300, 300)).unwrap_or(0)));
            let rounded = libm::rint(float * scale) / scale;
            Ok(Value::Float(if rounded.is_finite() { rounded } else { float }))
        }
        _ => other(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be within the range")]
fn to_int(value: f64) -> Option<i64> {
    (value.abs() < 9.2e18).then_some(value as i64)
}

fn of_text(name: &str, text: &str, given: &mut Given, budget: &mut Budget) -> Result<Value, Fault> {
    budget.scan(text.len())?;
    if matches!(name, "upper" | "lower" | "title" | "capitalize") {
        budget.allocate(4 * text.len())?;
    }
    match name {
        "upper" => owned(text.to_uppercase(), budget),
        "lower" => owned(text.to_lowercase(), budget),
        "capitalize" => owned(capitalized(text), budget),
        "title" => owned(titled(text), budget),
        "trim" => {
            let characters = given.text("chars")?;
            let stripped = strip(text, characters.as_deref(), true, true, budget)?;
            Value::text(stripped, budget)
        }
        "replace" => {
            let (from, to) = (given.needed_text("old")?, given.needed_text("new")?);
            replace(text, &from, &to, given.int("count")?.filter(|count| *count >= 0), budget)
        }
        "split" => {
            let (separator, most) = (given.text("sep")?, given.int("maxsplit")?.filter(|most| *most >= 0));
            split(text, separator.as_deref(), most, false, budget)
        }
        "format" => percent(text, given.positional.as_slice(), budget),
        "center" => {
            let width = given.int("width")?.unwrap_or(80);
            super::format::pad(text, width, ' ', true, true, budget)
        }
        "wordcount" => Ok(Value::Int(i64::try_from(text.split_whitespace().count()).unwrap_or(i64::MAX))),
        "indent" => indent(text, given, budget),
        _ => {
            budget.allocate(6 * text.len())?;
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            owned(escaped.replace('"', "&#34;").replace('\'', "&#39;"), budget)
        }
    }
}

/// Puts spaces before each line, but for the first and for empty ones unless they are wanted.
fn indent(text: &str, given: &mut Given, budget: &mut Budget) -> Result<Value, Fault> {
    let spaces = match given.take("width") {
        Some(Value::Text(text)) => text,
        None | Some(Value::None) => " ".repeat(4).into(),
        Some(value) => match value.as_int().map(|width| usize::try_from(width).unwrap_or(0)) {
            Some(width) if width > MAX_WIDTH => return Err(Fault::Limit(Limit::Memory)),
            Some(width) => " ".repeat(width).into(),
            None => return failed("the width of an indent is a number"),
        },
    };
    let (first, blank) = (given.flag("first"), given.flag("blank"));
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    budget.allocate(lines.saturating_mul(spaces.len()).saturating_add(text.len()))?;
    let mut out = String::new();
    for (index, line) in text.split('\n').enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        if (index > 0 || first) && (blank || !line.trim().is_empty()) {
            out.push_str(&spaces);
        }
        out.push_str(line);
    }
    owned(out, budget)
}

/// The keys of a dictionary with their values.
pub(super) fn pairs(value: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    if !matches!(value, Value::Dict(_) | Value::Undefined) {
        return failed(format!("{} has no items with keys", value.kind()));
    }
    let mut items = Vec::new();
    for (key, value) in value.as_dict().unwrap_or_default() {
        items.push(Value::list(vec![key.clone(), value.clone()], budget)?);
    }
    Value::list(items, budget)
}

/// The texts of all values, one after the other.
pub(super) fn join(value: &Value, between: &str, start: Option<String>, budget: &mut Budget) -> Result<Value, Fault> {
    let mut out = start.unwrap_or_default();
    for (index, item) in value.items(budget)?.iter().enumerate() {
        if index > 0 {
            budget.allocate(between.len())?;
            out.push_str(between);
        }
        item.write(&mut out, budget)?;
    }
    owned(out, budget)
}

/// The value at a path of names and indices with points between them.
fn at_path(renderer: &mut Renderer<'_>, value: &Value, path: &Value) -> Result<Value, Fault> {
    let Some(path) = path.as_text() else { return renderer.item(value, path) };
    let mut value = value.clone();
    for part in path.split('.') {
        value = match part.parse::<i64>() {
            Ok(index) => renderer.item(&value, &Value::Int(index))?,
            Err(_) => renderer.attribute(&value, part)?,
        };
    }
    Ok(value)
}

fn mapped(renderer: &mut Renderer<'_>, value: &Value, path: &Value) -> Result<Value, Fault> {
    let items = value.items(&mut renderer.budget)?;
    let items = items.iter().map(|item| at_path(renderer, item, path)).collect::<Result<_, _>>()?;
    Value::list(items, &mut renderer.budget)
}

fn map(renderer: &mut Renderer<'_>, value: &Value, given: &mut Given) -> Result<Value, Fault> {
    if !value.is_true() {
        return Value::list(Vec::new(), &mut renderer.budget);
    }
    if let Some(index) = given.named.iter().position(|(name, _)| &**name == "attribute") {
        let path = given.named.swap_remove(index).1;
        let default = given.take("default");
        let values = mapped(renderer, value, &path)?;
        let Some(default) = default else { return Ok(values) };
        let values = values.as_list().unwrap_or_default().iter();
        let values = values.map(|value| if matches!(value, Value::Undefined) { default.clone() } else { value.clone() });
        return Value::list(values.collect(), &mut renderer.budget);
    }
    let name = given.needed_text("filter")?;
    let arguments = given.rest();
    let mut items = Vec::new();
    for item in value.items(&mut renderer.budget)? {
        let mut given = Given::new(arguments.positional.as_slice().to_vec(), arguments.named.clone());
        renderer.budget.enter()?;
        items.push(filter(renderer, &name, item, &mut given)?);
        renderer.budget.leave();
    }
    Value::list(items, &mut renderer.budget)
}

fn select(renderer: &mut Renderer<'_>, name: &str, value: &Value, given: &mut Given) -> Result<Value, Fault> {
    if !value.is_true() {
        return Value::list(Vec::new(), &mut renderer.budget);
    }
    let path = if name.ends_with("attr") { Some(given.take("attribute").unwrap_or(Value::Undefined)) } else { None };
    let wanted = !name.starts_with("reject");
    let name = given.text("test")?;
    let arguments = given.rest();
    let mut items = Vec::new();
    for item in value.items(&mut renderer.budget)? {
        let subject = match &path {
            Some(path) => at_path(renderer, &item, path)?,
            None => item.clone(),
        };
        let holds = match &name {
            Some(name) => {
                let mut given = Given::new(arguments.positional.as_slice().to_vec(), arguments.named.clone());
                test(renderer, name, &subject, &mut given)?
            }
            None => subject.is_true(),
        };
        if holds == wanted {
            items.push(item);
        }
    }
    Value::list(items, &mut renderer.budget)
}

fn of_list(renderer: &mut Renderer<'_>, name: &str, value: &Value, given: &mut Given) -> Result<Value, Fault> {
    let mut items = value.items(&mut renderer.budget)?;
    match name {
        "first" => return Ok(items.into_iter().next().unwrap_or(Value::Undefined)),
        "last" => return Ok(items.pop().unwrap_or(Value::Undefined)),
        "reverse" => {
            items.reverse();
            if let Value::Text(text) = value {
                return owned(text.chars().rev().collect(), &mut renderer.budget);
            }
        }
        "min" | "max" => {
            let sorted = sorted(renderer, items, given, None)?;
            let chosen = if name == "min" { sorted.first() } else { sorted.last() };
            return Ok(chosen.cloned().unwrap_or(Value::Undefined));
        }
        "sort" => {
            let reverse = given.flag("reverse");
            items = sorted(renderer, items, given, None)?;
            if reverse {
                items.reverse();
            }
        }
        "dictsort" => {
            let pairs = pairs(value, &mut renderer.budget)?;
            let pairs = pairs.items(&mut renderer.budget)?;
            items = sorted(renderer, pairs, given, Some(0))?;
        }
        "unique" => items = unique(items, &mut renderer.budget)?,
        "sum" => return sum(renderer, &items, given),
        "batch" | "slice" => return chunks(name, items, given, &mut renderer.budget),
        "groupby" => return group(renderer, items, given),
        _ => {}
    }
    Value::list(items, &mut renderer.budget)
}

/// The items in order; texts by their small letters unless case matters.
fn sorted(
    renderer: &mut Renderer<'_>,
    items: Vec<Value>,
    given: &mut Given,
    place: Option<i64>,
) -> Result<Vec<Value>, Fault> {
    let case_sensitive = given.flag("case_sensitive");
    let path = given.take("attribute").or(place.map(Value::Int));
    let mut keyed = Vec::new();
    for item in items {
        let key = match &path {
            Some(path) => at_path(renderer, &item, path)?,
            None => item.clone(),
        };
        let key = match key.as_text().filter(|_| !case_sensitive) {
            Some(text) => {
                renderer.budget.allocate(4 * text.len())?;
                Value::Text(text.to_lowercase().into())
            }
            None => key,
        };
        keyed.push((key, item));
    }
    let sorted = merge_sort(keyed, &mut renderer.budget)?;
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

/// Sorts by the first of each pair, and leaves equal ones in their order. Where there is no order, that is an error.
fn merge_sort(pairs: Vec<(Value, Value)>, budget: &mut Budget) -> Result<Vec<(Value, Value)>, Fault> {
    budget.allocate(pairs.len().saturating_mul(128))?;
    let mut runs: Vec<Vec<(Value, Value)>> = pairs.into_iter().map(|pair| vec![pair]).collect();
    while runs.len() > 1 {
        let mut longer = Vec::with_capacity(runs.len().div_ceil(2));
        let mut runs_left = runs.into_iter();
        while let Some(first) = runs_left.next() {
            longer.push(match runs_left.next() {
                Some(second) => merge(first, second, budget)?,
                None => first,
            });
        }
        runs = longer;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge(
    first: Vec<(Value, Value)>,
    second: Vec<(Value, Value)>,
    budget: &mut Budget,
) -> Result<Vec<(Value, Value)>, Fault> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (first.peek(), second.peek()) {
        let next = if a.order(b, budget)? == Ordering::Greater { second.next() } else { first.next() };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    Ok(merged)
}

fn unique(items: Vec<Value>, budget: &mut Budget) -> Result<Vec<Value>, Fault> {
    let mut kept: Vec<Value> = Vec::new();
    'items: for item in items {
        for known in &kept {
            if known.equals(&item, budget)? {
                continue 'items;
            }
        }
        kept.push(item);
    }
    Ok(kept)
}

fn sum(renderer: &mut Renderer<'_>, items: &[Value], given: &mut Given) -> Result<Value, Fault> {
    let path = given.take("attribute").filter(|path| !matches!(path, Value::None));
    let mut total = given.take("start").unwrap_or(Value::Int(0));
    for item in items {
        let value = match &path {
            Some(path) => at_path(renderer, item, path)?,
            None => item.clone(),
        };
        total = operate(crate::template::ast::Operator::Add, &total, &value, &mut renderer.budget)?;
    }
    Ok(total)
}

/// Splits items into lists of a given length (`batch`), or into a given number of lists (`slice`).
fn chunks(name: &str, items: Vec<Value>, given: &mut Given, budget: &mut Budget) -> Result<Value, Fault> {
    let Some(count) = given.int("count")?.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0) else {
        return failed("there must be at least one in a part, and one part");
    };
    let fill = given.take("fill_with").filter(|fill| !matches!(fill, Value::None));
    let mut lists = Vec::new();
    if name == "slice" {
        let (size, longer) = (items.len() / count, items.len() % count);
        budget.allocate(count.saturating_mul(64))?;
        let mut items = items.into_iter();
        for index in 0..count {
            let mut part: Vec<Value> = items.by_ref().take(size + usize::from(index < longer)).collect();
            part.extend(fill.clone().filter(|_| longer > 0 && index >= longer));
            lists.push(Value::list(part, budget)?);
        }
        return Value::list(lists, budget);
    }
    for part in items.chunks(count) {
        let mut part = part.to_vec();
        if let Some(fill) = &fill {
            let missing = count - part.len();
            budget.allocate(missing.saturating_mul(32))?;
            part.extend(std::iter::repeat_n(fill.clone(), missing));
        }
        lists.push(Value::list(part, budget)?);
    }
    Value::list(lists, budget)
}

/// Lists of a value and the items that have it at a path.
fn group(renderer: &mut Renderer<'_>, items: Vec<Value>, given: &mut Given) -> Result<Value, Fault> {
    let path = given.take("attribute").unwrap_or(Value::Undefined);
    let mut by_path = Given::new(Vec::new(), vec![("attribute".into(), path.clone())]);
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in sorted(renderer, items, &mut by_path, None)? {
        let key = at_path(renderer, &item, &path)?;
        let same = match groups.last() {
            Some((last, _)) => last.equals(&key, &mut renderer.budget)?,
            None => false,
        };
        match groups.last_mut().filter(|_| same) {
            Some((_, members)) => members.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    let mut lists = Vec::new();
    for (key, members) in groups {
        let members = Value::list(members, &mut renderer.budget)?;
        lists.push(Value::list(vec![key, members], &mut renderer.budget)?);
    }
    Value::list(lists, &mut renderer.budget)
}
