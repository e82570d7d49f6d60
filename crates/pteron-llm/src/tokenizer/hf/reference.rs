//! The `tokenizers` crate encodes the same.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The ids and the decoded text of the `tokenizers` crate.
fn theirs(file: &Value, text: &str) -> Vec<u32> {
    let tokenizer: tokenizers::Tokenizer = file.to_string().parse().unwrap();
    tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec()
}

fn ours(file: &Value, text: &str) -> Vec<u32> {
    HuggingFace::read(file.to_string().as_bytes()).unwrap().encode(text, ParseSpecial::Yes).unwrap()
}

fn added(id: u32, content: &str, flags: [bool; 4]) -> Value {
    let [single_word, lstrip, rstrip, normalized] = flags;
    json!({"id": id, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
           "normalized": normalized, "special": false})
}

/// A file with this normalizer and pre-tokenizer, and a vocabulary in which most characters are unknown.
fn file(normalizer: &Value, pre_tokenizer: &Value, model: &Value, flags: [bool; 4]) -> Value {
    json!({"version": "1.0", "truncation": null, "padding": null, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
           "post_processor": null, "decoder": null, "model": model,
           "added_tokens": [added(16, "<a>", flags), added(17, "B", [false, false, false, true])]})
}

fn models() -> [Value; 4] {
    let tokens = ["?", "a", "b", "é", " ", "▁", "ab", "aba", "Ġ", "Ã", "<0xC3>", "<0xA9>", "<0x20>", "Ġa", "1", "▁a"];
    let ids: serde_json::Map<String, Value> =
        tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), json!(id))).collect();
    let scores: Vec<Value> =
        tokens.iter().zip(0..).map(|(token, id)| json!([token, f64::from(id * 7 % 5) * -0.7])).collect();
    let merges = json!([["a", "b"], ["ab", "a"], ["Ġ", "a"], ["▁", "a"]]);
    [
        json!({"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
               "vocab": ids, "merges": merges}),
        json!({"type": "BPE", "unk_token": "?", "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
               "vocab": ids, "merges": merges}),
        json!({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": scores}),
        json!({"type": "WordLevel", "unk_token": "?", "vocab": ids}),
    ]
}

fn normalizers() -> Vec<Value> {
    let names = ["ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents"];
    let mut all: Vec<Value> = names.iter().map(|name| json!({"type": name})).collect();
    all.push(Value::Null);
    all.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
    all.push(json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}));
    all.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "b"}));
    all
}

fn pre_tokenizers() -> Vec<Value> {
    let mut all = vec![
        Value::Null,
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Digits", "individual_digits": false}),
        json!({"type": "Punctuation", "behavior": "Isolated"}),
        json!({"type": "Whitespace"}),
        json!({"type": "WhitespaceSplit"}),
    ];
    for scheme in ["always", "first", "never"] {
        all.push(json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme != "never"}));
    }
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"] {
        for (pattern, invert) in [(json!({"String": "a"}), false), (json!({"Regex": r"\s+(?!\S)|b+"}), true)] {
            all.push(json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}));
        }
    }
    let pattern = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    all.push(json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}));
    all
}

/// A token that takes the spaces after it does not hide a token of spaces.
#[test]
fn spaces_that_a_token_takes_can_be_tokens() {
    let mut file = file(&Value::Null, &Value::Null, &models()[0], [false, false, true, false]);
    file["added_tokens"].as_array_mut().unwrap().push(added(18, "  ", [false; 4]));
    for text in ["<a>  a", "<a>   a", "<a>    a", "  <a>  <a> a", "<a>\t  a"] {
        assert_eq!(ours(&file, text), theirs(&file, text), "{text:?}");
    }
    assert_eq!(ours(&file, "<a>  a"), [16, 18, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn all_parts_encode_alike(
        text in "(<a>|B|[ab1é \n'.!ÉﬁＡ翼\u{301}\t]){0,14}",
        normalizer in prop::sample::select(normalizers()),
        pre_tokenizer in prop::sample::select(pre_tokenizers()),
        model in prop::sample::select(models().to_vec()),
        // Spaces on both sides make the other crate panic.
        flags in prop::sample::select(vec![[false; 4], [true, false, false, false], [false, true, false, false], [false, false, true, false], [false, false, false, true]]),
    ) {
        let file = file(&normalizer, &pre_tokenizer, &model, flags);
        prop_assert_eq!(ours(&file, &text), theirs(&file, &text), "{}", file);
    }
}
