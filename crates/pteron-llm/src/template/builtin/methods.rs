//! The methods of Python's strings, lists and dictionaries.

use std::sync::Arc;

use super::format::{braces, pad};
use super::{Given, capitalized, owned, replace, titled};
use crate::template::budget::Budget;
use crate::template::fault::{Fault, failed};
use crate::template::render::Renderer;
use crate::template::value::Value;

/// Calls a method of a value.
pub(in crate::template) fn method(
    renderer: &mut Renderer<'_>,
    value: &Value,
    name: &str,
    given: &mut Given,
) -> Result<Value, Fault> {
    let found = match value {
        Value::Text(text) => of_text(text, name, given, &mut renderer.budget)?,
        Value::Dict(_) => of_dict(value, name, given, &mut renderer.budget)?,
        Value::List(_) => of_list(value, name, given, &mut renderer.budget)?,
        Value::Undefined => return failed(format!("an undefined value has no method {name}")),
        _ => None,
    };
    found.map_or_else(|| failed(format!("{} has no method {name}", value.kind())), Ok)
}

fn of_dict(value: &Value, name: &str, given: &mut Given, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    let entries = value.as_dict().unwrap_or_default();
    Ok(Some(match name {
        "get" => {
            let key = given.take("key").unwrap_or(Value::Undefined);
            let found = value.get(&key, budget)?;
            found.or_else(|| given.take("default")).unwrap_or(Value::None)
        }
        "items" => super::filters::pairs(value, budget)?,
        "keys" => Value::list(entries.iter().map(|(key, _)| key.clone()).collect(), budget)?,
        "values" => Value::list(entries.iter().map(|(_, value)| value.clone()).collect(), budget)?,
        "copy" => value.clone(),
        _ => return Ok(None),
    }))
}

fn of_list(value: &Value, name: &str, given: &mut Given, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    let wanted = given.take("value").unwrap_or(Value::Undefined);
    let mut places = Vec::new();
    for (index, item) in (0i64..).zip(value.as_list().unwrap_or_default()) {
        if matches!(name, "count" | "index") && item.equals(&wanted, budget)? {
            places.push(index);
        }
    }
    match (name, places.first()) {
        ("count", _) => Ok(Some(Value::Int(i64::try_from(places.len()).unwrap_or(i64::MAX)))),
        ("index", Some(first)) => Ok(Some(Value::Int(*first))),
        ("index", None) => failed("the value is not in the list"),
        ("copy", _) => Ok(Some(value.clone())),
        _ => Ok(None),
    }
}

fn of_text(text: &Arc<str>, name: &str, given: &mut Given, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    budget.scan(text.len())?;
    // Changing the case of a letter makes up to three of it.
    if matches!(name, "upper" | "lower" | "title" | "capitalize" | "swapcase") {
        budget.allocate(4 * text.len())?;
    }
    Ok(Some(match name {
        "upper" => owned(text.to_uppercase(), budget)?,
        "lower" | "casefold" => owned(text.to_lowercase(), budget)?,
        "capitalize" => owned(capitalized(text), budget)?,
        "title" => owned(titled(text), budget)?,
        "strip" | "lstrip" | "rstrip" => {
            let characters = given.text("chars")?;
            let stripped = strip(text, characters.as_deref(), name != "rstrip", name != "lstrip", budget)?;
            Value::text(stripped, budget)?
        }
        "removeprefix" => {
            let prefix = given.needed_text("prefix")?;
            Value::text(text.strip_prefix(&*prefix).unwrap_or(text), budget)?
        }
        "removesuffix" => {
            let suffix = given.needed_text("suffix")?;
            Value::text(text.strip_suffix(&*suffix).unwrap_or(text), budget)?
        }
        "startswith" => Value::Bool(any_of(given, "prefix", |prefix| text.starts_with(prefix))?),
        "endswith" => Value::Bool(any_of(given, "suffix", |suffix| text.ends_with(suffix))?),
        "find" | "rfind" | "index" | "rindex" => find(text, name, given)?,
        "count" => {
            let part = given.needed_text("part")?;
            Value::Int(i64::try_from(text.matches(&*part).count()).unwrap_or(i64::MAX))
        }
        "replace" => {
            let (from, to) = (given.needed_text("old")?, given.needed_text("new")?);
            replace(text, &from, &to, given.int("count")?.filter(|count| *count >= 0), budget)?
        }
        "split" | "rsplit" => {
            let (separator, most) = (given.text("sep")?, given.int("maxsplit")?.filter(|most| *most >= 0));
            split(text, separator.as_deref(), most, name == "rsplit", budget)?
        }
        "splitlines" => texts(text.lines(), budget)?,
        "partition" | "rpartition" => {
            let separator = given.needed_text("sep")?;
            partition(text, &separator, name == "rpartition", budget)?
        }
        "join" => super::filters::join(&given.take("items").unwrap_or(Value::Undefined), text, None, budget)?,
        "format" => braces(text, given.positional.as_slice(), &given.named, budget)?,
        "center" | "ljust" | "rjust" | "zfill" => {
            let width = given.int("width")?.unwrap_or(0);
            let fill = given.text("fillchar")?.and_then(|fill| fill.chars().next());
            let fill = if name == "zfill" { '0' } else { fill.unwrap_or(' ') };
            pad(text, width, fill, name != "ljust", matches!(name, "center" | "ljust"), budget)?
        }
        _ => match asks(text, name) {
            Some(outcome) => Value::Bool(outcome),
            None => return Ok(None),
        },
    }))
}

