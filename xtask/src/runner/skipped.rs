//! Tests that did not run, with their reasons.
//!
//! Rust's test harness knows no skipped tests: one that cannot run here returns early, and counts as passed. Such a test
//! appends a line `SKIPPED name: reason` to the file that `PTERON_SKIPPED_TESTS` names, which is read here and taken off the
//! passed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The environment variable that names the file.
pub(super) const VARIABLE: &str = "PTERON_SKIPPED_TESTS";

/// The most tests that the summary names per reason.
const NAMED: usize = 4;

/// The file that tests append to.
pub(super) struct File(PathBuf);

impl File {
    /// An empty file for a step.
    pub(super) fn create(target: &Path, step: &str) -> Result<Self> {
        let folder = target.join("skipped");
        let path = folder.join(format!("{step}.txt"));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        std::fs::write(&path, "").with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Skipped tests of a step by reason.
#[derive(Default)]
pub(super) struct Skipped {
    tests: BTreeMap<String, BTreeSet<String>>,
    /// Tests that reported themselves, which the harness counts as passed.
    reported: BTreeSet<String>,
}

impl Skipped {
    /// Adds a test that the harness does not count as passed.
    pub(super) fn add(&mut self, test: &str, reason: &str) {
        self.tests.entry(reason.to_owned()).or_default().insert(test.to_owned());
    }

    /// Adds the tests that reported themselves.
    pub(super) fn read(&mut self, file: &File) -> Result<()> {
        let text = std::fs::read_to_string(&file.0).with_context(|| file.0.display().to_string())?;
        for (test, reason) in text.lines().filter_map(parse) {
            self.add(test, reason);
            self.reported.insert(test.to_owned());
        }
        Ok(())
    }

    /// Number of tests that did not run, or not completely.
    pub(super) fn count(&self) -> u64 {
        let tests: BTreeSet<&String> = self.tests.values().flatten().collect();
        tests.len() as u64
    }

    /// Number of those that the harness counts as passed.
    pub(super) fn reported(&self) -> u64 {
        self.reported.len() as u64
    }

    /// One line per reason, with the first tests' names.
    pub(super) fn list(&self, step: &str) -> String {
        let line = |(reason, tests): (&String, &BTreeSet<String>)| {
            let names: Vec<&str> = tests.iter().take(NAMED).map(String::as_str).collect();
            let more = if tests.len() > NAMED { ", …" } else { "" };
            format!("  {step}: {} skipped, {reason}: {}{more}\n", tests.len(), names.join(", "))
        };
        self.tests.iter().map(line).collect()
    }
}

/// Splits `SKIPPED name: reason`. Names contain `::`, but no colon followed by a space.
fn parse(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("SKIPPED ")?.split_once(": ")
}

/// Splits the line that Rust's harness prints for a test with `#[ignore = "reason"]`, or Node's for a skipped one.
pub(super) fn ignored(line: &str) -> Option<(&str, &str)> {
    if let Some(skipped) = line.trim().strip_prefix("﹣ ") {
        return Some(skipped.split_once(" # ").unwrap_or((skipped, "skipped without a reason")));
    }
    let (test, result) = line.strip_prefix("test ")?.trim_end().split_once(" ... ignored")?;
    Some((test, result.strip_prefix(", ").unwrap_or("ignored without a reason")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_tests_are_grouped_by_reason_and_counted_once() {
        let folder = std::env::temp_dir().join(format!("pteron-xtask-skipped-{}", std::process::id()));
        let file = File::create(&folder, "test").unwrap();
        let lines =
            "SKIPPED ops::a: no 16-bit floats\nSKIPPED ops::b: no 16-bit floats\nSKIPPED ops::a: no subgroups\nother\n";
        std::fs::write(file.path(), lines).unwrap();
        let mut skipped = Skipped::default();
        skipped.read(&file).unwrap();
        skipped.add("ops::c", "slow");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((skipped.count(), skipped.reported()), (3, 2));
        let list = skipped.list("test");
        assert!(list.contains("  test: 2 skipped, no 16-bit floats: ops::a, ops::b\n"), "{list}");
        assert_eq!(list.lines().count(), 3);
    }

    #[test]
    fn ignored_tests_keep_their_reason() {
        assert_eq!(ignored("test a::b ... ignored, needs hours\n"), Some(("a::b", "needs hours")));
        assert_eq!(ignored("test a::b ... ignored\n"), Some(("a::b", "ignored without a reason")));
        assert_eq!(ignored("test a::b ... ok\n"), None);
        assert_eq!(ignored("  ﹣ loads a shard (0.2ms) # no WebGPU\n"), Some(("loads a shard (0.2ms)", "no WebGPU")));
    }
}
