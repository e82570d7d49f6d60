//! Reports tests that cannot run here as skipped, with the reason.
//!
//! The test harness knows only "passed" and "failed", so a test that returns early would count as passed. [`skip`] writes one
//! line, `SKIPPED <test>: <reason>`, and appends the same line to the file named by `PTERON_SKIPPED_TESTS`, which
//! `cargo xtask test` sets and counts: the harness may capture the output, but not the file.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::Location;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

/// The environment variable that names the file to append skipped tests to.
pub const SKIPPED_TESTS: &str = "PTERON_SKIPPED_TESTS";

/// Reports the running test, or a part of it, as skipped. Each test reports each reason once.
///
/// # Panics
/// If the file named by `PTERON_SKIPPED_TESTS` cannot be written: the skip would not be counted.
#[track_caller]
pub fn skip(reason: impl AsRef<str>) {
    static REPORTED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let line = line(&test_name(Location::caller()), reason.as_ref());
    if !REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
        return;
    }
    print!("{line}");
    if let Some(path) = std::env::var_os(SKIPPED_TESTS)
        && let Err(error) = append(Path::new(&path), &line)
    {
        #[expect(clippy::panic, reason = "test code: a skip that is not counted must fail the test")]
        {
            panic!("{}: {error}", Path::new(&path).display());
        }
    }
}

/// Returns the name of the running test. The harness names each test's thread after it, except where it runs all tests on the main
/// thread; the place in the source identifies the test there.
fn test_name(caller: &Location<'_>) -> String {
    match thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

fn line(test: &str, reason: &str) -> String {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("SKIPPED {test}: {reason}\n")
}

/// Appends a line in one write, so that lines of test processes that run at the same time do not mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_the_test_and_stays_one_line() {
        let name = test_name(Location::caller());
        assert!(name.ends_with("line_names_the_test_and_stays_one_line") || name.contains("testing.rs:"), "{name}");
        assert_eq!(line("some::test", "no f16\non  this adapter"), "SKIPPED some::test: no f16 on this adapter\n");
    }

    #[test]
    fn skipped_tests_are_appended_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skipped");
        for test in ["a", "b"] {
            append(&path, &line(test, "why")).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "SKIPPED a: why\nSKIPPED b: why\n");
    }
}
