//! `pteron doctor` on any adapter.

use std::process::Command;

use serde_json::Value;

use crate::{Scratch, quiet, root};

/// Runs `pteron doctor` with folders of this test's own.
fn doctor(scratch: &Scratch, args: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")))
        .arg("doctor")
        .args(args)
        .env("XDG_CACHE_HOME", scratch.0.join("cache"))
        .env("XDG_STATE_HOME", scratch.0.join("state"))
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn the_report_names_adapter_driver_and_versions_and_checks_the_bundled_model() {
    let scratch = Scratch::new("doctor");
    let (code, out, err) = doctor(&scratch, &["--json"], &[("MESA_NO_ERROR", "0")]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let check = &report["check"];
    assert_eq!((&report["ok"], &check["ok"], &check["tokens"]), (&true.into(), &true.into(), &check["matching"]), "{check}");
    assert!(check["tokens"].as_u64() > Some(50), "{check}");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["system"]["os"], std::env::consts::OS);
    let variables = report["system"]["environment"].as_array().unwrap();
    assert!(variables.contains(&"MESA_NO_ERROR=0".into()), "{variables:?}");
    let adapters = report["adapters"].as_array().unwrap();
    let used: Vec<&Value> = adapters.iter().filter(|adapter| adapter["used"] == true).collect();
    assert_eq!((used.len(), &used[0]["name"]), (1, &check["adapter"]));
    assert!(used[0]["driver"].is_string() && used[0]["features"].is_array());
    for folder in report["folders"].as_array().unwrap() {
        assert_eq!(folder["writable"], true, "{folder}");
        assert!(folder["path"].as_str().unwrap().starts_with(&*scratch.0.to_string_lossy()), "{folder}");
    }
    let readme = std::fs::read_to_string(root().join("crates/pteron-cli/README.md")).unwrap();
    for value in [&report, &report["system"], &report["folders"][0], &report["tuning"], check] {
        let missing: Vec<_> =
            value.as_object().unwrap().keys().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "not in README.md: {missing:?}");
    }
}

#[test]
fn the_text_fits_a_screen() {
    let scratch = Scratch::new("doctor-text");
    let tuning = scratch.0.join("cache").join("pteron").join("tuning.json");
    std::fs::create_dir_all(tuning.parent().unwrap()).unwrap();
    std::fs::write(&tuning, "feathers").unwrap();
    // A file where the state folder should be: lines of `pteron chat` cannot be stored.
    std::fs::write(scratch.0.join("state"), "").unwrap();
    let (code, out, err) = doctor(&scratch, &[], &[]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with(&format!("pteron {}  ", env!("CARGO_PKG_VERSION"))), "{out}");
    for part in ["Adapters\n", "backend ", "features ", "compiled kernels", "it is damaged", "not writable: ", "OK: "] {
        assert!(out.contains(part), "no {part:?} in\n{out}");
    }
    assert!(out.lines().count() <= 40, "{out}");
}

/// A backend that this system cannot have: the report is there, and the status says that nothing runs.
#[test]
fn without_an_adapter_the_report_is_printed_and_the_status_is_1() {
    let scratch = Scratch::new("doctor-none");
    let backend = if cfg!(target_vendor = "apple") { "dx12" } else { "metal" };
    let (code, out, err) = doctor(&scratch, &[], &[("WGPU_BACKEND", backend)]);
    assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
    assert!(out.contains("Adapters\n  none\n") && out.contains("FAILED: no GPU adapter was found; install "), "{out}");
    assert!(out.contains(&format!("WGPU_BACKEND={backend}")), "{out}");
    let (code, out, _) = doctor(&scratch, &["--json", "--adapter", "no such adapter"], &[]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"], &report["check"]["adapter"]), (Some(1), &false.into(), &Value::Null), "{report}");
}
