//! The values of templates, which behave like Python's.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::Arc;

use super::budget::{Budget, Limit, MAX_NESTING};
use super::fault::{Fault, failed};

/// A value. Lists and dictionaries store their total size and depth, shared parts counted each time, so that no value is too
/// large to traverse.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Arc<List>),
    Dict(Arc<Dict>),
    /// An object whose attributes can be set, by its number.
    Namespace(usize),
    /// A macro, by its number.
    Macro(usize),
    /// A built-in function.
    Function(Function),
    /// The state of a loop.
    Loop(Arc<Loop>),
}

/// The built-in functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Dict,
    Namespace,
    RaiseException,
    Range,
    StrftimeNow,
}

#[derive(Debug)]
pub(super) struct List {
    items: Vec<Value>,
    size: Size,
}

#[derive(Debug)]
pub(super) struct Dict {
    entries: Vec<(Value, Value)>,
    size: Size,
}

/// The state of a `for` loop, the variable `loop`.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) index: usize,
    pub(super) length: usize,
    pub(super) depth: usize,
    /// Which of the loops that run it is.
    pub(super) place: usize,
    pub(super) previous: Value,
    pub(super) next: Value,
}

/// The size of a written value in bytes, and its depth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) depth: u32,
}

/// Bytes that a value takes in addition to its content.
const OVERHEAD: usize = 32;

impl Value {
    pub(super) fn text(text: &str, budget: &mut Budget) -> Result<Self, Fault> {
        budget.allocate(text.len() + OVERHEAD)?;
        Ok(Self::Text(text.into()))
    }

    /// A list of these values, which must not be too deep.
    pub(super) fn list(items: Vec<Self>, budget: &mut Budget) -> Result<Self, Fault> {
        let size = checked(size_of_all(items.iter()), items.len(), budget)?;
        Ok(Self::List(Arc::new(List { items, size })))
    }

    /// A dictionary. Of entries with the same key, the last counts, in the place of the first.
    pub(super) fn dict(entries: Vec<(Self, Self)>, budget: &mut Budget) -> Result<Self, Fault> {
        let mut unique: Vec<(Self, Self)> = Vec::new();
        for (key, value) in entries {
            if !matches!(key, Self::None | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Text(_)) {
                return failed(format!("{} cannot be a key", key.kind()));
            }
            budget.step(unique.len())?;
            match unique.iter_mut().find(|(known, _)| known.is_equal(&key)) {
                Some((_, old)) => *old = value,
                None => unique.push((key, value)),
            }
        }
        Self::unique_dict(unique, budget)
    }

    /// A dictionary of entries whose keys are different texts.
    pub(super) fn unique_dict(entries: Vec<(Self, Self)>, budget: &mut Budget) -> Result<Self, Fault> {
        let size = size_of_all(entries.iter().flat_map(|(key, value)| [key, value]));
        let size = checked(size, 2 * entries.len(), budget)?;
        Ok(Self::Dict(Arc::new(Dict { entries, size })))
    }

    pub(super) fn size(&self) -> Size {
        match self {
            Self::Text(text) => Size { bytes: text.len() + OVERHEAD, depth: 0 },
            Self::List(list) => list.size,
            Self::Dict(dict) => dict.size,
            _ => Size { bytes: OVERHEAD, depth: 0 },
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "an undefined value",
            Self::None => "none",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Namespace(_) => "a namespace",
            Self::Macro(_) | Self::Function(_) => "a function",
            Self::Loop(_) => "a loop",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Dict(dict) => !dict.entries.is_empty(),
            _ => true,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(&list.items),
            _ => None,
        }
    }

    pub(super) fn as_dict(&self) -> Option<&[(Self, Self)]> {
        match self {
            Self::Dict(dict) => Some(&dict.entries),
            _ => None,
        }
    }

