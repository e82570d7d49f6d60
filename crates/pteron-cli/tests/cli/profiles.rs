//! Profiles and devices.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::exec::{inputs, sequence};
use super::{Scratch, pteron, read, root};

const LLAMA: &str = "fixtures/llama/tiny_4w";

#[test]
fn a_profile_shows_every_part_of_attention() {
    let scratch = Scratch::new("profile");
    let model: Value = serde_json::from_slice(&read(&format!("{LLAMA}/manifest.json"))).unwrap();
    let calls = sequence(&model, "S64");
    let files = inputs(&scratch, LLAMA, &calls);
    let [out, trace] = ["out", "trace.json"].map(|name| scratch.0.join(name).to_string_lossy().into_owned());
    let program = format!("{LLAMA}/program.pte");
    let args = ["exec", &program, "--out", &out, "--quiet", "--profile", &trace];
    let run = pteron(args.into_iter().chain(files.iter().map(String::as_str)));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let parts = ["sdpa_append_kv", "sdpa_flash"];
    let text: Vec<Vec<&str>> = run.out.lines().map(|line| line.split_whitespace().collect()).collect();
    for part in parts {
        assert!(text.iter().any(|words| words.iter().any(|word| word.starts_with(part))), "no {part} in\n{}", run.out);
    }
    assert!(run.out.starts_with("Profile  "), "{}", run.out);
    assert!(
        text.iter().any(|words| words.first() == Some(&"GPU")) && text.iter().any(|words| words.first() == Some(&"wall"))
    );
    expect_trace(&serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap(), calls.len(), &parts);
}

/// Trace viewers need complete events with a name, a start and a duration; ours also name operator and grid.
fn expect_trace(trace: &Value, calls: usize, parts: &[&str]) {
    let events = trace["traceEvents"].as_array().unwrap();
    let complete = |category: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category).collect()
    };
    assert_eq!(complete("call").len(), calls);
    let kernels = complete("kernel");
    let mut last = 0.0;
    for event in &kernels {
        let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
        assert!(start >= last && length >= 0.0, "{event}");
        last = start;
        let args = &event["args"];
        assert_eq!(event["name"], args["kernel"]);
        assert!(args["op"].is_string() && args["grid"].as_array().is_some_and(|grid| grid.len() == 2), "{event}");
        assert!(args["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{event}");
    }
    let attention = kernels.iter().filter(|event| event["args"]["op"] == "pteron.rotary_sdpa");
    let found: BTreeSet<&str> = attention.map(|event| event["name"].as_str().unwrap()).collect();
    for part in parts {
        assert!(found.iter().any(|name| name.starts_with(part)), "no {part} in {found:?}");
    }
    let total: f64 = kernels.iter().map(|event| event["dur"].as_f64().unwrap()).sum();
    assert!(total > 0.0);
}

#[test]
fn devices_in_text_and_json() {
    let run = pteron(["devices", "--json"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "tests need an adapter");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let devices = report["devices"].as_array().unwrap();
    assert_eq!(devices.iter().filter(|device| device["used"] == true).count(), 1);
    assert_eq!(devices[0]["used"], true);
    for field in ["buffer_bytes", "binding_bytes", "workgroup_bytes", "invocations", "storage_buffers"] {
        assert!(devices[0][field].as_u64().is_some_and(|number| number > 0), "{field}: {}", devices[0]);
    }
    let text = pteron(["devices"]);
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""));
    assert!(text.out.starts_with(&format!("{}  ", devices[0]["name"].as_str().unwrap())), "{}", text.out);
    let readme = std::fs::read_to_string(root().join("crates/pteron-cli/README.md")).unwrap();
    let missing: Vec<_> =
        devices[0].as_object().unwrap().keys().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in README.md: {missing:?}");
}

/// A software adapter that was not requested gets a warning.
#[test]
fn software_is_not_taken_for_a_gpu() {
    let scratch = Scratch::new("software");
    let call = scratch.file("call.npz", &super::arrays::save(&[super::arrays::Array::floats(&[67], &[1.0; 67])]));
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let report: Value = serde_json::from_str(&pteron(["devices", "--json"]).out).unwrap();
    let (name, kind) = (report["devices"][0]["name"].as_str().unwrap(), &report["devices"][0]["kind"]);
    let run = |more: &[&str]| {
        let run = pteron(["exec", "fixtures/ops/relu/program.pte", "--in", &call, "--out", &out].iter().chain(more));
        assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{}", run.err);
        run.err
    };
    let warning = format!("warning: no GPU was found, so {name} computes in software\n");
    assert_eq!(run(&[]).starts_with(&warning), kind == "software");
    assert_eq!(run(&["--adapter", name]).lines().count(), 1, "the summary alone");
    assert_eq!(run(&["--quiet"]), "");
}

/// A backend that this system cannot have.
#[test]
fn without_an_adapter_the_error_names_a_driver_to_install() {
    let backend = if cfg!(target_vendor = "apple") { "dx12" } else { "metal" };
    for args in [&["devices"][..], &["devices", "--json"]] {
        let output = crate::quiet(Command::new(env!("CARGO_BIN_EXE_pteron")))
            .args(args)
            .env("WGPU_BACKEND", backend)
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("error: no GPU adapter was found; install "), "{text}");
    }
}
