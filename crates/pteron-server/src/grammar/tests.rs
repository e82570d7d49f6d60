//! Texts of schemas are valid, by checks that know nothing of grammars; schemas that cannot be compiled are refused with the reason.

use serde_json::{Value, json};

use super::walk::{Length, Vocabulary, Walk, Walker};

const LENGTH: Length = Length { random: 60, most: 2000 };

/// A schema, and what every text of it must be.
type Case = (Value, fn(&Value) -> bool);

fn cases() -> Vec<Case> {
    vec![
        (json!({ "type": "object" }), Value::is_object),
        (json!({ "type": "boolean" }), Value::is_boolean),
        (json!({ "const": { "a": [1, null] } }), |value| *value == json!({ "a": [1, null] })),
        (json!({ "enum": ["red", 7, false] }), |value| [json!("red"), json!(7), json!(false)].contains(value)),
        (json!({ "type": "integer", "minimum": -3, "maximum": 12 }), |value| {
            value.as_i64().is_some_and(|number| (-3..=12).contains(&number))
        }),
        (json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }), |value| {
            value.as_f64().is_some_and(|number| number > 0.0 && number <= 1.0)
        }),
        (json!({ "type": "string", "minLength": 2, "maxLength": 5 }), |value| {
            value.as_str().is_some_and(|text| (2..=5).contains(&text.chars().count()))
        }),
        (json!({ "type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$" }), |value| {
            let text = value.as_str().unwrap_or_default().as_bytes();
            let [a, b, b'-', digits @ ..] = text else { return false };
            a.is_ascii_uppercase() && b.is_ascii_uppercase() && digits.len() == 3 && digits.iter().all(u8::is_ascii_digit)
        }),
        (json!({ "type": "string", "format": "date" }), |value| {
            let parts: Vec<&str> = value.as_str().unwrap_or_default().split('-').collect();
            let [year, month, day] = parts.as_slice() else { return false };
            let number = |text: &str| text.parse::<u32>().unwrap_or(0);
            year.len() == 4 && (1..=12).contains(&number(month)) && (1..=31).contains(&number(day))
        }),
        // Without bounds an integer may have any number of digits.
        (
            json!({ "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 999 }, "minItems": 2, "maxItems": 4 }),
            |value| value.as_array().is_some_and(|list| (2..=4).contains(&list.len()) && list.iter().all(Value::is_i64)),
        ),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "null" }], "items": false, "minItems": 2 }),
            |value| value.as_array().is_some_and(|list| list.len() == 2 && list[0].is_string() && list[1].is_null()),
        ),
        (
            json!({
                "type": "object", "additionalProperties": false, "required": ["name", "tags"],
                "properties": {
                    "name": { "type": "string", "maxLength": 20 },
                    "tags": { "type": "array", "items": { "enum": ["a", "b"] } },
                    "size": { "type": ["integer", "null"], "minimum": 0, "maximum": 99 },
                },
            }),
            |value| {
                let Some(map) = value.as_object() else { return false };
                let tags = value["tags"].as_array();
                map.keys().all(|key| ["name", "tags", "size"].contains(&key.as_str()))
                    && value["name"].as_str().is_some_and(|name| name.chars().count() <= 20)
                    && tags.is_some_and(|tags| tags.iter().all(|tag| tag == "a" || tag == "b"))
                    && map.get("size").is_none_or(|size| size.is_i64() || size.is_u64() || size.is_null())
            },
        ),
        (
            json!({
                "$ref": "#/$defs/node",
                "$defs": { "node": {
                    "type": "object", "additionalProperties": false, "required": ["value"],
                    "properties": { "value": { "type": "boolean" }, "next": { "$ref": "#/$defs/node" } },
                } },
            }),
            |mut value| {
                while let Some(next) = value.get("next") {
                    if !value["value"].is_boolean() {
                        return false;
                    }
                    value = next;
                }
                value["value"].is_boolean()
            },
        ),
        (
            json!({ "anyOf": [{ "type": "null" }, { "type": "object", "required": ["x"], "properties": { "x": { "const": 1 } } }] }),
            |value| value.is_null() || value["x"] == 1,
        ),
        (json!({ "allOf": [{ "type": "integer", "minimum": 4 }, { "maximum": 6 }] }), |value| {
            value.as_i64().is_some_and(|number| (4..=6).contains(&number))
        }),
    ]
}

#[test]
fn every_text_of_a_schema_is_valid() {
    let mut walker = Walker::new(Vocabulary::bundled());
    for (schema, is_valid) in cases() {
        for random in [0, 20, LENGTH.random] {
            let text = match walker.write(&schema, Length { random, ..LENGTH }) {
                Walk::Whole(text) => text,
                other => panic!("{schema}: {other:?}"),
            };
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{schema}: {error}: {text}"));
            assert!(is_valid(&value), "{schema}: {text}");
        }
    }
}

#[test]
fn schemas_that_cannot_be_compiled_are_refused_with_the_reason() {
    let mut walker = Walker::new(Vocabulary::bundled());
    for (schema, reason) in [
        (json!({ "type": "string", "pattern": "(?<=a)b" }), "regex parse error: look-around"),
        (json!({ "type": "strange" }), "strange"),
        (json!({ "$ref": "#/$defs/missing" }), "missing"),
        (json!({ "not": { "type": "string" } }), "not"),
        (json!({ "type": "integer", "minimum": 2, "maximum": 1 }), "minimum"),
    ] {
        match walker.write(&schema, LENGTH) {
            Walk::Refused(sentence) => {
                assert!(sentence.starts_with("cannot be compiled: ") && sentence.contains(reason), "{schema}: {sentence}");
                assert!(!sentence.contains('\n'), "{sentence}");
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
}
