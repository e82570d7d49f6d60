//! Rules about the repository's own files that no other tool checks.

mod changelog;
mod container;
mod front_ends;
mod length;
mod locality;
mod quick_start;
mod unfinished;
mod version;

pub(crate) use container::instructions;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns the violations among all files.
type Rule = fn(&[File]) -> Vec<Violation>;

static RULES: &[Rule] = &[
    changelog::check,
    container::check,
    front_ends::check,
    length::check,
    locality::check,
    quick_start::check,
    unfinished::check,
    version::check,
];

/// A file of the repository; its path has forward slashes and starts at the root.
#[derive(Debug)]
struct File {
    path: String,
    /// Only of the kinds of files that a rule reads.
    text: Option<String>,
    executable: bool,
}

/// A broken rule and its location.
#[derive(Debug, PartialEq)]
pub(crate) struct Violation {
    path: String,
    line: Option<usize>,
    message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message } = self;
        match line {
            Some(line) => write!(f, "{path}:{line}: {message}"),
            None => write!(f, "{path}: {message}"),
        }
    }
}

impl Violation {
    fn new(path: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

/// Applies every rule to the files that git tracks or would track.
pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    let files = read_files(root)?;
    Ok(RULES.iter().flat_map(|rule| rule(&files)).collect())
}

/// Returns the paths of the shell scripts that git tracks or would track.
pub(crate) fn shell_scripts(root: &Path) -> Result<Vec<String>> {
    let mut scripts = tracked(root)?;
    scripts.retain(|path| has_extension(path, &["sh"]) || first_line(&root.join(path)).is_some_and(|line| is_shell(&line)));
    Ok(scripts)
}

/// Whether a first line says that a shell runs the file.
fn is_shell(line: &str) -> bool {
    let interpreter = line.strip_prefix("#!").and_then(|rest| rest.split(['/', ' ']).next_back());
    interpreter.is_some_and(|name| ["sh", "bash", "dash"].contains(&name.trim()))
}

/// The start of the first line, if it is text.
fn first_line(path: &Path) -> Option<String> {
    let mut start = [0; 64];
    let count = std::fs::File::open(path).ok()?.read(&mut start).ok()?;
    let line = start[..count].split(|byte| *byte == b'\n').next()?;
    String::from_utf8(line.to_vec()).ok()
}

/// Returns the paths of the files that git tracks or would track.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        // A checkout that belongs to somebody else, as in a container, is read all the same.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git could not be started")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.split_terminator('\0').map(str::to_owned).collect())
}

fn read_files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in tracked(root)? {
        let full = root.join(&path);
        // Tracked, but deleted in the working tree.
        let Ok(metadata) = full.metadata() else { continue };
        let text = is_read(&path)
            .then(|| std::fs::read_to_string(&full).with_context(|| format!("{path} could not be read")))
            .transpose()?;
        files.push(File { path, text, executable: is_executable(&metadata) });
    }
    Ok(files)
}

fn is_read(path: &str) -> bool {
    has_extension(path, &["rs", "wgsl", "py", "ts", "mjs", "css", "md", "sh", "toml"])
        || ["package.json", "Containerfile"].iter().any(|name| path.rsplit('/').next() == Some(name))
}

fn has_extension(path: &str, extensions: &[&str]) -> bool {
    Path::new(path).extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

#[cfg(unix)]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl File {
        pub(super) fn with_text(path: &str, text: impl Into<String>) -> Self {
            Self { path: path.to_owned(), text: Some(text.into()), executable: false }
        }

        pub(super) fn script(path: &str) -> Self {
            Self { path: path.to_owned(), text: None, executable: true }
        }
    }

    #[test]
    fn shells_are_recognised_by_their_first_line() {
        assert!(is_shell("#!/usr/bin/env bash") && is_shell("#!/bin/sh"));
        assert!(!is_shell("#!/usr/bin/env node") && !is_shell("bash") && !is_shell("#!/usr/bin/fish"));
    }

    #[test]
    fn first_lines_of_scripts_and_of_others_are_told_apart() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let shell = |path: &str| first_line(&root.join(path)).is_some_and(|line| is_shell(&line));
        assert!(shell("test") && shell("run") && shell("export/make"));
        assert!(!shell("Cargo.toml") && !shell("models/demo/model.pte") && !shell("no such file"));
    }

    #[test]
    fn a_violation_names_its_place() {
        assert_eq!(Violation::new("a.rs", Some(3), "wrong").to_string(), "a.rs:3: wrong");
        assert_eq!(Violation::new("a.rs", None, "wrong").to_string(), "a.rs: wrong");
    }
}
