//! `pteron run` and `pteron chat` with the bundled model.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Run, pteron, quiet, root};

/// Runs the command with text on its standard input.
fn with_input(args: &[&str], input: &str) -> Run {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    let pipes = command.args(args).current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The first golden: a prompt, and the ids that PyTorch continues it with.
fn golden() -> (String, Vec<u64>) {
    let file = std::fs::read(root().join("models/demo/goldens.json")).unwrap();
    let goldens: Value = serde_json::from_slice(&file).unwrap();
    let row = &goldens["prompts"][0];
    (
        row["prompt"].as_str().unwrap().to_owned(),
        row["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect(),
    )
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn greedy_text_is_that_of_pytorch() {
    let (prompt, ids) = golden();
    let report = json(&pteron(["run", &prompt, "-t", "0", "-n", "12", "--json"]));
    let tokens: Vec<u64> = report["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(tokens, ids[..12]);
    assert_eq!((report["finish"].as_str(), report["speed"]["generated_tokens"].as_u64()), (Some("length"), Some(12)));
    let host = json(&pteron(["run", &prompt, "-t", "0", "-n", "12", "--json", "--host-sampling", "--logprobs", "2"]));
    assert_eq!((&host["tokens"], &host["text"]), (&report["tokens"], &report["text"]));
    assert_eq!(host["logprobs"].as_array().unwrap().len(), 12);
    // The text as people see it: the prompt, what follows, and a line on the other stream.
    let run = pteron(["run", &prompt, "-t", "0", "-n", "12"]);
    assert_eq!(run.out, format!("{prompt}{}\n", report["text"].as_str().unwrap()));
    assert!(
        run.err.contains("12 tokens, ") && run.err.contains("tok/s") && run.err.contains("of GPU memory"),
        "{}",
        run.err
    );
    assert!(!run.err.contains(['\r', '█', '\u{1b}']), "where there is no terminal there is no bar: {}", run.err);
}

#[test]
fn a_prompt_comes_from_a_pipe_or_a_file() {
    let (prompt, _) = golden();
    let args = ["-t", "0", "-n", "3", "--json"];
    let typed = json(&pteron([&["run", &prompt][..], &args].concat()));
    let piped = json(&with_input(&[&["run"][..], &args].concat(), &prompt));
    assert_eq!(piped["tokens"], typed["tokens"]);
    let file = std::env::temp_dir().join(format!("pteron-prompt-{}.txt", std::process::id()));
    std::fs::write(&file, &prompt).unwrap();
    let read = json(&pteron([&["run", "--file", file.to_str().unwrap()][..], &args].concat()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(read["tokens"], typed["tokens"]);
}

#[test]
fn a_conversation_goes_on_until_the_end_of_its_input() {
    let saved = std::env::temp_dir().join(format!("pteron-chat-{}.txt", std::process::id()));
    let lines = format!("/help\nOwnership is\n/history\n/save {}\n/reset\n/nonsense\nTraits\n/quit\n", saved.display());
    let run = with_input(&["chat", "-n", "5"], &lines);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("user: Ownership is") && run.out.contains("assistant: "), "{}", run.out);
    assert!(run.err.contains("there is no command /nonsense") && run.err.contains("\n/save FILE"), "{}", run.err);
    assert!(std::fs::read_to_string(&saved).unwrap().starts_with("user: Ownership is\n\nassistant: "));
    std::fs::remove_file(&saved).unwrap();
}

#[test]
fn errors_are_one_sentence_and_print_nothing_else() {
    let model = "fixtures/llama/tiny_4w/program.pte";
    let cases = [
        (vec!["run", "--model", "nowhere.pte", "x"], "nowhere.pte: there is no such file"),
        (vec!["run", "--model", model, "x"], "there is no tokenizer.json or tokenizer.model in its folder"),
        (
            vec!["run", "--model", model, "--tokenizer", "models/demo/tokenizer.json", "x"],
            "the tokenizer has 6144 tokens, but the program has logits for 256",
        ),
        (vec!["run", "x", "--top-p", "2"], "top_p is 2, but must be above 0 and at most 1"),
        (vec!["run", "x", "--stop", ""], "stop string 0 is empty"),
        (vec!["run", "--file", "nothing.txt"], "nothing.txt: there is no such file"),
    ];
    for (args, text) in cases {
        let run = pteron(&args);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{args:?}: {}", run.err);
        assert!(run.err.contains(text), "{args:?}: {}", run.err);
    }
    let long = "word ".repeat(2000);
    let run = pteron(["run", &long]);
    assert!(run.code == Some(1) && run.err.contains("but the context has room for 1024"), "{}", run.err);
    assert_eq!(run.out, "", "the prompt is not printed before it is accepted");
}

#[test]
fn an_empty_pipe_is_no_prompt() {
    let run = pteron(["run", "-n", "1", "-t", "0", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(report["prompt"].as_str().is_some_and(|prompt| !prompt.is_empty()), "an opening of its own: {report}");
    let run = crate::pteron(["run", "--model", "models/demo/model.pte", "-n", "1"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("there is no prompt"), "{}", run.err);
}

/// A model that does not exist shows that nothing was opened: the option is what the error names.
#[test]
fn options_are_validated_before_the_model_is_opened() {
    for command in ["run", "chat"] {
        for (options, text) in [
            (&["--top-p", "2"][..], "top_p is 2"),
            (&["--temperature", "NaN"], "temperature"),
            (&["--stop", ""], "stop string 0 is empty"),
            (&["--repetition-penalty", "0"], "repetition_penalty"),
        ] {
            let run = pteron([&[command, "--model", "nowhere.pte"][..], options].concat());
            assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{command} {options:?}");
            assert!(run.err.starts_with("error: ") && run.err.contains(text), "{command} {options:?}: {}", run.err);
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        }
    }
}
