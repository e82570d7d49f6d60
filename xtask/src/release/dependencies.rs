//! The crates that are linked into a program or library: what an SBOM lists and whose licences travel with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::progress::read;
use crate::workspace::Workspace;

/// A crate of a build.
#[derive(Debug, Default)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression; empty where the crate names none.
    pub(crate) license: String,
    pub(crate) repository: Option<String>,
    /// Of the package on crates.io; none for crates of this repository.
    pub(crate) sha256: Option<String>,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// Whether it is of this repository.
    pub(crate) own: bool,
    /// Those of the same build that it depends on, by index.
    pub(crate) dependencies: Vec<usize>,
}

/// A crate with everything that is linked into it on a target, itself first.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) target: String,
    pub(crate) components: Vec<Component>,
}

impl Linked {
    /// Asks cargo. Procedural macros, build scripts and tests are in no program.
    pub(crate) fn load(workspace: &Workspace, package: &str, target: &str) -> Result<Self> {
        let cargo = |args: &[&str]| read(Command::new("cargo").args(args).current_dir(&workspace.root));
        let edges = "normal,no-proc-macro";
        let tree = ["tree", "--locked", "--package", package, "--edges", edges, "--target", target];
        let tree = cargo(&[&tree[..], &["--prefix", "none", "--format", "{p}"]].concat())?;
        let metadata = cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", target])?;
        let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock")).context("Cargo.lock could not be read")?;
        let components = components(&tree, &serde_json::from_str(&metadata)?, &lock)?;
        Ok(Self { target: target.to_owned(), components })
    }

    /// The crate that all others are linked into.
    pub(crate) fn root(&self) -> &Component {
        &self.components[0]
    }

    /// The crates of others.
    pub(crate) fn third_party(&self) -> impl Iterator<Item = &Component> {
        self.components.iter().filter(|component| !component.own)
    }
}

/// The crates of a tree, in its order, with what metadata and lock file know of them.
fn components(tree: &str, metadata: &Value, lock: &str) -> Result<Vec<Component>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut index: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let mut components: Vec<Component> = Vec::new();
    for (name, version) in tree.lines().filter_map(name_and_version) {
        if index.contains_key(&(name, version)) {
            continue;
        }
        let package = packages.iter().find(|package| package["name"] == name && package["version"] == version);
        let package = package.with_context(|| format!("cargo metadata has no {name} {version}"))?;
        index.insert((name, version), components.len());
        ids.insert(package["id"].as_str().unwrap_or_default(), components.len());
        components.push(Component {
            name: name.to_owned(),
            version: version.to_owned(),
            license: expression(package["license"].as_str().unwrap_or_default()),
            repository: package["repository"].as_str().map(str::to_owned),
            sha256: checksum(lock, name, version),
            folder: package["manifest_path"]
                .as_str()
                .and_then(|path| Path::new(path).parent())
                .unwrap_or(Path::new(""))
                .into(),
            own: package["source"].is_null(),
            dependencies: Vec::new(),
        });
    }
    anyhow::ensure!(!components.is_empty(), "cargo tree lists no crate");
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        let Some(from) = node["id"].as_str().and_then(|id| ids.get(id)) else { continue };
        let normal = node["deps"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|edge| edge["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null()));
        let mut to: Vec<usize> = normal.filter_map(|edge| ids.get(edge["pkg"].as_str()?).copied()).collect();
        to.sort_unstable();
        to.dedup();
        components[*from].dependencies = to;
    }
    Ok(components)
}

/// `serde v1.0.0 (/path) (*)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// An SPDX expression; older manifests have a slash for `OR`.
fn expression(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// The checksum of a package in the text of a Cargo.lock.
fn checksum(lock: &str, name: &str, version: &str) -> Option<String> {
    let (name, version) = (format!("name = \"{name}\""), format!("version = \"{version}\""));
    let mut entries = lock.split("[[package]]");
    let entry = entries.find(|entry| {
        let mut lines = entry.trim_start().lines();
        lines.next() == Some(name.as_str()) && lines.next() == Some(version.as_str())
    })?;
    entry.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"')).map(str::to_owned)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    const TREE: &str = "app v0.1.0 (/repo/app)\nb v2.0.0\na v1.0.0+x\nb v2.0.0 (*)\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nsource = \"registry\"\nchecksum = \"aa11\"\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"00\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"bb22\"\n";

    fn metadata() -> Value {
        let package = |name: &str, version: &str, source: Value, license: &str| {
            json!({
                "id": format!("{name}@{version}"), "name": name, "version": version, "source": source, "license": license,
                "manifest_path": format!("/registry/{name}/Cargo.toml"), "repository": format!("https://a.example/{name}"),
            })
        };
        json!({
            "packages": [
                package("a", "1.0.0+x", json!("registry"), "MIT/Apache-2.0"),
                package("app", "0.1.0", Value::Null, "MIT"),
                package("b", "1.0.0", json!("registry"), "ISC"),
                package("b", "2.0.0", json!("registry"), "Zlib"),
            ],
            "resolve": { "nodes": [
                { "id": "app@0.1.0", "deps": [
                    { "pkg": "b@2.0.0", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "b@1.0.0", "dep_kinds": [{ "kind": "build" }] },
                    { "pkg": "a@1.0.0+x", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "b@2.0.0", "deps": [{ "pkg": "a@1.0.0+x", "dep_kinds": [{ "kind": "dev" }, { "kind": null }] }] },
                { "id": "a@1.0.0+x", "deps": [] },
            ] },
        })
    }

    /// A program with two crates below it.
    pub(in crate::release) fn linked() -> Linked {
        Linked { target: "x86_64-unknown-linux-gnu".to_owned(), components: components(TREE, &metadata(), LOCK).unwrap() }
    }

    #[test]
    fn components_are_those_of_the_tree_with_their_checksums_and_edges() {
        let linked = linked();
        let seen: Vec<_> = linked.components.iter().map(|part| (part.name.as_str(), part.version.as_str())).collect();
        assert_eq!(seen, [("app", "0.1.0"), ("b", "2.0.0"), ("a", "1.0.0+x")]);
        let sums: Vec<_> = linked.components.iter().map(|part| part.sha256.as_deref()).collect();
        assert_eq!(sums, [None, Some("bb22"), Some("aa11")]);
        let edges: Vec<_> = linked.components.iter().map(|part| part.dependencies.clone()).collect();
        assert_eq!(edges, [vec![1], vec![2], vec![]]);
        assert_eq!(linked.third_party().count(), 2);
        assert_eq!((linked.root().name.as_str(), linked.components[2].license.as_str()), ("app", "MIT OR Apache-2.0"));
    }

    #[test]
    fn a_crate_that_metadata_lacks_is_named() {
        let error = components("gone v1.0.0\n", &metadata(), LOCK).unwrap_err().to_string();
        assert_eq!(error, "cargo metadata has no gone 1.0.0");
        assert!(components("", &metadata(), LOCK).is_err());
    }
}
