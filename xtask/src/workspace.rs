//! The workspace as `cargo metadata` describes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The crates people use: every member but this one.
    pub(crate) crates: Vec<Crate>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    pub(crate) has_library: bool,
    /// Whether the crate goes to crates.io.
    pub(crate) published: bool,
    /// What it is compiled with: names of packages, crates of this workspace among them. Not those of tests.
    pub(crate) dependencies: Vec<String>,
    /// Cargo features by name, `default` among them.
    pub(crate) features: Vec<String>,
    /// Examples that are built with the default features, and those that other crates of the workspace turn on.
    pub(crate) examples: Vec<String>,
    /// `rust-version`, as the manifest writes it.
    pub(crate) minimum_rust: Option<String>,
    /// Why its default features compile with a C compiler for the target only: `default-features-need-c` in the manifest's metadata.
    pub(crate) needs_c: Option<String>,
    /// Why it is checked for this system alone: `not-for-other-targets` in the manifest's metadata.
    pub(crate) only_here: Option<String>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cargo could not be started")?;
        if !output.status.success() {
            bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Self::from_metadata(&serde_json::from_slice(&output.stdout)?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self> {
        let root = metadata["workspace_root"].as_str().context("cargo metadata names no workspace root")?;
        let root = PathBuf::from(root);
        let tools_dir = root.join("xtask");
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        let mut crates: Vec<Crate> = packages
            .iter()
            .filter(|package| package["manifest_path"].as_str().is_some_and(|path| !Path::new(path).starts_with(&tools_dir)))
            .map(|package| Crate {
                name: package["name"].as_str().unwrap_or_default().to_owned(),
                version: package["version"].as_str().unwrap_or_default().to_owned(),
                folder: package["manifest_path"]
                    .as_str()
                    .and_then(|path| Path::new(path).parent())
                    .map_or_else(PathBuf::new, Path::to_owned),
                has_library: has_library(package),
                // `publish = false` is an empty list of registries.
                published: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
                dependencies: dependencies(package),
                features: package["features"].as_object().map_or_else(Vec::new, |features| {
                    features.keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
                }),
                examples: examples(package, packages),
                minimum_rust: package["rust_version"].as_str().map(str::to_owned),
                needs_c: package["metadata"]["pteron"]["default-features-need-c"].as_str().map(str::to_owned),
                only_here: package["metadata"]["pteron"]["not-for-other-targets"].as_str().map(str::to_owned),
            })
            .collect();
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        let target = metadata["target_directory"].as_str().map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target, crates })
    }

    /// The crates that other crates can depend on.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Crate> {
        self.crates.iter().filter(|krate| krate.has_library)
    }

    /// The one `rust-version` of all crates, as a toolchain name: `1.88` is toolchain `1.88.0`.
    pub(crate) fn minimum_toolchain(&self) -> Result<String> {
        let first = self.crates.first().context("there are no crates")?;
        for krate in &self.crates {
            if krate.minimum_rust.is_none() || krate.minimum_rust != first.minimum_rust {
                bail!(
                    "{} says rust-version {:?} but {} says {:?}: all crates promise the same one",
                    first.name,
                    first.minimum_rust,
                    krate.name,
                    krate.minimum_rust,
                );
            }
        }
        let version = first.minimum_rust.as_deref().unwrap_or_default();
        Ok(if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_owned() })
    }
}

/// The names of the packages that a package is compiled with.
fn dependencies(package: &Value) -> Vec<String> {
    let all = package["dependencies"].as_array().into_iter().flatten().filter(|dependency| dependency["kind"] != "dev");
    all.filter_map(|dependency| dependency["name"].as_str()).map(str::to_owned).collect()
}

