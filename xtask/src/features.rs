//! `cargo xtask features`: every crate compiles with no, each single and all features.
//!
//! Each crate is checked alone: in a build of the whole workspace, features that another crate turns on would hide a missing one.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{Crate, Workspace};

/// Checks every crate that is published; reports all failures.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    for krate in workspace.crates.iter().filter(|krate| krate.published) {
        for selection in selections(krate) {
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

/// The feature flags that a crate is checked with. Without a flag, the default features are on.
fn selections(krate: &Crate) -> Vec<Vec<&str>> {
    let mut selections = vec![vec![]];
    if krate.features.is_empty() {
        return selections;
    }
    if krate.features.iter().any(|feature| feature == "default") {
        selections.push(vec!["--no-default-features"]);
    }
    let single = krate.features.iter().filter(|feature| *feature != "default");
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
        let krate = with_features(&["default", "dx12", "vulkan"]);
        let selected: Vec<String> = selections(&krate).iter().map(|flags| flags.join(" ")).collect();
        let none = "--no-default-features";
        let single = ["dx12", "vulkan"].map(|feature| format!("{none} --features {feature}"));
        assert_eq!(selected, ["", none, &single[0], &single[1], "--all-features --lib --bins --examples"]);
    }

    #[test]
    fn a_crate_without_features_is_checked_once() {
        assert_eq!(selections(&with_features(&[])), [Vec::<&str>::new()]);
    }
}
