//! What a release demands of the repository, and the commands that publish it. A person runs those.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::progress::read;
use super::{FOLDER, Release, crates};
use crate::changelog;

/// Variables with the right to publish, and what each is for.
static TOKENS: [(&str, &str); 4] = [
    ("CARGO_REGISTRY_TOKEN", "crates.io, for `cargo publish`"),
    ("NODE_AUTH_TOKEN", "npm, for `npm publish`: //registry.npmjs.org/:_authToken=${NODE_AUTH_TOKEN} in ~/.npmrc"),
    ("MATURIN_PYPI_TOKEN", "PyPI, for `maturin upload`"),
    ("GH_TOKEN", "the repository's releases, for `gh release create`"),
];

/// Systems whose artefacts nobody has run.
const UNPROVEN: &str = "Unproven: for Windows and macOS, and for Linux on other processors, `cargo xtask test --only targets` compiles the \
                        libraries, and the workflow builds the command there, but nobody has run it. Nothing is published for musl.";

/// What is to be done before this version can be released.
pub(super) fn demands(release: &Release<'_>) -> Result<Vec<String>> {
    let read_file = |path: &str| fs::read_to_string(release.root().join(path)).with_context(|| path.to_owned());
    let git =
        |args: &[&str]| read(Command::new("git").args(["-c", "safe.directory=*"]).args(args).current_dir(release.root()));
    let mut demands = Vec::new();
    demands.extend(changelog::unreleasable(&read_file(changelog::FILE)?, &release.version));
    demands.extend(placeholder(&read_file("Cargo.toml")?));
    if !git(&["status", "--porcelain"])?.trim().is_empty() {
        demands.push("the working tree has changes: commit them".to_owned());
    }
    let tag = format!("v{}", release.version);
    if !git(&["tag", "--points-at", "HEAD"])?.lines().any(|found| found == tag) {
        demands.push(format!("the commit has no tag {tag}: git tag {tag}"));
    }
    Ok(demands)
}

/// Why the address in Cargo.toml cannot be published, if so.
fn placeholder(manifest: &str) -> Option<String> {
    let is_placeholder = manifest.lines().any(|line| line.starts_with("repository = \"https://example.com/"));
    is_placeholder.then(|| "repository in Cargo.toml is a placeholder: set it to the public address".to_owned())
}

/// The end of the report: that nothing was published, or how to.
pub(super) fn ending(release: &Release<'_>, dry_run: bool, demands: &[String]) -> String {
    let mut text = format!("{UNPROVEN}\n");
    if dry_run {
        text += "\nA dry run: nothing was published.\n";
        if !demands.is_empty() {
            text += &format!("Before {} can be released:\n  {}\n", release.version, demands.join("\n  "));
        }
        return text;
    }
    let unset: Vec<_> = TOKENS.iter().filter(|(variable, _)| std::env::var_os(variable).is_none()).collect();
    if !unset.is_empty() {
        text += "\nSet these first:\n";
        text.extend(unset.iter().map(|(variable, what)| format!("  {variable}: {what}\n")));
    }
    let order = crates::order(release.workspace).unwrap_or_default();
    text += "\nNothing was published. In the repository's root:\n";
    text.extend(commands(&release.version, &order).iter().map(|command| format!("  {command}\n")));
    text
}

/// The commands that publish, the one first that can be taken back.
fn commands(version: &str, order: &[&str]) -> Vec<String> {
    let packages: Vec<String> = order.iter().map(|name| format!("--package {name}")).collect();
    let folder = format!("target/{FOLDER}");
    vec![
        format!("git push origin v{version}"),
        format!("gh release create v{version} --verify-tag --draft --title v{version} --notes-file CHANGELOG.md {folder}/*"),
        // Cargo waits for each before the next.
        format!("cargo publish --locked {}", packages.join(" ")),
        format!("npm publish --access public {folder}/pteron-{version}.tgz"),
        format!("target/tools/release/bin/maturin upload {folder}/pteron-{version}*.whl {folder}/pteron-{version}.tar.gz"),
        format!("gh release edit v{version} --draft=false"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_told_from_an_address() {
        assert!(placeholder("[workspace.package]\nrepository = \"https://example.com/pteron\"\n").is_some());
        assert_eq!(placeholder("[workspace.package]\nrepository = \"https://code.example.org/pteron\"\n"), None);
    }

    #[test]
    fn commands_publish_every_artefact_in_order() {
        let commands = commands("0.2.0", &["pteron-schema", "pteron"]);
        assert!(commands[2].ends_with("--package pteron-schema --package pteron"), "{commands:?}");
        for part in ["git push origin v0.2.0", "npm publish", "maturin upload", "--draft=false"] {
            assert!(commands.iter().any(|command| command.contains(part)), "{part}");
        }
    }
}
