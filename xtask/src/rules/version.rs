//! The version and the repository's address are those of the workspace's Cargo.toml wherever they have to be written again.

use super::{File, Violation};

/// The file that both are taken from.
const SOURCE: &str = "Cargo.toml";

/// A file that writes one of them again.
struct Copy {
    path: &'static str,
    /// The key of `[workspace.package]` whose value it repeats.
    key: &'static str,
    /// The text before the value, at the start of a line, and after it.
    before: &'static str,
    after: &'static str,
}

static COPIES: &[Copy] = &[
    Copy { path: "web/pteron/package.json", key: "version", before: "  \"version\": \"", after: "\"" },
    Copy { path: "deploy/install.sh", key: "version", before: "version=", after: "" },
    Copy { path: "deploy/install.sh", key: "repository", before: "repository=", after: "" },
    Copy { path: "deploy/container/Containerfile", key: "version", before: "ARG VERSION=", after: "" },
];

/// The Python package, whose version maturin takes from its Cargo.toml.
const PYTHON: &str = "crates/pteron-python/pyproject.toml";

/// Folders whose manifests belong to other workspaces, or are never published.
const OUTSIDE: [&str; 3] = ["examples/window/", "fuzz/", "xtask/"];

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
    let Some(source) = text_of(SOURCE) else { return vec![Violation::new(SOURCE, None, "is missing")] };
    let value = |key: &str| value(source, "[workspace.package]", key).map(|(_, value)| value);
    let Some(version) = value("version") else {
        return vec![Violation::new(SOURCE, None, "has no version in [workspace.package]")];
    };
    let mut violations = Vec::new();
    for copy in COPIES {
        match (text_of(copy.path), value(copy.key)) {
            (Some(text), Some(expected)) => violations.extend(check_copy(copy, text, expected)),
            (None, _) => violations.push(Violation::new(copy.path, None, "is missing")),
            (_, None) => violations.push(Violation::new(SOURCE, None, format!("has no {}", copy.key))),
        }
    }
    for file in files.iter().filter(|file| is_manifest(&file.path)) {
        violations.extend(check_manifest(file, version));
    }
    if let Some((line, found)) = text_of(PYTHON).and_then(|text| self::value(text, "[project]", "version")) {
        let message = format!("has a version of its own, {found}: name it in `dynamic`");
        violations.push(Violation::new(PYTHON, Some(line), message));
    }
    violations
}

fn check_copy(copy: &Copy, text: &str, expected: &str) -> Option<Violation> {
    let mut lines = text.lines().enumerate();
    let found = lines.find_map(|(index, line)| {
        let rest = line.strip_prefix(copy.before)?;
        Some((index + 1, if copy.after.is_empty() { rest } else { rest.split(copy.after).next()? }))
    });
    let (line, message) = match found {
        Some((_, found)) if found == expected => return None,
        Some((line, found)) => (Some(line), format!("{} is {found}, but {expected} in {SOURCE}", copy.key)),
        None => (None, format!("does not write the {} as `{}…`", copy.key, copy.before.trim())),
    };
    Some(Violation::new(copy.path, line, message))
}

fn is_manifest(path: &str) -> bool {
    (path == SOURCE || path.ends_with("/Cargo.toml")) && !OUTSIDE.iter().any(|folder| path.starts_with(folder))
}

/// A crate takes the workspace's version, and a dependency inside the workspace asks for it.
fn check_manifest(file: &File, version: &str) -> Vec<Violation> {
    let text = file.text.as_deref().unwrap_or_default();
    let own = value(text, "[package]", "version").map(|(line, found)| {
        let message = format!("has a version of its own, {found}: write `version.workspace = true`");
        Violation::new(&file.path, Some(line), message)
    });
    let dependencies =
        text.lines().enumerate().filter(|(_, line)| line.contains("path = \"") && line.contains("version = \""));
    let others = dependencies.filter_map(|(index, line)| {
        let found = line.split("version = \"").nth(1)?.split('"').next()?;
        let message = || format!("asks for version {found} of a crate of this workspace, which has {version}");
        (found != version).then(|| Violation::new(&file.path, Some(index + 1), message()))
    });
    own.into_iter().chain(others).collect()
}

