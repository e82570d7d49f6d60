//! Filters, tests and methods. Each charges the budget for the values it reads and creates.

mod filters;
pub(super) mod format;
mod methods;
mod tests;

use std::sync::Arc;

pub(super) use filters::filter;
pub(super) use methods::method;
pub(super) use tests::test;

use super::budget::Budget;
use super::fault::{Fault, failed};
use super::value::Value;

/// The arguments that a filter, a test or a method is given.
pub(super) struct Given {
    positional: std::vec::IntoIter<Value>,
    named: Vec<(Arc<str>, Value)>,
}

impl Given {
    pub(super) fn new(positional: Vec<Value>, named: Vec<(Arc<str>, Value)>) -> Self {
        Self { positional: positional.into_iter(), named }
    }

    /// The next argument, or the one of this name.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.positional.next().or_else(|| {
            let index = self.named.iter().position(|(given, _)| &**given == name)?;
            Some(self.named.swap_remove(index).1)
        })
    }

    fn text(&mut self, name: &str) -> Result<Option<Arc<str>>, Fault> {
        match self.take(name) {
            None | Some(Value::None | Value::Undefined) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => failed(format!("{name} should be a string, not {}", other.kind())),
        }
    }

    fn needed_text(&mut self, name: &str) -> Result<Arc<str>, Fault> {
        self.text(name)?.map_or_else(|| failed(format!("{name} is missing")), Ok)
    }

    fn int(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        match self.take(name) {
            None | Some(Value::None | Value::Undefined) => Ok(None),
            Some(value) => match value.as_int() {
                Some(value) => Ok(Some(value)),
                None => failed(format!("{name} should be a number, not {}", value.kind())),
            },
        }
    }

    fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| value.is_true())
    }

    /// The remaining arguments.
    fn rest(&mut self) -> Self {
        let positional: Vec<Value> = self.positional.by_ref().collect();
        Self::new(positional, std::mem::take(&mut self.named))
    }
}

/// A text whose bytes have been charged.
fn owned(text: String, budget: &mut Budget) -> Result<Value, Fault> {
    budget.allocate(text.len())?;
    Ok(Value::Text(text.into()))
}

/// Replaces a substring, at most the given number of times.
fn replace(text: &str, from: &str, to: &str, most: Option<i64>, budget: &mut Budget) -> Result<Value, Fault> {
    budget.scan(text.len())?;
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let count = text.matches(from).take(most).count();
    budget.allocate(text.len().saturating_add(count.saturating_mul(to.len())))?;
    owned(text.replacen(from, to, most), budget)
}

/// A text with its first letter in upper case and the rest in lower case.
fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters.as_str().to_lowercase().chars()).collect()
}

/// A text with the first letter of each word in upper case and the rest in lower case.
fn titled(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let before = std::mem::replace(&mut inside, character.is_alphabetic());
        if before { out.extend(character.to_lowercase()) } else { out.extend(character.to_uppercase()) }
    }
    out
}
