//! `pteron run --file prompts.jsonl`: many prompts at once.

use serde_json::{Value, json};

use crate::{Scratch, pteron, read};

/// The first golden: a prompt, and the ids that PyTorch continues it with.
fn golden() -> (String, Vec<u64>) {
    let goldens: Value = serde_json::from_slice(&read("models/demo/goldens.json")).unwrap();
    let row = &goldens["prompts"][0];
    let ids = row["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    (row["prompt"].as_str().unwrap().to_owned(), ids)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prompts_of_a_file_get_their_texts_in_its_order() {
    let (prompt, ids) = golden();
    let scratch = Scratch::new("prompts");
    let prompts = [
        json!({"id": "first", "prompt": prompt, "max_tokens": 12}),
        json!({"tokens": [0, 999_999]}),
        json!({"prompt": "A thread", "temperature": 0.8, "seed": 3, "min_p": 0.1}),
        json!({"id": [1], "messages": [{"role": "user", "content": prompt}]}),
    ];
    let text = prompts.map(|prompt| prompt.to_string()).join("\n\n");
    let file = scratch.file("prompts.jsonl", text.as_bytes());
    let args = ["run", "--file", &file, "-t", "0", "-n", "4", "--logprobs", "1"];
    let run = pteron(args);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("4 prompts, ") && run.err.contains("1 of 4 prompts has no text"), "{}", run.err);
    assert!(!run.err.contains(['\r', '█', '\u{1b}']), "where there is no terminal there is no bar: {}", run.err);
    let results = lines(&run.out);
    let index = |result: &Value| result["index"].as_u64().unwrap();
    assert_eq!(results.iter().map(index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let tokens = |result: &Value| -> Vec<u64> { serde_json::from_value(result["tokens"].clone()).unwrap() };
    assert_eq!((tokens(&results[0]), &results[0]["finish"]), (ids[..12].to_vec(), &json!("length")));
    assert_eq!((&results[0]["id"], &results[2]["id"], &results[3]["id"]), (&json!("first"), &Value::Null, &json!([1])));
    assert_eq!(results[0]["logprobs"].as_array().unwrap().len(), 12);
    let error = results[1]["error"].as_str().unwrap();
    assert!(error.contains("token 999999 is not in the model's vocabulary"), "{error}");
    assert_eq!((tokens(&results[2]).len(), tokens(&results[3])), (4, ids[..4].to_vec()));
    // The same in a file, which is there when all are.
    let output = scratch.0.join("results.jsonl").to_string_lossy().into_owned();
    let saved = pteron(args.into_iter().chain(["--output", &output, "--quiet"]));
    assert_eq!((saved.code, saved.out.as_str()), (Some(1), ""));
    let without_cache = |results: Vec<Value>| {
        let mut results = results;
        results.iter_mut().for_each(|result| drop(result.as_object_mut().unwrap().remove("cached_tokens")));
        results
    };
    assert_eq!(without_cache(lines(&std::fs::read_to_string(&output).unwrap())), without_cache(results));
}

#[test]
fn drafts_leave_texts_as_they_are() {
    let scratch = Scratch::new("drafted-prompts");
    // A text that repeats itself, so that there is something to look up.
    let tokens: Vec<u64> = golden().1[..6].repeat(6);
    let file = scratch.file("prompts.jsonl", json!({"tokens": tokens, "max_tokens": 24}).to_string().as_bytes());
    let texts = [&[][..], &["--prompt-lookup"], &["--draft", "models/demo/model.pte"]].map(|options| {
        let run = pteron(["run", "--file", &file, "-t", "0"].into_iter().chain(options.iter().copied()));
        assert_eq!(run.code, Some(0), "{options:?}: {}", run.err);
        lines(&run.out)[0]["tokens"].clone()
    });
    assert_eq!(texts[0].as_array().unwrap().len(), 24);
    assert_eq!((&texts[1], &texts[2]), (&texts[0], &texts[0]));
}

#[test]
fn files_and_options_that_cannot_run_are_refused_before_the_model_is_loaded() {
    let scratch = Scratch::new("refused-prompts");
    let good = scratch.file("good.jsonl", b"{\"prompt\": \"a\"}\n");
    let malformed = scratch.file("malformed.jsonl", b"{\"prompt\": \"a\"}\n{\"promt\": \"b\"}\n");
    let empty = scratch.file("empty.jsonl", b"\n");
    let output = scratch.0.join("out.jsonl").to_string_lossy().into_owned();
    for (args, reason) in [
        (&["--file", &malformed, "--output", &output][..], "malformed.jsonl: line 2: unknown field `promt`"),
        (&["--file", &empty], "empty.jsonl: it has no prompts"),
        (&["--file", &good, "--endless"], "--endless does not apply to a file of prompts"),
        (&["--file", "Cargo.toml", "--output", &output], "--output writes the results of a file of prompts"),
        (&["--file", "Cargo.toml", "--prompt-lookup"], "--draft and --prompt-lookup apply to a file of prompts"),
        (&["a", "--logprobs", "1"], "--logprobs needs --json"),
    ] {
        let run = pteron(["run"].into_iter().chain(args.iter().copied()));
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{args:?}");
        assert!(run.err.contains(reason), "{args:?}: {}", run.err);
    }
    assert!(!std::path::Path::new(&output).exists());
}