/// Line and value of `key = "value"` in a section of a TOML file.
fn value<'a>(text: &'a str, section: &str, key: &str) -> Option<(usize, &'a str)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != section).skip(1);
    let mut lines = lines.take_while(|(_, line)| !line.starts_with('['));
    lines.find_map(|(index, line)| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim_start();
        Some((index + 1, rest.strip_prefix('"')?.split('"').next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.package]\nversion = \"0.2.0\"\nrepository = \"https://a.example/b\"\n\n[workspace.dependencies]\npteron = { path = \"crates/pteron\", version = \"0.2.0\" }\nserde = { version = \"1\" }\n";

    /// Files that agree, with the text of one replaced.
    fn violations(path: &str, text: &str) -> Vec<String> {
        let good = [
            (SOURCE, WORKSPACE),
            (
                "web/pteron/package.json",
                "{\n  \"name\": \"pteron\",\n  \"version\": \"0.2.0\",\n  \"a\": { \"version\": \"9\" }\n}\n",
            ),
            ("deploy/install.sh", "#!/bin/sh\nversion=0.2.0\nrepository=https://a.example/b\n"),
            ("deploy/container/Containerfile", "FROM debian\nARG VERSION=0.2.0\n"),
            ("crates/pteron/Cargo.toml", "[package]\nname = \"pteron\"\nversion.workspace = true\n"),
            (PYTHON, "[project]\nname = \"pteron\"\ndynamic = [\"version\"]\n\n[tool.other]\nversion = \"7\"\n"),
            ("fuzz/Cargo.toml", "[package]\nversion = \"0.0.0\"\n"),
        ];
        let mut files: Vec<File> = good.iter().map(|(path, text)| File::with_text(path, *text)).collect();
        files.retain(|file| file.path != path);
        files.push(File::with_text(path, text));
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_that_agree_are_accepted() {
        assert_eq!(violations("README.md", ""), [""; 0]);
    }

    #[test]
    fn every_copy_is_compared() {
        let found = violations("web/pteron/package.json", "{\n  \"version\": \"0.1.0\"\n}\n");
        assert_eq!(found, ["web/pteron/package.json:2: version is 0.1.0, but 0.2.0 in Cargo.toml"]);
        let found = violations("deploy/install.sh", "version=0.2.0\nrepository=https://other.example\n");
        assert_eq!(
            found,
            ["deploy/install.sh:2: repository is https://other.example, but https://a.example/b in Cargo.toml"]
        );
        let found = violations("deploy/container/Containerfile", "FROM debian\n");
        assert_eq!(found, ["deploy/container/Containerfile: does not write the version as `ARG VERSION=…`"]);
    }

    #[test]
    fn crates_have_no_version_of_their_own_and_ask_for_the_workspaces() {
        let found = violations("crates/pteron/Cargo.toml", "[package]\nversion = \"0.2.0\"\n");
        assert_eq!(found, ["crates/pteron/Cargo.toml:2: has a version of its own, 0.2.0: write `version.workspace = true`"]);
        let manifest = "[package]\nversion.workspace = true\n[dependencies]\na = { path = \"../a\", version = \"0.1.0\" }\n";
        let found = violations("crates/b/Cargo.toml", manifest);
        assert_eq!(found, ["crates/b/Cargo.toml:4: asks for version 0.1.0 of a crate of this workspace, which has 0.2.0"]);
        let found = violations(PYTHON, "[project]\nversion = \"0.2.0\"\n");
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_missing_file_or_version_is_named() {
        assert_eq!(check(&[])[0].to_string(), "Cargo.toml: is missing");
        let found = violations(SOURCE, "[workspace]\n");
        assert_eq!(found, ["Cargo.toml: has no version in [workspace.package]"]);
        let files = [File::with_text(SOURCE, WORKSPACE)];
        assert!(check(&files).iter().any(|violation| violation.to_string() == "deploy/install.sh: is missing"));
    }
}