    pub(super) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some((*value).into()),
            _ => None,
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => self.as_int().map(to_float),
        }
    }

    /// The number of items.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Undefined => Some(0),
            Self::Text(text) => Some(text.chars().count()),
            Self::List(list) => Some(list.items.len()),
            Self::Dict(dict) => Some(dict.entries.len()),
            _ => None,
        }
    }

    /// The values that a loop over it visits.
    pub(super) fn items(&self, budget: &mut Budget) -> Result<Vec<Self>, Fault> {
        budget.allocate(self.len().unwrap_or(0).saturating_mul(OVERHEAD))?;
        match self {
            Self::Undefined => Ok(Vec::new()),
            Self::List(list) => Ok(list.items.clone()),
            Self::Dict(dict) => Ok(dict.entries.iter().map(|(key, _)| key.clone()).collect()),
            Self::Text(text) => {
                budget.allocate(text.len().saturating_mul(OVERHEAD))?;
                Ok(text.chars().map(|character| Self::Text(character.encode_utf8(&mut [0; 4]).into())).collect())
            }
            _ => failed(format!("{} cannot be looped over", self.kind())),
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &Self, budget: &mut Budget) -> Result<Option<Self>, Fault> {
        let Some(entries) = self.as_dict() else { return Ok(None) };
        budget.step(1 + entries.len() / 4)?;
        budget.scan(key.size().bytes)?;
        Ok(entries.iter().find(|(known, _)| known.is_equal(key)).map(|(_, value)| value.clone()))
    }

    /// Whether both are equal. The caller has charged for their size.
    fn is_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::None, Self::None) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| a.is_equal(b))
            }
            (Self::Dict(a), Self::Dict(b)) => {
                let find = |key: &Self| b.entries.iter().find(|(known, _)| known.is_equal(key)).map(|(_, value)| value);
                let same = |(key, value): &(Self, Self)| find(key).is_some_and(|other| other.is_equal(value));
                a.entries.len() == b.entries.len() && a.entries.iter().all(same)
            }
            (Self::Namespace(a), Self::Namespace(b)) | (Self::Macro(a), Self::Macro(b)) => a == b,
            (Self::Function(a), Self::Function(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            _ => matches!((self.as_float(), other.as_float()), (Some(a), Some(b)) if a == b),
        }
    }

    /// Whether both are equal.
    pub(super) fn equals(&self, other: &Self, budget: &mut Budget) -> Result<bool, Fault> {
        let (own, others) = (self.size().bytes, other.size().bytes);
        // Each entry of a dictionary is looked for among all of the other's.
        let factor = if self.size().depth > 0 { 1 + own / (4 * OVERHEAD) } else { 1 };
        budget.scan(own.min(others).saturating_mul(factor))?;
        Ok(self.is_equal(other))
    }

    /// The order of two values.
    pub(super) fn order(&self, other: &Self, budget: &mut Budget) -> Result<Ordering, Fault> {
        budget.scan(self.size().bytes.min(other.size().bytes))?;
        self.compare(other).map_or_else(|| failed(format!("{} and {} have no order", self.kind(), other.kind())), Ok)
    }

    fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                for (a, b) in a.items.iter().zip(&b.items) {
                    match a.compare(b)? {
                        Ordering::Equal => {}
                        order => return Some(order),
                    }
                }
                Some(a.items.len().cmp(&b.items.len()))
            }
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            _ => self.as_float()?.partial_cmp(&other.as_float()?),
        }
    }

    /// Appends the value as Python's `str` writes it.
    pub(super) fn write(&self, out: &mut String, budget: &mut Budget) -> Result<(), Fault> {
        let before = out.len();
        budget.allocate(self.size().bytes)?;
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Undefined => {}
            _ => self.write_inside(out),
        }
        // Escaped text is longer.
        budget.allocate((out.len() - before).saturating_sub(self.size().bytes))
    }

    /// The value as text.
    pub(super) fn to_text(&self, budget: &mut Budget) -> Result<Arc<str>, Fault> {
        if let Self::Text(text) = self {
            return Ok(Arc::clone(text));
        }
        let mut out = String::new();
        self.write(&mut out, budget)?;
        Ok(out.into())
    }

    /// Appends the value as Python's `repr` writes it.
    fn write_inside(&self, out: &mut String) {
        match self {
            Self::Undefined => out.push_str("Undefined"),
            Self::None => out.push_str("None"),
            Self::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
            Self::Int(value) => out.push_str(&value.to_string()),
            Self::Float(value) => write_float(*value, out),
            Self::Text(text) => write_quoted(text, out),
            Self::List(list) => {
                out.push('[');
                for (index, item) in list.items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    item.write_inside(out);
                }
                out.push(']');
            }
            Self::Dict(dict) => {
                out.push('{');
                for (index, (key, value)) in dict.entries.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    key.write_inside(out);
                    out.push_str(": ");
                    value.write_inside(out);
                }
                out.push('}');
            }
            _ => {
                out.push('<');
                out.push_str(self.kind().trim_start_matches("a "));
                out.push('>');
            }
        }
    }
}

fn size_of_all<'a>(values: impl Iterator<Item = &'a Value>) -> Size {
    values.map(Value::size).fold(Size { bytes: OVERHEAD, depth: 0 }, |all, size| Size {
        bytes: all.bytes.saturating_add(size.bytes),
        depth: all.depth.max(size.depth),
    })
}

/// Charges a list or a dictionary with this number of values, and adds a level.
fn checked(mut size: Size, values: usize, budget: &mut Budget) -> Result<Size, Fault> {
    size.depth += 1;
    if size.depth > MAX_NESTING {
        return Err(Fault::Limit(Limit::Depth));
    }
    budget.allocate(values.saturating_mul(OVERHEAD) + OVERHEAD)?;
    Ok(size)
}

#[expect(clippy::cast_precision_loss, reason = "as in Python, where a number meets one with a fraction")]
pub(super) fn to_float(value: i64) -> f64 {
    value as f64
}

/// Appends a number with a fraction as Python writes it.
pub(super) fn write_float(value: f64, out: &mut String) {
    let plain = value == 0.0 || (1e-4..1e16).contains(&value.abs());
    if !value.is_finite() {
        out.push_str(if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        });
    } else if plain {
        let start = out.len();
        let _infallible = write!(out, "{value}");
        if !out[start..].contains('.') {
            out.push_str(".0");
        }
    } else {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        let _infallible = write!(out, "{digits}e{sign}{exponent:0>2}");
    }
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', character]),
            '\0'..='\x1F' | '\x7F' => {
                let _infallible = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}
