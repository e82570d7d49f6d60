//! `cargo xtask web`: the wasm, the JavaScript around it, the npm package and the page.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::steps::{has_target, stdout_of};
use crate::workspace::Workspace;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// The profile in the workspace's Cargo.toml: small before fast.
const PROFILE: &str = "web";
const GENERATOR: &str = "xtask/bindgen";
/// The oldest major version of Node that runs the build tools.
const NODE: u32 = 20;
/// Screenshots and figures of the browser tests; git ignores the folder.
const ARTIFACTS: &str = "target/web-artifacts";

/// Arguments of npm that install the packages of a folder as its lock file says, without running their scripts.
pub(crate) fn npm_arguments(folder: &str) -> [&str; 6] {
    ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"]
}

/// Builds everything: `web/pteron` can then be packed and `web/dist` served.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    if let Some(reason) = without_node().or_else(old_node) {
        bail!(reason);
    }
    if !has_target(TARGET) {
        bail!("Rust's standard library for {TARGET} is not installed: rustup target add {TARGET}");
    }
    let root = &workspace.root;
    same_bindgen(root)?;
    stage("npm packages", || fetch_packages(root))?;
    stage("wasm", || run(cargo(root).args(["build", "--package", "pteron-web", "--target", TARGET, "--profile", PROFILE])))?;
    let compiled = workspace.target.join(TARGET).join(PROFILE).join("pteron_web.wasm");
    let package = root.join("web/pkg");
    let seen = workspace.target.join("web").join("bound.wasm");
    if same_bytes(&compiled, &seen) && package.join("pteron_web_bg.wasm").exists() {
        println!("   web: the wasm has not changed, nor has its JavaScript");
    } else {
        // Until all outputs are written they belong to no compiled wasm.
        let _ = fs::remove_file(&seen);
        stage("JavaScript around it", || bind(workspace, &compiled, &package))?;
        stage("wasm-opt", || shrink(root, &package.join("pteron_web_bg.wasm")))?;
        fs::create_dir_all(workspace.target.join("web"))?;
        fs::copy(&compiled, &seen).context("a copy of the wasm could not be kept")?;
    }
    stage("package and page", || run(Command::new("node").arg("web/build.mjs").current_dir(root)))
}

/// Builds and compares the speed of the page with that of the command, on the same driver.
pub(crate) fn bench(workspace: &Workspace) -> Result<()> {
    build(workspace)?;
    stage("pteron, for comparison", || {
        run(cargo(&workspace.root).args(["build", "--release", "--package", "pteron-cli", "--bin", "pteron"]))
    })?;
    let pteron = workspace.target.join("release/pteron").with_extension(std::env::consts::EXE_EXTENSION);
    let mut node = Command::new("node");
    node.args(["web/tests/speed.mjs", "--pteron"]).arg(pteron).args(["--artifacts", ARTIFACTS]);
    if let Some(browser) = find_chromium() {
        node.arg("--browser").arg(browser);
    }
    run(node.current_dir(&workspace.root))
}

/// Returns Node's arguments for the tests that need no browser: those in the subfolders of `web/tests`.
pub(crate) fn unit_tests(root: &Path) -> Result<Vec<String>> {
    let folders = entries(&root.join("web/tests"))?.into_iter().filter(|path| path.is_dir());
    let files: Vec<_> = folders.map(|folder| entries(&folder)).collect::<Result<Vec<_>>>()?.concat();
    let tests = files.iter().filter(|path| path.to_string_lossy().ends_with(".test.mjs"));
    let names = tests.map(|path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned());
    Ok(["--test", "--test-reporter=spec"].map(str::to_owned).into_iter().chain(names).collect())
}

/// Returns Node's arguments for the tests in a browser.
pub(crate) fn browser_tests(pteron: &Path, browser: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let words = ["--test-reporter=spec", "web/tests/all.mjs", "--artifacts", ARTIFACTS, "--pteron"].map(str::to_owned);
    words.into_iter().chain([text(pteron), "--browser".to_owned(), text(browser)]).collect()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))?;
    let mut paths = read.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns why npm cannot run here, if so.
pub(crate) fn without_node() -> Option<String> {
    let missing = ["node", "npm"].into_iter().find(|program| stdout_of(Command::new(program).arg("--version")).is_none())?;
    Some(format!("{missing} is not installed; where apt is, ./test installs it"))
}

