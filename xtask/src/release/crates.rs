//! The packages for crates.io: a program of another project and the command are compiled with them, and run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::progress::{read, run};
use super::scratch::Scratch;
use super::{Release, binary};
use crate::package;
use crate::workspace::{Crate, Workspace};

/// The other project's program.
const CONSUMER: &str = include_str!("consumer/main.rs");

/// Packages every crate, compiles the consumer and the command with the packages, and copies them to the artefacts.
pub(super) fn build(release: &Release<'_>) -> Result<()> {
    let packages = package::prepare(release.workspace)?;
    for archive in &packages.archives {
        fs::copy(archive, release.out.join(archive.file_name().context("a package has a name")?))?;
    }
    write_consumer(&packages.folder.join("consumer"), &release.version)?;
    package::write_workspace(release.workspace, &packages, &["consumer"])
}

fn write_consumer(folder: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(folder.join("src"))?;
    // As a user would name them: the workspace around it takes them from their packages.
    let names = ["pteron", "pteron-llm", "pteron-demo-model"];
    let dependencies: String = names.iter().map(|name| format!("{name} = \"{version}\"\n")).collect();
    let manifest = format!(
        "[package]\nname = \"consumer\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}serde_json = \"1\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), CONSUMER)?;
    Ok(())
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    let order = order(release.workspace)?;
    let folder = release.workspace.target.join("package/unpacked");
    // In one build, and with the profile of the tests: what both depend on is compiled once, or has been for the tests.
    let mut build = release.cargo();
    build.args(["build", "--quiet", "--offline", "--profile", "test", "--package", "consumer", "--package", "pteron-cli"]);
    run(build.arg("--target-dir").arg(&release.workspace.target).current_dir(&folder))?;
    let programs = release.workspace.target.join("debug");
    let built = |name: &str| programs.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let scratch = Scratch::new("crates")?;
    let printed = read(&mut scratch.command(built("consumer")))?;
    let command = binary::check_program(release, &scratch, &built("pteron"), false)?;
    Ok(vec![
        format!("{} packages, to be published in the order {}", order.len(), order.join(", ")),
        format!("a program that depends on them: {}", printed.trim()),
        format!("the command from its package: {command}"),
    ])
}

/// The published crates, each after those that it depends on.
pub(super) fn order(workspace: &Workspace) -> Result<Vec<&str>> {
    let mut left: Vec<&Crate> = workspace.crates.iter().filter(|krate| krate.published).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_free = |krate: &&Crate| left.iter().all(|other| !krate.dependencies.contains(&other.name));
        let free: Vec<&str> = left.iter().filter(|krate| is_free(krate)).map(|krate| krate.name.as_str()).collect();
        if free.is_empty() {
            let names: Vec<_> = left.iter().map(|krate| krate.name.as_str()).collect();
            bail!("these crates depend on each other: {}", names.join(", "));
        }
        left.retain(|krate| !free.contains(&krate.name.as_str()));
        order.extend(free);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn workspace(crates: &[(&str, bool, &[&str])]) -> Workspace {
        let crates = crates.iter().map(|(name, published, dependencies)| Crate {
            name: (*name).to_owned(),
            published: *published,
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            ..Crate::default()
        });
        Workspace { root: PathBuf::new(), target: PathBuf::new(), crates: crates.collect() }
    }

    #[test]
    fn crates_follow_those_that_they_depend_on() {
        let ordered = workspace(&[
            ("app", true, &["llm", "serde"]),
            ("base", true, &[]),
            ("hidden", false, &["app"]),
            ("llm", true, &["base"]),
        ]);
        assert_eq!(order(&ordered).unwrap(), ["base", "llm", "app"]);
    }

    #[test]
    fn a_cycle_is_named() {
        let error = order(&workspace(&[("a", true, &["b"]), ("b", true, &["a"]), ("c", true, &[])])).unwrap_err();
        assert_eq!(error.to_string(), "these crates depend on each other: a, b");
    }

    #[test]
    fn the_order_of_this_workspace_ends_with_the_command() {
        let workspace = Workspace::load().unwrap();
        let order = order(&workspace).unwrap();
        let place = |name: &str| order.iter().position(|found| *found == name).unwrap();
        assert!(place("pteron-schema") < place("pteron-format") && place("pteron-format") < place("pteron"), "{order:?}");
        assert!(place("pteron-server") < place("pteron-cli"), "{order:?}");
    }
}
