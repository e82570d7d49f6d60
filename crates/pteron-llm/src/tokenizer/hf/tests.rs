use serde_json::{Value, json};

use super::*;

fn small() -> Value {
    json!({
        "version": "1.0", "truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": null, "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "added_tokens": [{"id": 5, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}, "merges": [["a", "b"], ["ab", "c"]]},
    })
}

fn read(file: &Value) -> Result<HuggingFace, TokenizerError> {
    HuggingFace::read(file.to_string().as_bytes())
}

/// The file with one value changed.
fn with(path: &str, value: Value) -> Value {
    let mut file = small();
    match file.pointer_mut(path) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = path.rsplit_once('/').unwrap();
            file.pointer_mut(parent).unwrap()[name] = value;
        }
    }
    file
}

fn error(path: &str, value: Value) -> String {
    read(&with(path, value)).unwrap_err().to_string()
}

#[test]
fn texts_are_not_cut_short_by_settings_for_training() {
    let tokenizer = read(&small()).unwrap();
    assert_eq!(tokenizer.encode("abc ab<end>c", ParseSpecial::Yes).unwrap(), [4, 2, 5, 3]);
    assert_eq!(tokenizer.vocab_size(), 6);
    assert_eq!((tokenizer.is_special(5), tokenizer.is_special(4), tokenizer.bos()), (true, false, None));
}

#[test]
fn without_a_decoder_tokens_are_words() {
    let tokenizer = read(&small()).unwrap();
    let (mut detokenizer, mut out) = (tokenizer.detokenizer(), String::new());
    [4, 5, 77, 2].into_iter().for_each(|id| tokenizer.push_token(id, ShowSpecial::No, &mut detokenizer, &mut out));
    detokenizer.finish(&mut out);
    assert_eq!(out, "abc ab");
}

#[test]
fn all_kinds_of_models_that_language_models_have() {
    let mut untyped = small();
    untyped["model"].as_object_mut().unwrap().remove("type");
    untyped["model"]["merges"] = json!(["a b", "ab c"]);
    assert_eq!(read(&untyped).unwrap().encode("abc", ParseSpecial::No).unwrap(), [4]);
    let words = json!({"type": "WordLevel", "vocab": {"ab": 0, "?": 1}, "unk_token": "?"});
    let mut file = with("/model", words);
    file["added_tokens"] = json!([]);
    assert_eq!(read(&file).unwrap().encode("ab cd", ParseSpecial::No).unwrap(), [0, 1]);
    file["model"] = json!({"type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["a", -1.0], ["b", -1.0], ["ab", -1.5]]});
    assert_eq!(read(&file).unwrap().encode("abaz", ParseSpecial::No).unwrap(), [3, 1, 0]);
    file["model"]["unk_id"] = Value::Null;
    let unknown = read(&file).unwrap().encode("z", ParseSpecial::No).unwrap_err().to_string();
    assert!(unknown.starts_with("the text cannot be encoded: "), "{unknown}");
}

#[test]
fn broken_files_are_one_sentence_that_says_what() {
    assert!(error("/version", json!("2.0")).contains("its version is \"2.0\""));
    assert!(error("/model/type", json!("WordPiece")).contains("those that work are BPE, Unigram and WordLevel"));
    assert!(error("/model/merges", json!([["a", "x"]])).contains("merge 0 (\"a\" and \"x\")"));
    // Longer than every token: the crate would write beyond its buffer and panic.
    assert!(error("/model/merges", json!([["abc", "abc"]])).contains("has a part or a result that is no token"));
    assert!(error("/model/merges", json!(["a b c"])).contains("merge 0 does not have two parts"));
    // The crate would cut characters in two.
    assert!(error("/model/continuing_subword_prefix", json!("é")).contains("continuing_subword_prefix"));
    assert!(error("/model/unk_token", json!("x")).contains("unknown token \"x\" is no token"));
    assert!(error("/model/vocab", json!({"a": 1, "b": 1})).contains("two tokens have the id 1"));
    assert!(error("/model/vocab", json!({"a": u32::MAX})).contains("larger than"));
    assert!(error("/model/vocab", json!({"a": -1})).contains("tokenizer.json: "));
    assert!(error("/model/vocab", json!([["a", 0.5]])).contains("no table of tokens with ids"));
    assert!(
        error("/added_tokens/0/id", json!(9)).contains("\"<end>\" has the id 9, but by its place in the file that is 5")
    );
    assert!(error("/decoder", json!({"type": "WordPiece"})).contains("its decoder"));
    assert!(
        error("/pre_tokenizer", json!({"type": "FixedLength"})).contains("its pre-tokenizer is of type \"FixedLength\"")
    );
    assert!(read(&json!({})).unwrap_err().to_string().contains("missing field `model`"));
    let long = json!({"type": "Unigram", "unk_id": 0, "vocab": [["x".repeat(5000), 0.0]]});
    assert!(error("/model", long).contains("more than 4096 bytes"));
    let twice = json!({"type": "Unigram", "unk_id": 0, "vocab": [["x", 0.0], ["x", 0.0]]});
    assert!(error("/model", twice).contains("there twice"));
    let outside = json!({"type": "Unigram", "unk_id": 7, "vocab": [["x", 0.0]]});
    assert!(error("/model", outside).contains("unk_id"));
}

/// Inputs on which the `tokenizers` crate panics.
#[test]
fn inputs_that_crash_other_libraries_are_encoded_or_rejected() {
    let encode = |file: &Value, text: &str| read(file).unwrap().encode(text, ParseSpecial::Yes);
    // Nothing is put in front.
    let file = with("/normalizer", json!({"type": "Prepend", "prepend": ""}));
    assert_eq!(encode(&file, "abc").unwrap(), [4]);
    // A token that is nothing once it is rewritten is never found.
    let mut file = with("/normalizer", json!({"type": "Strip", "strip_left": true, "strip_right": true}));
    file["added_tokens"] = json!([{"id": 5, "content": "  ", "single_word": false, "lstrip": false, "rstrip": false,
                                   "normalized": true, "special": false}]);
    assert_eq!(encode(&file, "a   b").unwrap(), [0, 1]);
    // Two tokens want the same spaces; both are found, and the first has the spaces.
    let mut file = small();
    file["added_tokens"] = json!([
        {"id": 5, "content": "<x>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true},
        {"id": 6, "content": " <y>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true}]);
    assert_eq!(encode(&file, "a <x>  <y> <x> b").unwrap(), [0, 5, 6, 5, 1]);
    assert_eq!(encode(&file, "a  <y> <y>b").unwrap(), [0, 6, 6, 1]);
}

#[test]
fn normalizers_that_double_the_text_are_rejected() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let bytes = json!({"type": "ByteLevel"});
    let prepend = json!({"type": "Prepend", "prepend": "é".repeat(2000)});
    for step in [double, bytes, prepend] {
        let file = with("/normalizer", json!({"type": "Sequence", "normalizers": vec![step; 40]}));
        let tokenizer = read(&file).unwrap();
        let error = tokenizer.encode(&"aé".repeat(5000), ParseSpecial::No).unwrap_err();
        assert!(matches!(error, TokenizerError::Growth { .. }), "{error}");
    }
    let step = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false, "trim_offsets": true});
    let file = with("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": vec![step.clone(); 40]}));
    let error = read(&file).unwrap().encode(&"é".repeat(5000), ParseSpecial::No).unwrap_err();
    assert!(matches!(error, TokenizerError::Growth { .. }), "{error}");
    let file = with("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": vec![step; 65]}));
    assert!(read(&file).unwrap_err().to_string().contains("65 steps"));
    // Added tokens are rewritten when the file is read.
    let mut file =
        with("/normalizer", json!({"type": "Replace", "pattern": {"String": "x"}, "content": "y".repeat(1 << 20)}));
    file["added_tokens"] = json!([{"id": 5, "content": "xxxx", "single_word": false, "lstrip": false, "rstrip": false,
                                   "normalized": true, "special": false}]);
    assert!(read(&file).unwrap_err().to_string().contains("added tokens too long"));
}