/// Returns why the installed Node is not usable, if so.
pub(crate) fn old_node() -> Option<String> {
    let version = stdout_of(Command::new("node").arg("--version"))?;
    let major = version.trim().trim_start_matches('v').split('.').next()?.parse::<u32>().ok()?;
    (major < NODE)
        .then(|| format!("Node {} is too old: the browser part is built and tested with {NODE} or later", version.trim()))
}

/// The browser that `PTERON_CHROMIUM` names, or the first that is there.
pub(crate) fn find_chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PTERON_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|program| program.is_file())
}

/// Prints one line before the work and one with its time after it.
fn stage(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("   web: {name} …");
    let start = Instant::now();
    work().with_context(|| format!("{name} could not be made"))?;
    println!("   web: {name}, {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root);
    cargo
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} could not be started"))?;
    if status.success() {
        return Ok(());
    }
    let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    bail!("{program} {} failed: {status}", words.join(" "))
}

/// Installs npm packages unless npm's own record of the installed ones is newer than the lock file.
fn fetch_packages(root: &Path) -> Result<()> {
    let modified = |path: &str| fs::metadata(root.join(path)).and_then(|file| file.modified()).ok();
    let installed = modified("web/node_modules/.package-lock.json");
    let lock = modified("web/package-lock.json").context("web/package-lock.json is not there")?;
    if installed.is_some_and(|installed| installed >= lock) {
        return Ok(());
    }
    run(Command::new("npm").args(npm_arguments("web")).current_dir(root))
        .context("without a network there are no npm packages; with one, `npm ci --prefix web` says more")
}

fn bind(workspace: &Workspace, compiled: &Path, package: &Path) -> Result<()> {
    let manifest = format!("{GENERATOR}/Cargo.toml");
    let target = workspace.target.join("bindgen");
    // Not with the flags of the workspace's own profile: this is a program of another one.
    run(cargo(&workspace.root)
        .args(["build", "--quiet", "--locked", "--release", "--manifest-path", &manifest, "--target-dir"])
        .arg(&target))?;
    fs::create_dir_all(package)?;
    let program = target.join("release/pteron-bindgen").with_extension(std::env::consts::EXE_EXTENSION);
    run(Command::new(program).arg(compiled).arg(package))
}

/// Runs wasm-opt in place. Level 1: higher levels make the file smaller, but the compressed download larger.
fn shrink(root: &Path, wasm: &Path) -> Result<()> {
    let smaller = wasm.with_extension("smaller");
    run(Command::new("node")
        .arg(root.join("web/node_modules/binaryen/bin/wasm-opt"))
        .args(["-O1", "--strip-debug", "--strip-producers", "-o"])
        .arg(&smaller)
        .arg(wasm))?;
    fs::rename(&smaller, wasm).context("the smaller wasm could not be moved to its place")
}

fn same_bytes(a: &Path, b: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
    length(a).is_some() && length(a) == length(b) && fs::read(a).ok() == fs::read(b).ok()
}

/// Checks that the generator has the version of the `wasm-bindgen` crate: another one cannot read its sections of the wasm.
fn same_bindgen(root: &Path) -> Result<()> {
    let version = |lock: &str, name: &str| -> Result<String> {
        let text = fs::read_to_string(root.join(lock)).with_context(|| format!("{lock} could not be read"))?;
        locked_version(&text, name).with_context(|| format!("{lock} has no {name}"))
    };
    let used = version("Cargo.lock", "wasm-bindgen")?;
    let generator = version(&format!("{GENERATOR}/Cargo.lock"), "wasm-bindgen-cli-support")?;
    if used != generator {
        bail!("Cargo.lock has wasm-bindgen {used}, but {GENERATOR}/Cargo.toml asks for {generator}: write {used} there");
    }
    Ok(())
}

/// The version of a package in the text of a Cargo.lock.
fn locked_version(lock: &str, name: &str) -> Option<String> {
    let name = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_the_version_of_the_crate() {
        same_bindgen(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    }

    #[test]
    fn a_version_is_that_of_the_whole_name() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"2.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        assert_eq!(locked_version(lock, "a").as_deref(), Some("1.0.0"));
        assert_eq!(locked_version(lock, "a-b").as_deref(), Some("2.0.0"));
        assert_eq!(locked_version(lock, "b"), None);
    }
}
