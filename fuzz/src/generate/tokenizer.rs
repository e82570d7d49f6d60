//! A `tokenizer.json` in which any part may stand with any other.

use serde_json::{Map, Value, json};

use super::Choices;

/// Patterns from real files, and some that are hard on engines.
const PATTERNS: [&str; 14] = [
    r"\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{L}+|\p{N}",
    r"(a+)+$",
    r"(?:a?){24}a{24}",
    r"(?=(a+))\1b",
    r"(a|aa)+\1$",
    r"",
    r".*",
    r"\b",
    r"(?<=a)b",
    r"[^",
    r"(((((((((a)*)*)*)*)*)*)*)*)*",
    r"\p{Han}|\w{3}",
];
const TOKENS: [&str; 30] = [
    "<unk>", "a", "b", "c", "e", "t", "ab", "abc", "te", "Ġ", "Ġa", "▁", "▁a", "##b", "<s>", "</s>", "<0x0A>", "<0x41>",
    "<0xE2>", "é", "日", "Ã", "©", " ", "  ", "a</w>", "A", "aa", "aaaa", "\u{301}",
];
/// Parts of a sequence, and sequences inside of each other.
const MAX_PARTS: usize = 48;
const MAX_DEPTH: usize = 3;

/// A file, mostly one that is accepted, and a prompt for it.
pub fn tokenizer_json(choices: &mut Choices<'_>) -> (Vec<u8>, String) {
    let mut file = Map::new();
    if choices.chance(200) {
        file.insert("version".into(), json!("1.0"));
    }
    let (model, size) = model(choices);
    if choices.bool() {
        file.insert("added_tokens".into(), added_tokens(choices, size));
    }
    for (name, list, part) in [
        ("normalizer", "normalizers", normalizer as fn(&mut Choices<'_>) -> Value),
        ("pre_tokenizer", "pretokenizers", pre_tokenizer),
        ("post_processor", "processors", post_processor),
        ("decoder", "decoders", decoder),
    ] {
        if choices.byte() & 3 != 0 {
            file.insert(name.into(), sequence(choices, list, part, 0));
        }
    }
    file.insert("model".into(), model);
    let prompt = prompt(choices);
    (serde_json::to_vec(&Value::Object(file)).unwrap_or_default(), prompt)
}

fn prompt(choices: &mut Choices<'_>) -> String {
    let text = choices.text(40);
    // Long runs are what engines that backtrack are slow on.
    match choices.byte() & 7 {
        0 => text,
        1 => "a".repeat(if choices.chance(16) { choices.below(400) } else { choices.below(40) }) + &text,
        2 => text.repeat(1 + choices.below(8)),
        3 => " ".repeat(choices.below(24)) + &text,
        _ => text + TOKENS[choices.below(TOKENS.len())],
    }
}

/// A part alone, or several in a sequence.
fn sequence(choices: &mut Choices<'_>, list: &str, part: fn(&mut Choices<'_>) -> Value, depth: usize) -> Value {
    if choices.is_empty() || choices.bool() || depth >= MAX_DEPTH {
        return part(choices);
    }
    let count = if choices.chance(40) { choices.below(MAX_PARTS) } else { choices.below(5) };
    let parts: Vec<Value> = (0..count).map(|_| sequence(choices, list, part, depth + 1)).collect();
    json!({"type": "Sequence", list: parts})
}

fn pattern(choices: &mut Choices<'_>) -> Value {
    match choices.byte() & 3 {
        0 | 1 => json!({"String": choices.text(3)}),
        2 => json!({"Regex": choices.text(8)}),
        _ => json!({"Regex": choices.pick(&PATTERNS)}),
    }
}

fn replace(choices: &mut Choices<'_>) -> Value {
    let most = if choices.chance(20) { 200 } else { 6 };
    json!({"type": "Replace", "pattern": pattern(choices), "content": choices.text(most)})
}

fn normalizer(choices: &mut Choices<'_>) -> Value {
    match choices.byte() % 14 {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFKD"}),
        2 => json!({"type": "Lowercase"}),
        3 => json!({"type": "Prepend", "prepend": choices.text(3)}),
        4 | 5 => replace(choices),
        6 => json!({"type": "Strip", "strip_left": choices.bool(), "strip_right": choices.bool()}),
        7 => json!({"type": "ByteLevel"}),
        8 => json!({"type": "StripAccents"}),
        9 => json!({"type": "Nmt"}),
        10 => json!({"type": "NFD"}),
        11 => json!({"type": "NFKC"}),
        12 => json!({"type": "Precompiled", "precompiled_charsmap": base64(choices)}),
        _ => json!({"type": choices.text(6)}),
    }
}

/// A table of a plausible form: its size, then words.
fn base64(choices: &mut Choices<'_>) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let count = choices.below(8) * 4;
    let mut bytes = u32::try_from(count).unwrap_or(0).to_le_bytes().to_vec();
    bytes.extend_from_slice(choices.bytes(count + 6));
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            text.push(if shown { char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]) } else { '=' });
        }
    }
    text
}

