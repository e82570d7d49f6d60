//! `pteron convert`: checkpoints become programs that run, with their tokenizers.

use std::path::PathBuf;

use pteron_llm::{ParseSpecial, Tokenizer};
use serde_json::Value;

use crate::{Scratch, pteron, root};

/// Every checkpoint below `fixtures/convert` that has texts with their tokens: its path, and what is said of it.
fn checkpoints() -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut open = vec![root().join("fixtures/convert")];
    while let Some(folder) = open.pop() {
        let manifest =
            ["manifest.json", "expected.json"].map(|name| folder.join(name)).into_iter().find(|path| path.is_file());
        if let Some(manifest) = manifest {
            let said: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
            if said.get("texts").is_some() {
                found.push((folder.join(said["checkpoint"].as_str().unwrap()), said));
            }
            continue;
        }
        open.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    }
    assert!(found.len() >= 4, "fixtures/convert has checkpoints with tokenizers");
    found
}

#[test]
fn tokenizers_are_written_to_the_programs_folder() {
    for (checkpoint, said) in checkpoints() {
        let scratch = Scratch::new("convert-tokenizer");
        let (source, out) = (checkpoint.to_string_lossy().into_owned(), scratch.0.join("model.pte"));
        let run = pteron(["convert", &source, "-o", &out.to_string_lossy(), "--context", "64", "--json"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{source}");
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert!(report["beside"].as_array().unwrap().iter().any(|name| name == "tokenizer.json"), "{source}: {report}");
        let tokenizer = Tokenizer::open(scratch.0.join("tokenizer.json")).unwrap();
        for text in said["texts"].as_array().unwrap() {
            let ids: Vec<u64> = tokenizer
                .encode(text["text"].as_str().unwrap(), ParseSpecial::Yes)
                .unwrap()
                .iter()
                .map(|&id| id.into())
                .collect();
            let expected: Vec<u64> = text["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            assert_eq!(ids, expected, "{source}: {}", text["text"]);
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_and_reads_like_an_export() {
    let scratch = Scratch::new("convert-same");
    let [a, b] = ["a", "b"].map(|name| {
        let folder = scratch.0.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("model.pte").to_string_lossy().into_owned()
    });
    for out in [&a, &b] {
        let run = pteron(["convert", "fixtures/convert/llama3_tied/checkpoint", "-o", out, "--context", "128"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.err.starts_with("wrote ") && run.err.contains("% quantisation error"), "{}", run.err);
    }
    assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(), "the same bytes");
    assert_eq!(pteron(["inspect", "--verify", "--deep", &a]).code, Some(0));
    let shown = |path: &str| -> Vec<String> {
        let operators = pteron(["inspect", path]).out;
        let from = operators.lines().skip_while(|line| !line.contains("operators")).take_while(|line| !line.is_empty());
        from.map(str::to_owned).collect()
    };
    assert_eq!(shown(&a), shown("fixtures/convert/llama3_tied/program.pte"), "the same operators, as often");
}

#[test]
fn a_report_names_every_tensor() {
    let scratch = Scratch::new("convert-report");
    let out = scratch.0.join("model.pte").to_string_lossy().into_owned();
    let run = pteron(["convert", "fixtures/convert/gguf/llama/model.gguf", "-o", &out, "--context", "64", "--report"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.lines().any(|line| line.contains("4 bits, groups of 32") && line.ends_with("lossless")), "{}", run.out);
    assert!(run.out.contains("all quantised weights: 0.000 % error"), "{}", run.out);
    assert!(run.err.contains("lossless"), "{}", run.err);
}

/// The logits of a few tokens.
fn logits(program: &str) -> Vec<f32> {
    let gpu = pteron::block_on(pteron::Gpu::open(&pteron::GpuOptions::default())).unwrap();
    let program = pteron::Program::open(program).unwrap();
    let method = pteron::block_on(program.load(&gpu, "forward", &pteron::LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let tokens = pteron::Tensor::from_i64(&[1, 5], &[1, 2, 3, 4, 95]).unwrap();
    let position = pteron::Tensor::from_i64(&[1], &[0]).unwrap();
    pteron::block_on(method.call(&mut state, &[tokens, position])).unwrap()[0].to_f32().unwrap()
}

fn largest(numbers: impl IntoIterator<Item = f32>) -> f32 {
    numbers.into_iter().fold(0.0, |most, number| most.max(number.abs()))
}

#[test]
fn synthetic_weights_run() {
    let scratch = Scratch::new("convert-synthetic");
    let out = scratch.0.join("model.pte").to_string_lossy().into_owned();
    let shape = "layers=2,width=64,heads=4,kv=2,hidden=128,vocab=96,head=16";
    let run = pteron(["convert", "--synthetic", shape, "-o", &out, "--context", "32"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let logits = logits(&out);
    assert_eq!(logits.len(), 96);
    assert!(logits.iter().all(|logit| logit.is_finite()) && (0.1..100.0).contains(&largest(logits.iter().copied())));
}

#[test]
fn f16_weights_give_nearly_the_same_logits() {
    let scratch = Scratch::new("convert-half");
    let [single, half] = ["single.pte", "half.pte"].map(|name| scratch.0.join(name).to_string_lossy().into_owned());
    let common = ["convert", "fixtures/convert/qwen3/checkpoint", "--context", "64", "-q", "-o"];
    // `--half` is the name of `--f16` before 0.2, hidden and kept for one release.
    let old = scratch.0.join("old.pte").to_string_lossy().into_owned();
    for args in [&[single.as_str()][..], &[half.as_str(), "--f16"], &[old.as_str(), "--half"]] {
        let run = pteron([&common, args].concat());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    }
    assert!(std::fs::read(&half).unwrap() == std::fs::read(&old).unwrap(), "the old flag does the same");
    assert!(std::fs::metadata(&half).unwrap().len() < std::fs::metadata(&single).unwrap().len());
    let (single, half) = (logits(&single), logits(&half));
    let apart = largest(single.iter().zip(&half).map(|(a, b)| a - b));
    assert!(apart > 0.0 && apart < 0.02 * largest(single.iter().copied()), "{apart}");
}

#[test]
fn the_programs_folder_is_made() {
    let scratch = Scratch::new("convert-folder");
    let out = scratch.0.join("new/model.pte");
    let shape = "layers=1,width=64,heads=2,hidden=128,vocab=300";
    let run = pteron(["convert", "--synthetic", shape, "-o", &out.to_string_lossy(), "--context", "64", "--quiet"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert!(out.is_file());
}

#[test]
fn a_failed_conversion_leaves_no_files() {
    let scratch = Scratch::new("convert-errors");
    let out = scratch.0.join("model.pte").to_string_lossy().into_owned();
    let refused = |args: &[&str]| {
        let run = pteron([&["convert", "-o", &out], args].concat());
        assert_eq!(run.code, Some(1), "{args:?}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1, "one sentence: {}", run.err);
        run.err
    };
    assert!(refused(&["no-such-folder"]).contains("no-such-folder"));
    assert!(refused(&["--synthetic", "llama-9"]).contains("llama-3.2-1b"), "names what there is");
    assert!(refused(&["fixtures/convert/llama3_tied/program.pte"]).contains("already"));
    let checkpoint = "fixtures/convert/llama3_tied/checkpoint";
    assert!(refused(&[checkpoint, "--group", "48"]).contains("48"));
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0, "nothing half-written");

    // Another model's tokenizer is not overwritten.
    scratch.file("tokenizer.json", b"{}");
    let error = refused(&[checkpoint, "--context", "64"]);
    assert!(error.contains("tokenizer.json") && error.contains("choose another folder for "), "{error}");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
}
