//! The report, as text and as JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Scratch, programs, pteron, read, root};

const LLAMA: &str = "fixtures/llama/tiny_4w/program.pte";

fn json(path: &str) -> Value {
    let run = pteron(["inspect", path, "--json"]);
    assert_eq!(run.code, Some(0), "{path}: {}", run.err);
    assert_eq!(run.out.lines().count(), 1, "{path}: one object, one line");
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn every_fixture_is_good() {
    let mut bad = Vec::new();
    for path in programs() {
        let run = pteron(["inspect", &path, "--verify", "--deep"]);
        assert_eq!(run.out, "", "{path}: --verify prints nothing");
        bad.extend((run.code != Some(0)).then_some(run.err));
    }
    assert!(bad.is_empty(), "{}", bad.concat());
}

/// Numbers in the text equal those in the JSON.
#[test]
fn text_and_json_say_the_same() {
    for path in programs() {
        let (report, run) = (json(&path), pteron(["inspect", &path]));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{path}");
        assert_eq!(report["bytes"].as_u64().unwrap(), read(&path).len() as u64, "{path}");
        assert!(!run.out.contains('\u{1b}'), "{path}: no colours in a pipe");
        assert!(run.out.lines().all(|line| line == line.trim_end()), "{path}: no blanks at the end of a line");
        let rows = rows(&run.out);
        for delegate in report["delegates"].as_array().unwrap() {
            let operators = delegate["graph"]["operators"].as_array().unwrap();
            let calls: u64 = operators.iter().map(|operator| operator["count"].as_u64().unwrap()).sum();
            assert_eq!(delegate["graph"]["calls"].as_u64(), Some(calls), "{path}");
            expect_counts(&path, &rows, operators);
        }
        for method in report["methods"].as_array().unwrap() {
            expect_counts(&path, &rows, method["kernels"].as_array().unwrap());
        }
        expect_memory(&path, &rows, &report);
    }
}

/// The text's lines as words.
fn rows(text: &str) -> BTreeSet<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn expect_counts(path: &str, rows: &BTreeSet<String>, operators: &[Value]) {
    for operator in operators {
        let row = format!("{} {}", operator["count"], operator["name"].as_str().unwrap());
        assert!(rows.contains(&row), "{path}: {row} is not in the text");
    }
}

fn expect_memory(path: &str, rows: &BTreeSet<String>, report: &Value) {
    let memory = &report["memory"];
    let field = |name: &str| memory[name].as_u64().unwrap();
    for (label, name) in [
        ("constants", "constants_bytes"),
        ("caches", "state_bytes"),
        ("activations", "activations_bytes"),
        ("host", "host_bytes"),
        ("unshared", "activations_unshared_bytes"),
    ] {
        let start = format!("{label} {} ", human(field(name)));
        assert!(rows.iter().any(|row| row.starts_with(&start)), "{path}: no row {start}");
    }
    assert!(rows.contains(&format!("total {}", human(field("total_bytes")))), "{path}");
    let parts = ["constants_bytes", "state_bytes", "activations_bytes", "host_bytes"].map(field);
    assert_eq!(parts.iter().sum::<u64>(), field("total_bytes"), "{path}");
    assert!(field("activations_bytes") <= field("activations_unshared_bytes"), "{path}: sharing never needs more");
    assert_eq!(field("constants_bytes"), report["constants"]["unique_bytes"].as_u64().unwrap(), "{path}");
    assert!(field("constants_bytes") <= report["constants"]["bytes"].as_u64().unwrap(), "{path}");
}

fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_524 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[test]
fn the_report_of_a_language_model_is_complete() {
    let report = json(LLAMA);
    let input = &report["methods"][0]["inputs"][0];
    assert_eq!((&input["dtype"], &input["dynamism"]), (&"int64".into(), &"bound".into()));
    let constant = |name: &str| {
        let methods = report["constant_methods"].as_array().unwrap();
        methods.iter().find(|method| method["name"] == name).map(|method| method["value"].clone()).unwrap()
    };
    assert_eq!(constant("use_kv_cache"), Value::Bool(true));
    assert!(constant("get_eos_ids").is_array());
    let caches = &report["caches"][0];
    assert_eq!(caches["kind"], "kv_cache");
    assert_eq!(caches["count"].as_u64().unwrap(), 2 * constant("get_n_layers").as_u64().unwrap(), "keys and values");
    assert_eq!(caches["shape"][1], constant("get_max_context_len"));
    assert_eq!(report["delegates"][0]["options"][0]["key"], "require_dynamic_shapes");
    assert_eq!(report["support"]["unsupported"], Value::Array(Vec::new()), "the model of the fixtures runs");
}

/// A program with an unknown operator.
#[test]
fn operators_that_cannot_run_are_named() {
    let scratch = Scratch::new("unsupported");
    let mut bytes = read("fixtures/ops/linear_bias/program.pte");
    let name = b"aten.linear.default";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at..at + name.len()].copy_from_slice(b"aten.linear.strange");
    let path = scratch.file("strange.pte", &bytes);
    assert_eq!(json(&path)["support"]["unsupported"], serde_json::json!(["aten.linear.strange"]));
    let text = pteron(["inspect", &path]).out;
    assert!(text.contains("this build cannot run: aten.linear.strange (1×)\n"), "{text}");
}

