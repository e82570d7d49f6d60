//! Changes of JSON values: a number, a text, a list or an object becomes another, moves, doubles or vanishes.

use fastrand::Rng;
use serde_json::{Map, Number, Value};

use super::atoms;

/// Texts that are names or values somewhere, or hard to handle.
const TEXTS: [&str; 28] = [
    "",
    " ",
    "a",
    "▁",
    "Ġ",
    "é",
    "e\u{301}",
    "<s>",
    "</s>",
    "<unk>",
    "<0x0A>",
    "##",
    "\u{0}",
    "\n",
    "🪽",
    "Sequence",
    "ByteLevel",
    "Replace",
    "Prepend",
    "Strip",
    "Metaspace",
    "Split",
    "BPE",
    "Unigram",
    "WordLevel",
    "(a+)+$",
    "\\s+(?!\\S)",
    "(?=a)*",
];
/// A repeated text or list stays below this length.
const MAX_LEN: usize = 4096;

/// Changes a JSON text in a few places; other bytes stay as they are or become bytes of another text.
#[must_use]
pub fn json_changed(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return super::bytes_changed(rng, bytes, other) };
    let lent = if rng.u8(..4) == 0 { serde_json::from_slice(other).ok() } else { None };
    for _ in 0..1 << rng.u8(..3) {
        let donor = lent.as_ref().unwrap_or(&value);
        let part = pick(rng, donor).clone();
        let place = place(rng, &mut value);
        change(rng, place, part);
    }
    let mut changed = serde_json::to_vec(&value).unwrap_or_default();
    if rng.u8(..16) == 0 {
        changed = super::bytes_changed(rng, &changed, other);
    }
    changed
}

/// Some value inside `value`.
fn pick<'v>(rng: &mut Rng, value: &'v Value) -> &'v Value {
    let mut at = value;
    while rng.u8(..5) > 0 {
        let inner = match at {
            Value::Array(list) if !list.is_empty() => &list[rng.usize(..list.len())],
            Value::Object(map) if !map.is_empty() => match map.values().nth(rng.usize(..map.len())) {
                Some(inner) => inner,
                None => return at,
            },
            _ => return at,
        };
        at = inner;
    }
    at
}

/// Some place inside `value`. Large tables are entered less often than their siblings.
fn place<'v>(rng: &mut Rng, value: &'v mut Value) -> &'v mut Value {
    let deeper = match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    if !deeper || rng.u8(..6) == 0 {
        return value;
    }
    match value {
        Value::Array(list) => {
            let index = rng.usize(..list.len());
            place(rng, &mut list[index])
        }
        Value::Object(map) => {
            let index = rng.usize(..map.len());
            let Some(inner) = map.values_mut().nth(index) else { unreachable!("the index is below the length") };
            place(rng, inner)
        }
        other => other,
    }
}

fn change(rng: &mut Rng, place: &mut Value, part: Value) {
    if rng.u8(..8) == 0 {
        *place = part;
        return;
    }
    match place {
        Value::Null => *place = part,
        Value::Bool(truth) => *truth = !*truth,
        Value::Number(number) => *place = Value::Number(other_number(rng, number)),
        Value::String(text) => other_text(rng, text),
        Value::Array(list) => other_list(rng, list, part),
        Value::Object(map) => other_map(rng, map, part),
    }
}

fn other_number(rng: &mut Rng, number: &Number) -> Number {
    let old = number.as_i64().map_or(0, i64::cast_unsigned);
    match rng.u8(..6) {
        0 => Number::from_f64(rng.f64() * 1e3 - 500.0).unwrap_or(Number::from(0)),
        1 => Number::from_f64([1e308, -1e308, 5e-324, 0.5, -0.0][rng.usize(..5)]).unwrap_or(Number::from(0)),
        2 => Number::from(-(rng.i64(0..1000))),
        _ => Number::from(atoms::number(rng, old)),
    }
}

fn other_text(rng: &mut Rng, text: &mut String) {
    match rng.u8(..6) {
        0..2 => TEXTS[rng.usize(..TEXTS.len())].clone_into(text),
        2 => text.push_str(TEXTS[rng.usize(..TEXTS.len())]),
        3 => {
            text.pop();
        }
        4 if text.len() < MAX_LEN => *text = text.repeat(rng.usize(2..8)),
        _ => {
            let mut characters: Vec<char> = text.chars().collect();
            if !characters.is_empty() {
                let at = rng.usize(..characters.len());
                characters[at] = char::from_u32(rng.u32(..0x11_0000)).unwrap_or('x');
            }
            *text = characters.into_iter().collect();
        }
    }
}

fn other_list(rng: &mut Rng, list: &mut Vec<Value>, part: Value) {
    let at = rng.usize(..=list.len());
    match rng.u8(..6) {
        0 if at < list.len() => {
            list.remove(at);
        }
        1 if at < list.len() => {
            let again = list[at].clone();
            list.insert(at, again);
        }
        2 if !list.is_empty() => rng.shuffle(list),
        3 if !list.is_empty() && list.len() < 64 => {
            let times = rng.usize(2..40);
            *list = list.iter().cycle().take(list.len() * times).cloned().collect();
        }
        4 => list.clear(),
        _ => list.insert(at, part),
    }
}

fn other_map(rng: &mut Rng, map: &mut Map<String, Value>, part: Value) {
    let key = if map.is_empty() { None } else { map.keys().nth(rng.usize(..map.len())).cloned() };
    match (rng.u8(..5), key) {
        (0, Some(key)) => {
            map.shift_remove(&key);
        }
        (1, Some(key)) => {
            let value = map.shift_remove(&key).unwrap_or(Value::Null);
            map.insert(TEXTS[rng.usize(..TEXTS.len())].to_owned(), value);
        }
        (2, _) => {
            map.insert(TEXTS[rng.usize(..TEXTS.len())].to_owned(), part);
        }
        (_, Some(key)) => {
            map.insert(key, part);
        }
        (_, None) => {
            map.insert("type".to_owned(), part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_changes_are_json_again_and_differ() {
        let text = br#"{"type": "Sequence", "list": [1, 2.5, "x", null, {"a": true}]}"#;
        let mut rng = Rng::with_seed(1);
        let changed: Vec<_> = (0..400).map(|_| json_changed(&mut rng, text, text)).collect();
        let valid = changed.iter().filter(|text| serde_json::from_slice::<Value>(text).is_ok()).count();
        let different: std::collections::BTreeSet<_> = changed.iter().collect();
        assert!(valid > 350 && different.len() > 200, "{valid} valid, {} different", different.len());
    }
}
