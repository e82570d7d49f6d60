//! The npm package: installed into an empty project, loaded in Node, and its types checked.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::progress::{read, run};
use super::scratch::Scratch;
use super::{Release, licences};
use crate::web;

/// The folder that is packed, and the model that a manifest is written of.
const PACKAGE: &str = "web/pteron";
const MODEL: &str = "models/demo/model.pte";
const PROGRAM: &str = include_str!("consumer/check.mjs");
const TYPES: &str = include_str!("consumer/check.ts");

/// What a user needs of the package.
const REQUIRED: [&str; 8] = [
    "README.md",
    "bin/manifest.mjs",
    "dist/LICENSE-APACHE",
    "dist/LICENSE-MIT",
    "dist/THIRD-PARTY-LICENSES.txt",
    "dist/index.d.ts",
    "dist/index.js",
    "dist/pteron.wasm",
];

fn archive(release: &Release<'_>) -> String {
    format!("pteron-{}.tgz", release.version)
}

pub(super) fn build(release: &Release<'_>) -> Result<()> {
    web::build(release.workspace)?;
    let package = release.root().join(PACKAGE);
    fs::write(package.join("dist").join(licences::FILE), release.describe("pteron-web", web::TARGET)?)?;
    let pack = ["pack", "--json", "--ignore-scripts", "--pack-destination"];
    let printed = read(Command::new("npm").args(pack).arg(&release.out).current_dir(&package))?;
    let packed: Value = serde_json::from_str(&printed).context("npm pack printed no JSON")?;
    let files: Vec<&str> =
        packed[0]["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str()).collect();
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|needed| !files.contains(needed)).collect();
    if !missing.is_empty() {
        bail!("the package lacks {}", missing.join(", "));
    }
    if packed[0]["version"] != release.version.as_str() || packed[0]["filename"] != archive(release).as_str() {
        bail!("npm packed {} {}", packed[0]["filename"], packed[0]["version"]);
    }
    Ok(())
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    let scratch = Scratch::new("npm")?;
    let folder = scratch.path();
    fs::write(folder.join("package.json"), "{ \"private\": true, \"type\": \"module\" }\n")?;
    let install = ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    run(Command::new("npm").args(install).arg(release.out.join(archive(release))).current_dir(folder))?;

    fs::write(folder.join("check.mjs"), PROGRAM)?;
    let loaded = read(Command::new("node").arg("check.mjs").current_dir(folder))?;

    fs::write(folder.join("check.ts"), TYPES)?;
    let tsc = release.root().join("web/node_modules/typescript/bin/tsc");
    let options =
        ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.asynciterable"];
    run(Command::new("node").arg(tsc).args(options).arg("check.ts").current_dir(folder))?;

    fs::copy(release.root().join(MODEL), folder.join("model.pte"))?;
    let integrity = read(Command::new("node").args(["node_modules/.bin/pteron-manifest", "model.pte"]).current_dir(folder))?;
    let manifest: Value = serde_json::from_str(&fs::read_to_string(folder.join("model.pte.manifest.json"))?)?;
    let bytes = fs::metadata(folder.join("model.pte"))?.len();
    if integrity.trim().is_empty() || !manifest.to_string().contains(&bytes.to_string()) {
        bail!("pteron-manifest wrote {manifest}");
    }
    let notes = ["its types are accepted by tsc, and refuse a wrong option", "`pteron-manifest` writes a model's manifest"];
    Ok(std::iter::once(loaded.trim()).chain(notes).map(str::to_owned).collect())
}
