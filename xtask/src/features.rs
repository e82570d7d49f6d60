//! `cargo xtask features`: every crate compiles with no, each single and all features.
//!
//! Each crate is checked alone: in a build of the whole workspace, features that another crate turns on would hide a missing one.
//! A feature that no source of its crate mentions only turns on features of dependencies: alone, it compiles the same code as no
//! feature does, so it is checked together with all others.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{Crate, Workspace};

/// Checks every crate that is published; reports all failures.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    for krate in workspace.crates.iter().filter(|krate| krate.published) {
        let sources = sources(&krate.folder)?;
        let is_mentioned = |feature: &str| sources.contains(&format!("feature = \"{feature}\""));
        for selection in selections(krate, is_mentioned) {
            let args = ["check", "--quiet", "--package", &krate.name];
            let what = format!("{} {}", krate.name, selection.join(" "));
            println!("   $ cargo {} {}", args.join(" "), selection.join(" "));
            let mut cargo = Command::new("cargo");
            cargo.args(args).args(selection).current_dir(&workspace.root);
            if !cargo.status().context("cargo could not be started")?.success() {
                failed.push(what);
            }
        }
    }
    if !failed.is_empty() {
        bail!("these do not compile: {}", failed.join("; "));
    }
    Ok(())
}

/// The text of all Rust files below a folder.
fn sources(folder: &Path) -> Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            text += &sources(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).with_context(|| format!("{} could not be read", path.display()))?;
        }
    }
    Ok(text)
}

/// The feature flags that a crate is checked with. Without a flag, the default features are on.
fn selections(krate: &Crate, is_mentioned: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
    let mut selections = vec![vec![]];
    if krate.features.is_empty() {
        return selections;
    }
    if krate.features.iter().any(|feature| feature == "default") {
        selections.push(vec!["--no-default-features"]);
    }
    let single = krate.features.iter().filter(|feature| *feature != "default" && is_mentioned(feature));
    selections.extend(single.map(|feature| vec!["--no-default-features", "--features", feature]));
    // Some examples need a feature.
    selections.push(vec!["--all-features", "--lib", "--bins", "--examples"]);
    selections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_features(features: &[&str]) -> Crate {
        Crate { features: features.iter().map(|name| (*name).to_owned()).collect(), ..Crate::default() }
    }

    #[test]
    fn no_each_single_and_all_features_are_selected() {
        let krate = with_features(&["default", "media", "metal", "vulkan"]);
        let selected = selections(&krate, |feature| feature != "metal");
        let selected: Vec<String> = selected.iter().map(|flags| flags.join(" ")).collect();
        let none = "--no-default-features";
        let single = ["media", "vulkan"].map(|feature| format!("{none} --features {feature}"));
        assert_eq!(selected, ["", none, &single[0], &single[1], "--all-features --lib --bins --examples"]);
    }

    #[test]
    fn a_crate_without_features_is_checked_once() {
        assert_eq!(selections(&with_features(&[]), |_| true), [Vec::<&str>::new()]);
    }
}
