//! The parts of `tokenizer.json` before and behind its model: how a text is rewritten and cut, and what is put around it.

use serde_json::Value;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

use super::super::base64;
use super::super::charsmap::CharsMap;

/// How much longer than a text its rewriting may be at most. One that turns spaces into U+2581 makes it three times as long.
const MAX_GROWTH: usize = 4096;

/// How many regular expressions there may be. The engine limits how much memory each takes, to some ten million bytes.
const MAX_PATTERNS: usize = 8;

const NORMALIZERS: &[&str] = &[
    "ByteLevel",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Prepend",
    "Replace",
    "Strip",
    "StripAccents",
];
const PRE_TOKENIZERS: &[&str] =
    &["ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"];

/// The type of a part.
pub(super) fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The parts that a part consists of: those of a sequence, or itself.
pub(super) fn flatten<'a>(part: &'a Value, list: &str) -> Vec<&'a Value> {
    match part.get(list).and_then(Value::as_array) {
        Some(parts) if kind(part) == "Sequence" => parts.iter().flat_map(|part| flatten(part, list)).collect(),
        _ => vec![part],
    }
}

pub(super) fn normalizer(part: Option<Value>) -> Result<Option<NormalizerWrapper>, String> {
    let Some(part) = part else { return Ok(None) };
    let mut growth = 1usize;
    let steps = flatten(&part, "normalizers");
    count_patterns("normalizer", &steps)?;
    for step in steps {
        known("normalizer", step, NORMALIZERS)?;
        match kind(step) {
            "Replace" => {
                if step.pointer("/pattern/String") == Some(&Value::from("")) {
                    return Err("its normalizer replaces nothing at all".to_owned());
                }
                growth = growth.saturating_mul(text(step, "content").len().max(1));
            }
            "Prepend" => growth = growth.saturating_mul(text(step, "prepend").len().saturating_add(1)),
            "Precompiled" => {
                let table = base64::decode(text(step, "precompiled_charsmap").as_bytes());
                CharsMap::read(&table.ok_or("its normalizer's table is not base64")?)?;
            }
            _ => {}
        }
    }
    if growth > MAX_GROWTH {
        return Err(format!("its normalizer could make a text more than {MAX_GROWTH} times as long"));
    }
    serde_json::from_value(part).map(Some).map_err(|error| format!("its normalizer: {error}"))
}

pub(super) fn pre_tokenizer(part: Option<Value>) -> Result<Option<PreTokenizerWrapper>, String> {
    let Some(part) = part else { return Ok(None) };
    let steps = flatten(&part, "pretokenizers");
    count_patterns("pre-tokenizer", &steps)?;
    for step in steps {
        known("pre-tokenizer", step, PRE_TOKENIZERS)?;
    }
    serde_json::from_value(part).map(Some).map_err(|error| format!("its pre-tokenizer: {error}"))
}

fn count_patterns(what: &str, steps: &[&Value]) -> Result<(), String> {
    match steps.iter().filter(|step| step.pointer("/pattern/Regex").is_some()).count() {
        0..=MAX_PATTERNS => Ok(()),
        count => Err(format!("its {what} has {count} regular expressions; at most {MAX_PATTERNS} work")),
    }
}

fn known(what: &str, step: &Value, names: &[&str]) -> Result<(), String> {
    let kind = kind(step);
    if names.contains(&kind) {
        return Ok(());
    }
    Err(format!("its {what} is of type {kind:?}; those that work are {}", names.join(", ")))
}

fn text<'a>(part: &'a Value, name: &str) -> &'a str {
    part.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The ids that are put before and behind a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Around {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

/// What a post-processor puts around a text.
pub(super) fn around(part: Option<&Value>) -> Result<Around, String> {
    let mut around = Around::default();
    for step in part.map(|part| flatten(part, "processors")).unwrap_or_default() {
        match kind(step) {
            "ByteLevel" => {}
            "TemplateProcessing" => add_template(step, &mut around)?,
            "BertProcessing" | "RobertaProcessing" => {
                around.before.insert(0, id(step.pointer("/cls/1"))?);
                around.after.push(id(step.pointer("/sep/1"))?);
            }
            other => return Err(format!("its post-processor is of type {other:?}, which is not supported")),
        }
    }
    Ok(around)
}

fn id(value: Option<&Value>) -> Result<u32, String> {
    let id = value.and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| "its post-processor has a token without an id".to_owned())
}

