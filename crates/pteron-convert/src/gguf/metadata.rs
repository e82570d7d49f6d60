//! The key-value metadata of a file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::cursor::{Cursor, shown};
use crate::error::{Error, Result};

/// The fewest bytes that a key with a value takes: the key's length, the value's type, a byte.
const LEAST_ENTRY: usize = 8 + 4 + 1;
/// Real files have dozens.
const MOST_KEYS: usize = 1 << 16;
/// The fewest bytes that an element of an array of arrays takes.
const LEAST_ARRAY: usize = 4 + 8;
/// Arrays within arrays. No file in use has any.
const MAX_DEPTH: usize = 8;

/// The value types, by their ids.
const TYPES: [Type; 13] = [
    Type::U8,
    Type::I8,
    Type::U16,
    Type::I16,
    Type::U32,
    Type::I32,
    Type::F32,
    Type::Bool,
    Type::Text,
    Type::Array,
    Type::U64,
    Type::I64,
    Type::F64,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

/// A value. Strings and arrays borrow from the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(&'a [u8]),
    Array(Array<'a>),
}

/// An array whose bounds have been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array<'a> {
    key: &'a str,
    file: &'a str,
    bytes: &'a [u8],
    element: Type,
    len: usize,
}

/// Keys with values.
pub(super) struct Metadata<'a> {
    file: &'a str,
    entries: HashMap<&'a str, Value<'a>>,
}

impl<'a> Metadata<'a> {
    /// Reads the number of keys, and all keys and values.
    pub(super) fn read(cursor: &mut Cursor<'a>, file: &'a str) -> Result<Self> {
        cursor.part = "the number of keys".to_owned();
        let count = cursor.count(LEAST_ENTRY)?;
        if count > MOST_KEYS {
            return Err(cursor.fault(format!("there are {count}, more than {MOST_KEYS}")));
        }
        let mut entries = HashMap::new();
        for number in 0..count {
            cursor.part = format!("key {number}");
            let key = cursor.name()?;
            cursor.part = format!("the value of {}", shown(key));
            let element = type_of(cursor)?;
            let value = value(cursor, key, file, element, 0)?;
            match entries.entry(key) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(_) => return Err(cursor.fault("the key is there twice")),
            };
        }
        Ok(Self { file, entries })
    }

    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries.get(key).copied()
    }

    /// An error about the value of a key.
    pub(super) fn fault(&self, key: &str, problem: impl std::fmt::Display) -> Error {
        Error::Malformed { file: self.file.to_owned(), problem: format!("the value of {}: {problem}", shown(key)) }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let text = |value| match value {
            Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        self.converted(key, "a text in UTF-8", text)
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u32>> {
        self.converted(key, "a whole number from 0 to 4294967295", Value::number)
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        let float = |value| match value {
            Value::Float(float) => Some(float),
            _ => value.number().map(f64::from),
        };
        self.converted(key, "a number", float)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let flag = |value| match value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        };
        self.converted(key, "true or false", flag)
    }

    pub(super) fn array(&self, key: &str) -> Result<Option<Array<'a>>> {
        let array = |value| match value {
            Value::Array(array) => Some(array),
            _ => None,
        };
        self.converted(key, "an array", array)
    }

    /// Returns a required value.
    pub(super) fn needed<T>(&self, key: &str, value: Result<Option<T>>) -> Result<T> {
        value?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn missing(&self, key: &str) -> Error {
        Error::Malformed { file: self.file.to_owned(), problem: format!("there is no {}", shown(key)) }
    }

    fn converted<T>(&self, key: &str, what: &str, convert: impl Fn(Value<'a>) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| self.fault(key, format!("it should be {what}")))
    }
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Unsigned(number) => number.try_into().ok(),
            Self::Signed(number) => number.try_into().ok(),
            _ => None,
        }
    }
}

