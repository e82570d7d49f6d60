//! `pteron tune` on any adapter: the fastest choice is random in software, but file and table agree.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Run, Scratch, quiet, root};

const TINY: &str = "fixtures/llama/tiny_4w/program.pte";

/// Runs the command on the tiny model, with a cache folder of this test's own.
fn pteron(cache: &Path, args: &str) -> Run {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    let command = command.args(args.split(' ')).args(["--model", TINY]).current_dir(root()).env("XDG_CACHE_HOME", cache);
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Run { code: output.status.code(), out, err }
}

fn json(run: &Run) -> Value {
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn a_stored_tuning_is_used_until_it_is_removed() {
    let scratch = Scratch::new("tune");
    let cache = scratch.0.join("cache");
    let file = cache.join("pteron").join("tuning.json");
    let report = json(&pteron(&cache, "tune --repeat 1 --json"));
    let trials = report["trials"].as_array().unwrap();
    let names: Vec<&str> = trials.iter().filter_map(|trial| trial["knob"].as_str()).collect();
    assert!(names.ends_with(&["split-KV 25 %", "split-KV 400 %"]) && names.contains(&"fill 25 %"), "{names:?}");
    let ratios = |line: &Value| ["prefill", "decode"].map(|field| line[field].as_f64().unwrap());
    for line in trials {
        let [prefill, decode] = ratios(line);
        let wins = (prefill * decode).sqrt() >= 1.03 && prefill.min(decode) >= 0.97;
        assert!(prefill > 0.0 && decode > 0.0 && (wins || line["taken"] == false), "{line}");
    }
    let together = report["together"].as_array().unwrap();
    let taken = trials.iter().any(|trial| trial["taken"] == true);
    assert_eq!(!together.is_empty(), taken, "{report}");
    let remembered = together.iter().any(|line| line["taken"] == true);
    let loses = together.iter().any(|line| ratios(line).iter().any(|&ratio| ratio < 0.97));
    assert!(!(remembered && loses), "{report}");
    assert_eq!((report["remembered"].is_object(), file.exists()), (remembered, remembered), "{report}");
    described(&report);

    // Whichever choice won, write another tuning for the same adapter and class.
    let mut entry = serde_json::json!({ "subgroups": false, "cooperative_matrix": true, "fill_percent": 400 });
    for field in ["adapter", "driver", "backend", "shape_class"] {
        entry[field] = report[field].clone();
    }
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, serde_json::json!({ "tuning_version": 2, "entries": [entry] }).to_string()).unwrap();
    let bench = "bench --pp 8 --tg 4 --depth 0 --repeat 1 --check --json";
    let tuned = json(&pteron(&cache, bench));
    assert_eq!(tuned["tuning"], "no subgroups, fill 400 %");
    assert!(tuned["checks"][0]["agreed"].as_u64() > Some(506), "{}", tuned["checks"]);

    let forgotten = json(&pteron(&cache, "tune --forget --json"));
    assert_eq!((&forgotten["forgotten"], &forgotten["shape_class"]), (&Value::Bool(true), &report["shape_class"]));
    described(&forgotten);
    assert_eq!(json(&pteron(&cache, bench))["tuning"], Value::Null);
    assert_eq!(json(&pteron(&cache, "tune --forget --json"))["forgotten"], false);
}

#[test]
fn a_damaged_tuning_file_is_ignored_with_a_warning() {
    let scratch = Scratch::new("untuned");
    let cache = scratch.0.join("cache");
    let file = cache.join("pteron").join("tuning.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "feathers").unwrap();
    let run = pteron(&cache, "tune --forget");
    assert_eq!(run.code, Some(0));
    assert!(run.err.contains("tuning.json: it is damaged, so no tuning is used"), "{}", run.err);
    assert!(run.out.starts_with("There was no tuning for "), "{}", run.out);
    assert_eq!(std::fs::read(&file).unwrap(), b"feathers", "nothing changes, nothing is written");
}

/// A file that an older or a newer release wrote: one line, and the command does its work without it.
#[test]
fn a_tuning_file_of_another_version_is_ignored_with_one_line() {
    let scratch = Scratch::new("tuning-version");
    let cache = scratch.0.join("cache");
    let file = cache.join("pteron").join("tuning.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let older = serde_json::json!({ "tuning_version": 1, "entries": [{ "subgroups": true, "matrices": false, "fill_percent": 100 }] });
    let newer = serde_json::json!({ "tuning_version": 99, "devices": {} });
    for (content, version) in [(older.to_string(), 1), (newer.to_string(), 99)] {
        std::fs::write(&file, &content).unwrap();
        let run = pteron(&cache, "bench --pp 4 --tg 0 --repeat 1 --adapter vulkan");
        assert_eq!((run.code, run.err.lines().count()), (Some(0), 1), "{}", run.err);
        let text = format!("tuning.json: it has format version {version}, this build reads 2, so no tuning is used");
        assert!(run.err.starts_with("warning: ") && run.err.contains(&text), "{}", run.err);
        assert!(run.out.contains("| pp 4 ") && !run.out.contains("tuned:"), "{}", run.out);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content, "reading changes nothing");
    }
}

/// README.md names every field of the JSON object.
fn described(value: &Value) {
    let readme = std::fs::read_to_string(root().join("crates/pteron-cli/README.md")).unwrap();
    for field in value.as_object().unwrap().keys() {
        assert!(readme.contains(&format!("`{field}`")), "{field} is not in README.md");
    }
}
