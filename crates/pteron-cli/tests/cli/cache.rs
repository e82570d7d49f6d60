//! Compiled kernels are cached in the user's cache folder for later runs.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Scratch, arrays, quiet, root};

/// Runs the command with its own cache folder and returns its output.
fn pteron(cache: &Path, args: &[&str]) -> String {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    let output = command.args(args).current_dir(root()).env("XDG_CACHE_HOME", cache).output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn compiled_kernels_are_cached_unless_the_cache_is_off() {
    let scratch = Scratch::new("kernels");
    let cache = scratch.0.join("cache");
    let report: Value = serde_json::from_str(&pteron(&cache, &["devices", "--json"])).unwrap();
    let Some(folder) = report["devices"][0]["pipeline_cache"].as_str().map(Path::new) else {
        return pteron_files::testing::skip("this driver hands out no compiled kernels");
    };
    assert_eq!(folder, cache.join("pteron").join("pipelines"));
    assert!(pteron(&cache, &["devices"]).contains(&format!("kept in {}", folder.display())));
    let call = scratch.file("call.npz", &arrays::save(&[arrays::Array::floats(&[67], &[1.0; 67])]));
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let exec = ["exec", "fixtures/ops/relu/program.pte", "--quiet", "--in", &call, "--out", &out];
    pteron(&cache, &[exec.as_slice(), &["--no-pipeline-cache"]].concat());
    assert!(!folder.exists(), "nothing was to be kept");
    pteron(&cache, &exec);
    let kept = || std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let first = kept();
    assert_eq!(first.len(), 1, "{first:?}");
    pteron(&cache, &exec);
    assert_eq!(kept(), first);
}