/// The examples that `cargo build --workspace --examples` builds.
fn examples(package: &Value, packages: &[Value]) -> Vec<String> {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let enabled = enabled_features(package, packages);
    let is_example = |target: &&Value| {
        let strings = |key: &str| target[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        strings("kind").contains(&"example") && strings("required-features").iter().all(|name| enabled.contains(*name))
    };
    targets.iter().filter(is_example).filter_map(|target| target["name"].as_str()).map(str::to_owned).collect()
}

/// The features that are on by default or for another crate, with those that they turn on.
fn enabled_features(package: &Value, packages: &[Value]) -> BTreeSet<String> {
    let mut enabled = BTreeSet::new();
    let dependencies = packages.iter().filter_map(|other| other["dependencies"].as_array()).flatten();
    // Those of tests alone have a kind.
    let on_this = dependencies.filter(|dependency| dependency["name"] == package["name"] && dependency["kind"].is_null());
    let asked = on_this.filter_map(|dependency| dependency["features"].as_array()).flatten();
    let asked = asked.filter_map(Value::as_str).map(str::to_owned);
    let mut pending: Vec<String> = std::iter::once("default".to_owned()).chain(asked).collect();
    while let Some(feature) = pending.pop() {
        let turned_on = package["features"][&feature].as_array().into_iter().flatten().filter_map(Value::as_str);
        pending.extend(turned_on.filter(|name| !enabled.contains(*name)).map(str::to_owned));
        enabled.insert(feature);
    }
    enabled
}

/// Whether others can depend on a crate. The library beside a program holds the program's own code.
fn has_library(package: &Value) -> bool {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |wanted: &[&str]| {
        let mut kinds = targets.iter().filter_map(|target| target["kind"].as_array()).flatten();
        kinds.any(|kind| kind.as_str().is_some_and(|kind| wanted.contains(&kind)))
    };
    has(&["lib", "rlib", "cdylib"]) && !has(&["bin"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(path: &str, name: &str, kind: &str, rust: Option<&str>) -> Value {
        json!({
            "name": name,
            "manifest_path": format!("/repo/{path}/Cargo.toml"),
            "rust_version": rust,
            "targets": [{ "kind": ["test"] }, { "kind": [kind] }],
        })
    }

    fn workspace(packages: &[Value]) -> Workspace {
        Workspace::from_metadata(&json!({ "workspace_root": "/repo", "packages": packages })).unwrap()
    }

    #[test]
    fn tools_and_programs_are_not_checked_for_other_targets() {
        let workspace = workspace(&[
            package("xtask", "xtask", "bin", None),
            package("crates/b-cli", "b-cli", "bin", Some("1.88")),
            package("crates/a", "a", "lib", Some("1.88")),
        ]);
        assert_eq!(workspace.libraries().map(|krate| &krate.name).collect::<Vec<_>>(), ["a"]);
        assert_eq!(workspace.crates.len(), 2);
    }

    #[test]
    fn features_examples_and_publishing_are_read() {
        let mut demo = package("models/demo", "demo", "lib", Some("1.88"));
        demo["features"] = json!({ "bench": [], "default": ["text"], "text": ["templates"], "templates": [], "media": [] });
        demo["targets"] = json!([
            { "kind": ["example"], "name": "call" },
            { "kind": ["example"], "name": "chat", "required-features": ["templates"] },
            { "kind": ["example"], "name": "bench", "required-features": ["bench"] },
            { "kind": ["example"], "name": "faces", "required-features": ["media"] },
        ]);
        let mut hidden = package("crates/hidden", "hidden", "lib", Some("1.88"));
        hidden["publish"] = json!([]);
        hidden["dependencies"] = json!([
            { "name": "demo", "kind": null, "features": ["media"] },
            { "name": "demo", "kind": "dev", "features": ["bench"] },
        ]);
        let workspace = workspace(&[demo, hidden]);
        assert_eq!(workspace.crates[0].features, ["bench", "default", "media", "templates", "text"]);
        assert_eq!(workspace.crates[0].examples, ["call", "chat", "faces"]);
        assert_eq!(workspace.crates[1].dependencies, ["demo"], "the one of tests is left out");
        assert_eq!(workspace.crates.iter().map(|krate| krate.published).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn two_part_rust_version_is_its_first_release() {
        let short = workspace(&[package("crates/a", "a", "lib", Some("1.88"))]);
        let exact = workspace(&[package("crates/a", "a", "lib", Some("1.88.1"))]);
        assert_eq!(short.minimum_toolchain().unwrap(), "1.88.0");
        assert_eq!(exact.minimum_toolchain().unwrap(), "1.88.1");
    }

    #[test]
    fn crates_that_promise_different_versions_are_an_error() {
        let mixed =
            workspace(&[package("crates/a", "a", "lib", Some("1.88")), package("crates/b", "b", "lib", Some("1.90"))]);
        assert!(mixed.minimum_toolchain().unwrap_err().to_string().contains("a says"));
        let silent = workspace(&[package("crates/a", "a", "lib", None)]);
        assert!(silent.minimum_toolchain().is_err());
    }
}