fn pre_tokenizer(choices: &mut Choices<'_>) -> Value {
    let behavior = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    let scheme = ["always", "never", "first"];
    match choices.byte() % 10 {
        0 => {
            json!({"type": "ByteLevel", "add_prefix_space": choices.bool(), "trim_offsets": true, "use_regex": choices.bool()})
        }
        1 => json!({"type": "Metaspace", "replacement": choices.pick(&["▁", "_", "x", ""]),
                    "prepend_scheme": choices.pick(&scheme), "split": choices.bool()}),
        2 | 3 => {
            json!({"type": "Split", "pattern": pattern(choices), "behavior": choices.pick(&behavior), "invert": choices.bool()})
        }
        4 => json!({"type": "Digits", "individual_digits": choices.bool()}),
        5 => json!({"type": "Punctuation", "behavior": choices.pick(&behavior)}),
        6 => json!({"type": "Whitespace"}),
        7 => json!({"type": "WhitespaceSplit"}),
        8 => json!({"type": "UnicodeScripts"}),
        _ => json!({"type": choices.text(6)}),
    }
}

fn post_processor(choices: &mut Choices<'_>) -> Value {
    let token = |choices: &mut Choices<'_>| json!([*choices.pick(&TOKENS), choices.number() % (1 << 33)]);
    match choices.byte() % 5 {
        0 => json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}),
        1 => json!({"type": "BertProcessing", "cls": token(choices), "sep": token(choices)}),
        2 => {
            json!({"type": "RobertaProcessing", "cls": token(choices), "sep": token(choices), "trim_offsets": true, "add_prefix_space": true})
        }
        _ => {
            let name = *choices.pick(&TOKENS);
            let ids: Vec<u64> = (0..choices.below(4)).map(|_| choices.number()).collect();
            let special = json!({"SpecialToken": {"id": name, "type_id": 0}});
            let text = json!({"Sequence": {"id": choices.pick(&["A", "B"]), "type_id": 0}});
            let mut single = vec![special, text];
            for _ in 0..choices.below(4) {
                single.push(single[choices.below(single.len())].clone());
            }
            json!({"type": "TemplateProcessing", "single": single, "pair": single,
                   "special_tokens": {name: {"id": name, "ids": ids, "tokens": [name]}}})
        }
    }
}

fn decoder(choices: &mut Choices<'_>) -> Value {
    match choices.byte() % 10 {
        0 => json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        1 => {
            json!({"type": "Metaspace", "replacement": choices.pick(&["▁", "_", ""]), "prepend_scheme": "always", "split": true})
        }
        2 | 3 => replace(choices),
        4 => json!({"type": "ByteFallback"}),
        5 => json!({"type": "Fuse"}),
        6 => {
            json!({"type": "Strip", "content": choices.pick(&[" ", "▁", "a", ""]), "start": choices.number(), "stop": choices.number()})
        }
        7 => json!({"type": "BPEDecoder", "suffix": choices.text(2)}),
        8 => json!({"type": "WordPiece", "prefix": choices.pick(&["##", "", "a"]), "cleanup": choices.bool()}),
        _ => json!({"type": choices.text(6)}),
    }
}