impl<'a> Array<'a> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Its elements, in order.
    pub(super) fn values(self) -> impl Iterator<Item = Result<Value<'a>>> {
        let mut cursor = Cursor::new(self.file, self.bytes);
        cursor.part = format!("the value of {}", shown(self.key));
        (0..self.len).map(move |_| value(&mut cursor, self.key, self.file, self.element, 1))
    }

    /// Its elements, each of which must become something.
    pub(super) fn each<T>(self, what: &str, convert: impl Fn(Value<'a>) -> Option<T>) -> Result<Vec<T>> {
        let fault = |index: usize| Error::Malformed {
            file: self.file.to_owned(),
            problem: format!("the value of {}: element {index} should be {what}", shown(self.key)),
        };
        self.values()
            .enumerate()
            .map(|(index, value)| value.and_then(|value| convert(value).ok_or_else(|| fault(index))))
            .collect()
    }

    /// Its elements as texts.
    pub(super) fn texts(self) -> Result<Vec<&'a str>> {
        self.each("a text in UTF-8", |value| match value {
            Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        })
    }
}

fn type_of(cursor: &mut Cursor<'_>) -> Result<Type> {
    let number = cursor.u32()?;
    let known = usize::try_from(number).ok().and_then(|number| TYPES.get(number));
    known.copied().ok_or_else(|| cursor.fault(format!("there is no type {number}; types are 0 to {}", TYPES.len() - 1)))
}

fn value<'a>(cursor: &mut Cursor<'a>, key: &'a str, file: &'a str, kind: Type, depth: usize) -> Result<Value<'a>> {
    Ok(match kind {
        Type::U8 => Value::Unsigned(u8::from_le_bytes(cursor.array()?).into()),
        Type::U16 => Value::Unsigned(u16::from_le_bytes(cursor.array()?).into()),
        Type::U32 => Value::Unsigned(u32::from_le_bytes(cursor.array()?).into()),
        Type::U64 => Value::Unsigned(u64::from_le_bytes(cursor.array()?)),
        Type::I8 => Value::Signed(i8::from_le_bytes(cursor.array()?).into()),
        Type::I16 => Value::Signed(i16::from_le_bytes(cursor.array()?).into()),
        Type::I32 => Value::Signed(i32::from_le_bytes(cursor.array()?).into()),
        Type::I64 => Value::Signed(i64::from_le_bytes(cursor.array()?)),
        Type::F32 => Value::Float(shortest_decimal(f32::from_le_bytes(cursor.array()?))),
        Type::F64 => Value::Float(f64::from_le_bytes(cursor.array()?)),
        Type::Bool => Value::Bool(cursor.array::<1>()? != [0]),
        Type::Text => Value::Text(cursor.string()?),
        Type::Array => Value::Array(array(cursor, key, file, depth)?),
    })
}

/// Reads the bounds of an array without its elements.
fn array<'a>(cursor: &mut Cursor<'a>, key: &'a str, file: &'a str, depth: usize) -> Result<Array<'a>> {
    if depth >= MAX_DEPTH {
        return Err(cursor.fault(format!("arrays are nested more than {MAX_DEPTH} deep")));
    }
    let element = type_of(cursor)?;
    let least = match element {
        Type::U8 | Type::I8 | Type::Bool => 1,
        Type::U16 | Type::I16 => 2,
        Type::U32 | Type::I32 | Type::F32 => 4,
        Type::U64 | Type::I64 | Type::F64 | Type::Text => 8,
        Type::Array => LEAST_ARRAY,
    };
    let len = cursor.count(least)?;
    let mut end = cursor.clone();
    match element {
        Type::Text => (0..len).try_for_each(|_| end.string().map(drop))?,
        Type::Array => (0..len).try_for_each(|_| array(&mut end, key, file, depth + 1).map(drop))?,
        // As many as there is room for, which is checked.
        _ => end.take((len * least) as u64).map(drop)?,
    }
    let bytes = cursor.take((end.position() - cursor.position()) as u64)?;
    Ok(Array { key, file, bytes, element, len })
}

/// Returns the decimal number that a float32 was parsed from: 0.00001, not 0.000009999999747378752.
fn shortest_decimal(float: f32) -> f64 {
    float.to_string().parse().unwrap_or_else(|_| f64::from(float))
}