#[test]
fn patterns_that_hang_are_stopped() {
    for pattern in ["(?:a|a)*(?!a)b", "(?:a+)+b", r"(?=(a+)+b)a"] {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let tokenizer = read(&with("/pre_tokenizer", split)).unwrap();
        let error = tokenizer.encode(&"a".repeat(50_000), ParseSpecial::No).unwrap_err();
        assert!(matches!(error, TokenizerError::Steps { .. }), "{error}");
    }
    let split = json!({"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Isolated", "invert": false});
    assert!(error("/pre_tokenizer", split).contains("its pre-tokenizer: a pattern cannot be read"));
}

#[test]
fn long_words_merge_in_n_log_n() {
    let text = "ab".repeat(50_000);
    let tokenizer = read(&with("/pre_tokenizer", Value::Null)).unwrap();
    assert_eq!(tokenizer.encode(&text, ParseSpecial::No).unwrap().len(), 50_000);
    let error = tokenizer.encode(&"a".repeat((16 << 20) + 1), ParseSpecial::No).unwrap_err();
    assert!(matches!(error, TokenizerError::TextTooLong { .. }), "{error}");
    // Tokens with a long common start: each place of a text would be compared with all of it.
    let vocab: Vec<Value> = (1..=2000).map(|len| json!(["a".repeat(len), -1.0])).collect();
    let file = with("/model", json!({"type": "Unigram", "unk_id": 0, "vocab": vocab}));
    let mut file = file;
    file["added_tokens"] = json!([]);
    let error = read(&file).unwrap().encode(&"a".repeat(50_000), ParseSpecial::No).unwrap_err();
    assert!(matches!(error, TokenizerError::Steps { .. }), "{error}");
}

#[test]
fn post_processor_tokens_are_limited() {
    let token = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let mut single = vec![token; 100];
    single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
    let processor = json!({"type": "TemplateProcessing", "single": single,
                           "special_tokens": {"<s>": {"id": "<s>", "ids": vec![1; 100], "tokens": ["<s>"]}}});
    assert!(error("/post_processor", processor).contains("more than 1024 tokens around a text"));
}