fn added_tokens(choices: &mut Choices<'_>, size: u64) -> Value {
    let count = choices.below(7);
    let mut list = Vec::new();
    for index in 0..count as u64 {
        let content = if choices.bool() { choices.text(4) } else { (*choices.pick(&TOKENS)).to_owned() };
        // Mostly the id that the place in the file asks for.
        let id = if choices.chance(30) { choices.number() % (1 << 32) } else { size + index };
        list.push(json!({"id": id, "content": content, "single_word": choices.bool(), "lstrip": choices.bool(),
                         "rstrip": choices.bool(), "normalized": choices.bool(), "special": choices.bool()}));
    }
    Value::Array(list)
}

/// A model, and one more than its largest id.
fn model(choices: &mut Choices<'_>) -> (Value, u64) {
    let mut tokens: Vec<String> = Vec::new();
    let count = 1 + choices.below(TOKENS.len());
    let from = choices.below(TOKENS.len());
    for index in 0..count {
        tokens.push(TOKENS[(from + index) % TOKENS.len()].to_owned());
    }
    if choices.bool() {
        tokens.push(choices.text(5));
    }
    if choices.chance(40) {
        tokens.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    }
    let mut vocab = Map::new();
    for token in &tokens {
        let id = vocab.len();
        vocab.entry(token.clone()).or_insert(json!(id));
    }
    let size = vocab.len() as u64;
    let kind = choices.byte() % 4;
    let mut model = match kind {
        0 | 1 => json!({"type": "BPE", "merges": merges(choices, &tokens), "vocab": vocab}),
        2 => {
            let scores: Vec<Value> = vocab.keys().map(|token| json!([token, score(choices)])).collect();
            json!({"type": "Unigram", "unk_id": choices.below(4), "vocab": scores})
        }
        _ => json!({"type": "WordLevel", "vocab": vocab}),
    };
    for (name, value) in [
        ("unk_token", json!(tokens[choices.below(tokens.len())])),
        ("byte_fallback", json!(choices.bool())),
        ("fuse_unk", json!(choices.bool())),
        ("ignore_merges", json!(choices.bool())),
        ("end_of_word_suffix", json!(choices.pick(&["</w>", "", "b"]))),
        ("continuing_subword_prefix", json!(choices.pick(&["", "##"]))),
    ] {
        if choices.chance(90) {
            model[name] = value;
        }
    }
    (model, size)
}

fn score(choices: &mut Choices<'_>) -> f64 {
    match choices.byte() {
        byte @ 0..=200 => -f64::from(byte) / 8.0,
        201..=220 => 0.0,
        221..=230 => 1e300,
        231..=240 => -1e308,
        byte => f64::from(byte),
    }
}

/// Merges of tokens whose result is a token, and a few of others.
fn merges(choices: &mut Choices<'_>, tokens: &[String]) -> Value {
    let mut merges = Vec::new();
    for token in tokens {
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if tokens.iter().any(|token| token == left) && tokens.iter().any(|token| token == right) {
                merges.push(if choices.bool() { json!([left, right]) } else { json!(format!("{left} {right}")) });
            }
        }
    }
    if choices.chance(20) {
        merges.push(json!([choices.text(2), choices.text(2)]));
    }
    Value::Array(merges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_generated_files_are_accepted_and_no_bytes_suffice() {
        assert!(serde_json::from_slice::<Value>(&tokenizer_json(&mut Choices::new(&[])).0).is_ok());
        let accepted = crate::seeds::entropy(std::path::Path::new("")).into_iter().filter(|entropy| {
            let (file, _) = tokenizer_json(&mut Choices::new(&entropy.bytes));
            pteron_llm::Tokenizer::from_bytes(&file).is_ok()
        });
        assert!(accepted.count() > 10);
    }
}
