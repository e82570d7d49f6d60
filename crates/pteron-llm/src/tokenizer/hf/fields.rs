//! Reads the parts of `tokenizer.json` besides the model, including the tokens added around a text.

use serde_json::Value;

use super::normalizer::Wanted;
use crate::tokenizer::pattern::Pattern;

/// The most steps of a part; files in use have up to ten.
const MAX_STEPS: usize = 64;
/// The most regular expressions of a part. Each may use some megabytes.
const MAX_PATTERNS: usize = 8;
/// The most tokens added around a text.
const MAX_ADDED_TOKENS: usize = 1024;

/// The type of a part.
pub(super) fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The steps that a part consists of: those of a sequence, or itself.
pub(super) fn flatten<'a>(what: &str, part: Option<&'a Value>, list: &str) -> Result<Vec<&'a Value>, String> {
    let (mut steps, mut open) = (Vec::new(), Vec::from_iter(part));
    while let Some(part) = open.pop() {
        match part.get(list).and_then(Value::as_array) {
            Some(parts) if kind(part) == "Sequence" => open.extend(parts.iter().rev()),
            _ => steps.push(part),
        }
    }
    if steps.len() > MAX_STEPS {
        return Err(format!("its {what} has {} steps; at most {MAX_STEPS} work", steps.len()));
    }
    match steps.iter().filter(|step| step.pointer("/pattern/Regex").is_some()).count() {
        0..=MAX_PATTERNS => Ok(steps),
        count => Err(format!("its {what} has {count} regular expressions; at most {MAX_PATTERNS} work")),
    }
}

/// Rejects a step of another type.
pub(super) fn known(what: &str, step: &Value, names: &[&str]) -> Result<(), String> {
    let kind = kind(step);
    if names.contains(&kind) {
        return Ok(());
    }
    let kind: String = kind.chars().take(64).collect();
    Err(format!("its {what} is of type {kind:?}; those that work are {}", names.join(", ")))
}

/// The text or the pattern that a step looks for.
pub(super) fn find_pattern(what: &str, step: &Value) -> Result<Wanted, String> {
    let part = |name| step.pointer(name).and_then(Value::as_str);
    match (part("/pattern/String"), part("/pattern/Regex")) {
        (Some(""), _) => Err(format!("its {what} looks for nothing at all")),
        (Some(text), _) => Ok(Wanted::Text(text.to_owned())),
        (_, Some(pattern)) => match Pattern::new(pattern) {
            Ok(pattern) => Ok(Wanted::Pattern(pattern)),
            Err(reason) => Err(format!("its {what}: {reason}")),
        },
        _ => Err(format!("its {what} has no pattern")),
    }
}

/// A text that must be there.
pub(super) fn text<'a>(part: &'a Value, name: &str) -> Result<&'a str, String> {
    part.get(name).and_then(Value::as_str).ok_or_else(|| format!("its {} has no {name}", kind(part)))
}

/// A flag that must be there.
pub(super) fn flag(part: &Value, name: &str) -> Result<bool, String> {
    part.get(name).and_then(Value::as_bool).ok_or_else(|| format!("its {} does not say {name}", kind(part)))
}

/// A text of one character.
pub(super) fn character(part: &Value, name: &str) -> Option<char> {
    let mut characters = part.get(name)?.as_str()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// The ids that are added before and after a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PostProcessor {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

/// Reads the tokens that a post-processor adds.
pub(super) fn around(part: Option<&Value>) -> Result<PostProcessor, String> {
    let mut around = PostProcessor::default();
    for step in flatten("post-processor", part, "processors")? {
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
fn add_template(step: &Value, around: &mut PostProcessor) -> Result<(), String> {
    let parts = step.get("single").and_then(Value::as_array).ok_or("its post-processor has no template")?;
    let (mut before, mut after, mut past_sequence) = (Vec::new(), Vec::new(), false);
    for part in parts {
        let Some(name) = part.pointer("/SpecialToken/id").and_then(Value::as_str) else {
            if part.get("Sequence").is_none() || std::mem::replace(&mut past_sequence, true) {
                return Err("its post-processor's template is not one text with tokens around it".to_owned());
            }
            continue;
        };
        let ids = step.get("special_tokens").and_then(|tokens| tokens.get(name)).and_then(|token| token.get("ids"));
        let ids = ids.and_then(Value::as_array).ok_or_else(|| format!("its post-processor does not define {name:?}"))?;
        if before.len() + after.len() + ids.len() > MAX_ADDED_TOKENS {
            return Err(format!("its post-processor puts more than {MAX_ADDED_TOKENS} tokens around a text"));
        }
        for value in ids {
            if past_sequence { &mut after } else { &mut before }.push(id(Some(value))?);
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
        assert_eq!(around(Some(&processor)).unwrap(), PostProcessor { before: vec![1], after: vec![2, 3] });
        let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]});
        assert_eq!(around(Some(&roberta)).unwrap(), PostProcessor { before: vec![0], after: vec![2] });
        assert_eq!(around(None).unwrap(), PostProcessor::default());
    }

    #[test]
    fn malformed_post_processors_are_rejected() {
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
}
