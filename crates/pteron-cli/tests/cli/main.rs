//! Tests of the `pteron` binary: arguments in, text and exit status out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod arrays;
mod bench;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod cache;
mod convert;
mod doctor;
mod errors;
mod exec;
mod exec_errors;
mod graphs;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod hostile_files;
#[cfg(unix)]
mod line_editor;
mod media;
mod profiles;
mod prompt_files;
#[cfg(feature = "pull")]
mod pull;
mod reference;
mod reports;
mod run_chat;
#[cfg(all(unix, feature = "serve"))]
mod serve;
#[cfg(unix)]
mod signals;
mod token_ids;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod tune;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit status and output of a run of the command.
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Keeps what tests compile out of the user's own cache, and the environment that of a server or a container: without
/// `XDG_RUNTIME_DIR`, where drivers used to print a line of their own on standard error.
fn quiet(mut command: Command) -> Command {
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("pteron-cli-cache")).env_remove("XDG_RUNTIME_DIR");
    command
}

/// Runs `pteron` in the repository's root, so that paths in its output are the same everywhere.
fn pteron<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    let output = command.args(args).current_dir(root()).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every program below `fixtures/`, as a path from the root.
fn programs() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join("fixtures")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("fixtures/ is there").map(Result::unwrap) {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pte") {
                found.push(path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"));
            }
        }
    }
    assert!(!found.is_empty(), "no .pte files below fixtures/");
    found.sort();
    found
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap()
}

/// A file for one test, removed with its directory when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("pteron-cli-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