/// A template is a list of special tokens around one `Sequence`.
fn add_template(step: &Value, around: &mut Around) -> Result<(), String> {
    let parts = step.get("single").and_then(Value::as_array).ok_or("its post-processor has no template")?;
    let (mut before, mut after, mut behind) = (Vec::new(), Vec::new(), false);
    for part in parts {
        let Some(name) = part.pointer("/SpecialToken/id").and_then(Value::as_str) else {
            if part.get("Sequence").is_none() || std::mem::replace(&mut behind, true) {
                return Err("its post-processor's template is not one text with tokens around it".to_owned());
            }
            continue;
        };
        let ids = step.get("special_tokens").and_then(|tokens| tokens.get(name)).and_then(|token| token.get("ids"));
        let ids = ids.and_then(Value::as_array).ok_or_else(|| format!("its post-processor does not define {name:?}"))?;
        for value in ids {
            if behind { &mut after } else { &mut before }.push(id(Some(value))?);
        }
    }
    around.before.splice(0..0, before);
    around.after.extend(after);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_put_tokens_around_a_text() {
        let processor = json!({"type": "Sequence", "processors": [
            {"type": "ByteLevel", "trim_offsets": true},
            {"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                        {"SpecialToken": {"id": "</s>", "type_id": 0}}],
             "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
                                            "</s>": {"id": "</s>", "ids": [2, 3], "tokens": ["</s>", "x"]}}}]});
        assert_eq!(around(Some(&processor)).unwrap(), Around { before: vec![1], after: vec![2, 3] });
        let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]});
        assert_eq!(around(Some(&roberta)).unwrap(), Around { before: vec![0], after: vec![2] });
        assert_eq!(around(None).unwrap(), Around::default());
    }

    #[test]
    fn broken_processors_are_refused() {
        for processor in [
            json!({"type": "Other"}),
            json!({"type": "TemplateProcessing"}),
            json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}], "special_tokens": {}}),
            json!({"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"Sequence": {}}]}),
            json!({"type": "BertProcessing", "sep": ["x", -1], "cls": ["y", 0]}),
        ] {
            assert!(around(Some(&processor)).is_err(), "{processor}");
        }
    }

    #[test]
    fn normalizers_that_could_explode_or_are_broken_are_refused() {
        let double = json!({"type": "Replace", "pattern": {"String": " "}, "content": "  "});
        assert!(normalizer(Some(double.clone())).is_ok());
        let many = json!({"type": "Sequence", "normalizers": vec![double; 13]});
        assert!(normalizer(Some(many)).unwrap_err().contains("4096 times"));
        for broken in [
            json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            json!({"type": "Precompiled", "precompiled_charsmap": "?"}),
            json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
            json!({"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}),
            json!({"type": "Unheard"}),
            json!({}),
            json!([]),
        ] {
            assert!(normalizer(Some(broken.clone())).is_err(), "{broken}");
        }
        let split = json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": false});
        let many = |count| json!({"type": "Sequence", "pretokenizers": vec![split.clone(); count]});
        assert!(pre_tokenizer(Some(many(8))).is_ok());
        assert!(pre_tokenizer(Some(many(9))).unwrap_err().contains("9 regular expressions"));
        assert!(pre_tokenizer(Some(json!({"type": "FixedLength", "length": 0}))).unwrap_err().contains("ByteLevel"));
        assert!(
            pre_tokenizer(Some(
                json!({"type": "Split", "pattern": {"Regex": "["}, "behavior": "Isolated", "invert": false})
            ))
            .is_err()
        );
    }
}
