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
    let (mut joiner, mut out) = (tokenizer.joiner(), String::new());
    [4, 5, 77, 2].into_iter().for_each(|id| tokenizer.join(id, ShowSpecial::No, &mut joiner, &mut out));
    joiner.finish(&mut out);
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
    let long = json!({"type": "Unigram", "unk_id": 0, "vocab": [["x".repeat(2000), 0.0]]});
    assert!(error("/model", long).contains("more than 1024 bytes"));
    let twice = json!({"type": "Unigram", "unk_id": 0, "vocab": [["x", 0.0], ["x", 0.0]]});
    assert!(error("/model", twice).contains("there twice"));
    let outside = json!({"type": "Unigram", "unk_id": 7, "vocab": [["x", 0.0]]});
    assert!(error("/model", outside).contains("unk_id"));
}
