//! `pteron run --token-ids`: prompts of tokens, for models with and without a tokenizer.

use crate::{Scratch, pteron, read};

#[test]
fn tokens_are_a_prompt_with_and_without_a_tokenizer() {
    let scratch = Scratch::new("token-ids");
    let model = scratch.file("model.pte", &read("models/demo/model.pte"));
    let run = |more: &[&str]| pteron([&["run", "--model", &model, "--token-ids", "5,17,300", "-n", "6"][..], more].concat());
    let ids = run(&["-q"]);
    assert_eq!(ids.code, Some(0), "{}", ids.err);
    let printed: Vec<u32> = ids.out.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"]).out).unwrap();
    assert_eq!(json["tokens"], serde_json::json!(printed));
    assert_eq!(printed.len(), 6);
    scratch.file("tokenizer.json", &read("models/demo/tokenizer.json"));
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"]).out).unwrap();
    assert_eq!(json["tokens"], serde_json::json!(printed));
    assert_eq!(
        run(&["-q"]).out.trim_end(),
        json["text"].as_str().unwrap().trim_end(),
        "with a tokenizer, the text is printed"
    );
    let text = pteron(["run", "--model", &model, "--token-ids", "5", "text"]);
    assert_eq!(text.code, Some(2), "either tokens or a text");
}
