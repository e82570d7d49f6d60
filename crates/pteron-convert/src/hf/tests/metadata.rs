//! Tests of BOS and EOS tokens and of sidecar files.

use serde_json::{Value, json};

use super::super::HuggingFace;
use super::{Model, read_error};
use crate::source::{CheckpointMetadata, Source};
use crate::testing::Temporary;

fn folder(config: &[(&str, Value)], files: &[(&str, Value)]) -> Temporary {
    let model = config.iter().fold(Model::new("LlamaForCausalLM"), |model, (field, value)| model.set(field, value.clone()));
    let folder = model.folder();
    files.iter().for_each(|(name, content)| folder.write(name, content.to_string()));
    folder
}

fn metadata(config: &[(&str, Value)], files: &[(&str, Value)]) -> CheckpointMetadata {
    HuggingFace::open(folder(config, files).path()).unwrap().metadata()
}

#[test]
fn ends_come_from_the_generation_if_it_names_any() {
    assert_eq!(metadata(&[], &[]).eos_tokens, [2]);
    assert_eq!(metadata(&[("eos_token_id", json!([4, 5, 4]))], &[]).eos_tokens, [4, 5]);
    let generation = |value| [("generation_config.json", json!({"eos_token_id": value}))];
    assert_eq!(metadata(&[], &generation(json!([7, 8, 9]))).eos_tokens, [7, 8, 9]);
    assert_eq!(metadata(&[], &generation(json!(6))).eos_tokens, [6]);
    assert_eq!(metadata(&[], &generation(Value::Null)).eos_tokens, [2]);
    assert_eq!(metadata(&[], &[("generation_config.json", json!({}))]).eos_tokens, [2]);
    assert_eq!(metadata(&[("eos_token_id", Value::Null)], &[]).eos_tokens, [0_u32; 0]);
}

#[test]
fn silence_means_the_tokens_of_the_class() {
    for (class, begin, ends) in [("LlamaForCausalLM", Some(1), vec![2]), ("Qwen2ForCausalLM", None, vec![])] {
        let mut model = Model::new(class);
        let config = model.config.as_object_mut().unwrap();
        config.remove("bos_token_id");
        config.remove("eos_token_id");
        assert_eq!(model.open().metadata(), CheckpointMetadata { bos_token: begin, eos_tokens: ends, sidecars: Vec::new() });
    }
}

#[test]
fn tokens_beyond_the_vocabulary_are_named() {
    let text = read_error(&folder(&[("eos_token_id", json!([2, 10]))], &[]));
    assert_eq!(text, "config.json: eos_token_id = 10 should be smaller than vocab_size = 10");
    let text = read_error(&folder(&[], &[("generation_config.json", json!({"bos_token_id": 11}))]));
    assert_eq!(text, "generation_config.json: bos_token_id = 11 should be smaller than vocab_size = 10");
    let text = read_error(&folder(&[("eos_token_id", json!("</s>"))], &[]));
    assert_eq!(text, "config.json: eos_token_id = \"</s>\" should be a token id or a list of them");
}

#[test]
fn texts_begin_with_a_token_where_the_tokenizer_puts_it() {
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    });
    let begin = |files: &[(&str, Value)]| metadata(&[], files).bos_token;
    let tokenizer = |processor: &Value| ("tokenizer.json", json!({"model": {"vocab": {}}, "post_processor": processor}));
    let says = |config: Value| ("tokenizer_config.json", config);
    assert_eq!(begin(&[]), Some(1));
    assert_eq!(begin(&[tokenizer(&template)]), Some(1));
    let sequence = json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]});
    assert_eq!(begin(&[tokenizer(&sequence)]), Some(1));
    assert_eq!(begin(&[tokenizer(&json!({"type": "ByteLevel"}))]), None);
    assert_eq!(begin(&[tokenizer(&Value::Null)]), None);
    assert_eq!(begin(&[tokenizer(&template), says(json!({"add_bos_token": false}))]), None);
    assert_eq!(begin(&[tokenizer(&Value::Null), says(json!({"add_bos_token": true, "bos_token": "<s>"}))]), Some(1));
    assert_eq!(begin(&[tokenizer(&template), says(json!({"bos_token": null}))]), None);
    assert_eq!(metadata(&[("bos_token_id", Value::Null)], &[tokenizer(&template)]).bos_token, None);
    // Another token than the one that the configuration means.
    assert_eq!(metadata(&[("bos_token_id", json!(3))], &[tokenizer(&template)]).bos_token, None);
}

#[test]
fn files_for_the_tokenizer_and_the_template_go_along() {
    let model = Model::new("LlamaForCausalLM");
    let folder = model.folder();
    let names = || {
        let sidecars = HuggingFace::open(folder.path()).unwrap().metadata().sidecars;
        sidecars.into_iter().map(|sidecar| (sidecar.name, sidecar.bytes)).collect::<Vec<_>>()
    };
    let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    assert_eq!(names(), []);
    folder.write("tokenizer.model", b"\x0a\x01pieces");
    assert_eq!(names(), [file("tokenizer.model", b"\x0a\x01pieces")]);
    folder.write("tokenizer.json", "{}");
    folder.write("chat_template.jinja", "{{ messages }}");
    folder.write("tokenizer_config.json", "{}");
    folder.write("README.md", "not needed");
    let expected = [
        file("tokenizer.json", b"{}"),
        file("tokenizer_config.json", b"{}"),
        file("chat_template.jinja", b"{{ messages }}"),
    ];
    assert_eq!(names(), expected);
}

#[test]
fn damaged_files_are_named() {
    for (name, content, start) in [
        ("tokenizer.json", "{", "it is not JSON: "),
        ("tokenizer_config.json", "[]", "it is not a JSON object"),
        ("generation_config.json", "", "it is not JSON: "),
        ("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is a Git LFS pointer, "),
    ] {
        let folder = Model::new("LlamaForCausalLM").folder();
        folder.write(name, content);
        let text = read_error(&folder);
        assert!(text.starts_with(&format!("{name}: {start}")), "{text}");
    }
}
