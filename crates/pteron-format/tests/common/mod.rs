//! Helpers for the integration tests: real files, a sample of everything, and the properties.

#![allow(dead_code, reason = "each test binary uses a part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

pub(crate) mod arbitrary;
pub(crate) mod check;
pub(crate) mod sample;
pub(crate) mod xnnpack;

use std::path::{Path, PathBuf};

/// The real exports of the repository.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The bytes of a real file.
pub(crate) fn fixture(path: &str) -> Vec<u8> {
    let path = fixtures().join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every real file with this extension, sorted.
pub(crate) fn fixtures_with(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![fixtures()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "there is no .{extension} file below {}", fixtures().display());
    found
}