#[test]
fn several_files_give_several_reports() {
    let files: Vec<_> = programs().into_iter().filter(|path| path.contains("add_")).take(3).collect();
    let run = pteron(["inspect", "--json"].into_iter().chain(files.iter().map(String::as_str)));
    let named: Vec<String> = run
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["file"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(named, files);
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let run = pteron(["inspect", "missing.pte", LLAMA]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.err, "error: missing.pte: there is no such file\n");
    assert!(run.out.starts_with(LLAMA), "{}", run.out);
}

#[test]
fn external_data_is_named_and_checked() {
    let path = "fixtures/ops/constants_external/program.pte";
    let report = json(path);
    assert!(!report["external"]["needed"].as_array().unwrap().is_empty());
    assert_eq!(report["external"]["verified"], false);
    let data: Vec<String> = external_data().into_iter().flat_map(|file| ["--data".to_owned(), file]).collect();
    let run = pteron(["inspect", path, "--json"].into_iter().chain(data.iter().map(String::as_str)));
    let report: Value = serde_json::from_str(&run.out).expect(&run.err);
    assert_eq!(report["external"]["verified"], true);
    let run = pteron(["inspect", path, "--verify", "--deep"].into_iter().chain(data.iter().map(String::as_str)));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

/// The data files that belong to the fixture with external constants.
pub(super) fn external_data() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("fixtures/ops/constants_external")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ptd")).collect();
    assert!(!files.is_empty());
    files.sort();
    files.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_language_model_looks_like_this() {
    insta::assert_snapshot!(pteron(["inspect", LLAMA]).out);
}

#[test]
fn a_program_with_constant_methods_looks_like_this() {
    insta::assert_snapshot!(pteron(["inspect", "fixtures/ops/constant_methods/program.pte"]).out);
}

#[test]
fn a_program_with_external_constants_looks_like_this() {
    insta::assert_snapshot!(pteron(["inspect", "fixtures/ops/constants_external/program.pte"]).out);
}

#[test]
fn the_readme_names_every_field() {
    let readme = std::fs::read_to_string(root().join("crates/pteron-cli/README.md")).unwrap();
    let mut names = BTreeSet::new();
    for path in
        programs().iter().step_by(7).map(String::as_str).chain([LLAMA, "fixtures/ops/constants_external/program.pte"])
    {
        collect_names(&json(path), &mut names);
    }
    let missing: Vec<_> = names.iter().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in README.md: {missing:?}");
}

fn collect_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                collect_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn an_xnnpack_delegate_shows_its_nodes_types_and_scales() {
    let path = "fixtures/xnnpack/xnnpack_8da4w_linear/program.pte";
    let report = json(path);
    let delegate = &report["delegates"][0];
    assert_eq!(delegate["backend"], "XnnpackBackend");
    assert_eq!((&delegate["graph"]["inputs"], &delegate["graph"]["outputs"]), (&1.into(), &1.into()));
    let quantization = delegate["xnnpack"]["quantization"].as_array().unwrap();
    let kinds: BTreeSet<_> = quantization.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["per group", "per token"].into());
    assert!(delegate["xnnpack"]["constants_bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["support"]["unsupported"].as_array().unwrap().len(), 0, "node kinds are no operators of a delegate");
    let run = pteron(["inspect", path]);
    let rows = rows(&run.out);
    assert!(rows.iter().any(|row| row.starts_with("types ") && row.contains("qbint4")), "{}", run.out);
    assert!(rows.iter().any(|row| row.starts_with("quantised ") && row.contains("per group")), "{}", run.out);
}