/// Predicates over all characters of a text.
fn asks(text: &str, name: &str) -> Option<bool> {
    let all = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    Some(match name {
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "isdigit" | "isdecimal" | "isnumeric" => all(char::is_numeric),
        "isspace" => all(char::is_whitespace),
        "islower" => text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        "isupper" => text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        _ => return None,
    })
}

/// Whether any of the texts that are given holds: one, or a list.
fn any_of(given: &mut Given, name: &str, holds: impl Fn(&str) -> bool) -> Result<bool, Fault> {
    let value = given.take(name).unwrap_or(Value::Undefined);
    let all = value.as_list().unwrap_or(std::slice::from_ref(&value));
    for value in all {
        match value.as_text() {
            Some(text) if holds(text) => return Ok(true),
            Some(_) => {}
            None => return failed(format!("{name} should be a string, not {}", value.kind())),
        }
    }
    Ok(false)
}

/// A text without these characters, or spaces, at its ends.
pub(super) fn strip<'a>(
    text: &'a str,
    characters: Option<&str>,
    start: bool,
    end: bool,
    budget: &mut Budget,
) -> Result<&'a str, Fault> {
    budget.step(text.len() / 16 * characters.map_or(1, str::len))?;
    let wanted = |character: char| match characters {
        Some(characters) => characters.contains(character),
        None => character.is_whitespace(),
    };
    let text = if start { text.trim_start_matches(wanted) } else { text };
    Ok(if end { text.trim_end_matches(wanted) } else { text })
}

fn find(text: &str, name: &str, given: &mut Given) -> Result<Value, Fault> {
    let part = given.needed_text("part")?;
    let place = if name.starts_with('r') { text.rfind(&*part) } else { text.find(&*part) };
    let place = place.and_then(|place| text.get(..place)).map(|before| before.chars().count());
    match place.and_then(|place| i64::try_from(place).ok()) {
        Some(place) => Ok(Value::Int(place)),
        None if name.ends_with("find") => Ok(Value::Int(-1)),
        None => failed("the part is not in the string"),
    }
}

/// A list of texts.
fn texts<'a>(parts: impl Iterator<Item = &'a str>, budget: &mut Budget) -> Result<Value, Fault> {
    let mut items = Vec::new();
    for part in parts {
        items.push(Value::text(part, budget)?);
    }
    Value::list(items, budget)
}

pub(super) fn split(
    text: &str,
    separator: Option<&str>,
    most: Option<i64>,
    backwards: bool,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)).saturating_add(1);
    let Some(separator) = separator else {
        if most == usize::MAX {
            return texts(text.split_whitespace(), budget);
        }
        return split_spaces(text, most, backwards, budget);
    };
    if separator.is_empty() {
        return failed("a string cannot be split at nothing");
    }
    if !backwards {
        return texts(text.splitn(most, separator), budget);
    }
    let parts: Vec<&str> = text.rsplitn(most, separator).collect();
    budget.allocate(16 * parts.len())?;
    texts(parts.into_iter().rev(), budget)
}

/// Splits at spaces, at most the given number of times.
fn split_spaces(text: &str, most: usize, backwards: bool, budget: &mut Budget) -> Result<Value, Fault> {
    let (mut parts, mut rest) = (Vec::new(), if backwards { text.trim_end() } else { text.trim_start() });
    while !rest.is_empty() {
        budget.step(1)?;
        let cut = if backwards { rest.rsplit_once(char::is_whitespace) } else { rest.split_once(char::is_whitespace) };
        let Some((before, after)) = cut.filter(|_| parts.len() + 1 < most) else {
            parts.push(rest);
            break;
        };
        let (part, left) = if backwards { (after, before.trim_end()) } else { (before, after.trim_start()) };
        parts.push(part);
        rest = left;
    }
    if backwards {
        parts.reverse();
    }
    budget.allocate(16 * parts.len())?;
    texts(parts.into_iter(), budget)
}

fn partition(text: &str, separator: &str, backwards: bool, budget: &mut Budget) -> Result<Value, Fault> {
    let parts = if backwards { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match parts {
        Some((before, after)) => [before, separator, after],
        None if backwards => ["", "", text],
        None => [text, "", ""],
    };
    texts(parts.into_iter(), budget)
}
