//! The npm package: installed into an empty project, loaded in Node, and its types checked.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Release;
use super::progress::{output, read, run};
use super::scratch::Scratch;
use crate::steps::SWIFTSHADER;
use crate::web;

/// The folder that is packed, and the model that is loaded with it.
const PACKAGE: &str = "web/pteron";
const MODEL: (&str, [&str; 3]) = ("models/demo", ["goldens.json", "model.pte", "tokenizer.json"]);
/// Where the checks pin Dawn's version.
const DAWN: &str = "web/tint/package.json";
const PROGRAM: &str = include_str!("consumer/check.mjs");
const TYPES: &str = include_str!("consumer/check.ts");

/// What a user needs of the package.
const REQUIRED: [&str; 9] = [
    "README.md",
    "bin/manifest.mjs",
    "dist/LICENSE-APACHE",
    "dist/LICENSE-MIT",
    "dist/RUST-LIBRARY-LICENSES.html",
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
    release.describe("pteron-web", web::TARGET)?.write(&package.join("dist"))?;
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

    for file in MODEL.1 {
        fs::copy(release.root().join(MODEL.0).join(file), folder.join(file))?;
    }
    let integrity = read(Command::new("node").args(["node_modules/.bin/pteron-manifest", "model.pte"]).current_dir(folder))?;
    let manifest: Value = serde_json::from_str(&fs::read_to_string(folder.join("model.pte.manifest.json"))?)?;
    let bytes = fs::metadata(folder.join("model.pte"))?.len();
    if integrity.trim().is_empty() || !manifest.to_string().contains(&bytes.to_string()) {
        bail!("pteron-manifest wrote {manifest}");
    }
    Ok(vec![
        loaded.trim().to_owned(),
        compute(release, folder)?,
        "its types are accepted by tsc, and refuse a wrong option".to_owned(),
        "`pteron-manifest` writes a model's manifest".to_owned(),
    ])
}

/// Computes with Dawn, Chromium's WebGPU, where a driver that it takes and the network are there.
fn compute(release: &Release<'_>, folder: &Path) -> Result<String> {
    if !Path::new(SWIFTSHADER).exists() {
        return Ok("nothing was computed: SwiftShader is not installed".to_owned());
    }
    let manifest: Value = serde_json::from_str(&fs::read_to_string(release.root().join(DAWN))?)?;
    let version = manifest["dependencies"]["webgpu"].as_str().with_context(|| format!("{DAWN} names no webgpu"))?;
    let install = ["install", "--no-audit", "--no-fund", "--silent"];
    let fetched = output(Command::new("npm").args(install).arg(format!("webgpu@{version}")).current_dir(folder))?;
    if !fetched.status.success() {
        return Ok("nothing was computed: npm could not fetch Dawn".to_owned());
    }
    let mut node = Command::new("node");
    node.args(["check.mjs", "goldens.json"]).current_dir(folder).env("VK_ICD_FILENAMES", SWIFTSHADER);
    Ok(read(&mut node)?.trim().to_owned())
}
