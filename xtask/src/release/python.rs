//! The Python package: the wheel in an environment without torch and numpy, and the source distribution built by pip.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::progress::{read, run};
use super::scratch::Scratch;
use super::{Release, binary, checksums, licences, symbols};

const PACKAGE: &str = "crates/pteron-python";
const PROGRAM: &str = include_str!("consumer/check.py");
/// A program that adds two tensors, and the files of a language model.
const ADDITION: &str = "fixtures/ops/add_broadcast/program.pte";
const MODEL: (&str, [&str; 2]) = ("models/demo", ["model.pte", "tokenizer.json"]);
/// The largest wheel that is promised.
const MAX_BYTES: u64 = 25_000_000;

pub(super) fn build(release: &Release<'_>) -> Result<()> {
    let manifest = release.root().join(PACKAGE).join("Cargo.toml");
    let maturin = |args: &[&str]| -> Result<()> {
        let mut maturin = release.tools()?.command("maturin")?;
        maturin.args(args).arg("--manifest-path").arg(&manifest).arg("--out").arg(&release.out);
        run(maturin.current_dir(release.root()))
    };
    maturin(&["sdist"])?;
    // Only the wheel has other people's code in it. The files are where pyproject.toml looks for licences, and git ignores them.
    let folder = release.root().join(PACKAGE);
    release.describe("pteron-python", &release.target)?.write(&folder)?;
    let mut build = vec!["build", "--quiet", "--release", "--locked", "--target", &release.target];
    if cfg!(target_os = "linux") {
        build.push("--zig");
    }
    let built = maturin(&build);
    for file in [licences::FILE, licences::LIBRARY_FILE] {
        fs::remove_file(folder.join(file))?;
    }
    built
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    let wheel = find(release, ".whl")?;
    let mut notes = vec![check_wheel(release, &wheel)?];
    let scratch = Scratch::new("python")?;
    let environment = scratch.path().join("venv");
    run(Command::new(release.tools()?.python()).args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"];
    run(Command::new(&python).args(pip).arg(&wheel))?;

    fs::copy(release.root().join(ADDITION), scratch.path().join("model.pte"))?;
    fs::create_dir_all(scratch.path().join("llama"))?;
    for file in MODEL.1 {
        fs::copy(release.root().join(MODEL.0).join(file), scratch.path().join("llama").join(file))?;
    }
    fs::write(scratch.path().join("check.py"), PROGRAM)?;
    let printed = read(scratch.command(&python).arg("check.py").arg(release.root().join("README.md")))?;
    notes.push(format!("without torch and numpy: {}", printed.lines().last().unwrap_or_default()));
    let command = binary::check_program(release, &scratch, &environment.join("bin/pteron"), true)?;
    notes.push(format!("the command in the wheel: {command}"));
    notes.push(check_sdist(release, &scratch)?);
    Ok(notes)
}

/// The one artefact whose name ends so.
fn find(release: &Release<'_>, end: &str) -> Result<PathBuf> {
    let name = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end));
    let mut found: Vec<PathBuf> = checksums::files(&release.out)?.into_iter().filter(name).collect();
    match (found.pop(), found.len()) {
        (Some(path), 0) => Ok(path),
        _ => bail!("there is not one artefact *{end}"),
    }
}

/// Name, size, contents and symbols.
fn check_wheel(release: &Release<'_>, wheel: &Path) -> Result<String> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    check_name(&name, &release.version, cfg!(target_os = "linux"))?;
    let bytes = fs::metadata(wheel)?.len();
    if bytes >= MAX_BYTES {
        bail!("{name} has {bytes} bytes, {MAX_BYTES} or more");
    }
    let scratch = Scratch::new("wheel")?;
    let python = release.tools()?.python();
    run(Command::new(python).args(["-m", "zipfile", "--extract"]).arg(wheel).arg(scratch.path()))?;
    let information = scratch.path().join(format!("pteron-{}.dist-info", release.version));
    for file in ["LICENSE-APACHE", "LICENSE-MIT", licences::FILE, licences::LIBRARY_FILE] {
        if !information.join("licenses").join(file).is_file() {
            bail!("{name} is without {file}");
        }
    }
    let mut libraries = checksums::files(&scratch.path().join("pteron"))?;
    libraries
        .retain(|path| path.extension().is_some_and(|extension| ["so", "pyd", "dylib"].iter().any(|one| extension == *one)));
    let [library] = libraries.as_slice() else { bail!("{name} has {} native libraries instead of one", libraries.len()) };
    let need = if cfg!(target_os = "linux") { format!(", needs glibc {}", symbols::check(library)?) } else { String::new() };
    Ok(format!("{name}: {:.1} MB of at most {} MB, one native library{need}", mega(bytes), MAX_BYTES / 1_000_000))
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// `pteron-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl`.
fn check_name(name: &str, version: &str, linux: bool) -> Result<()> {
    let parts: Vec<&str> = name.trim_end_matches(".whl").split('-').collect();
    let [package, found, python, abi, platform] = parts[..] else { bail!("{name} is no name of a wheel") };
    if package != "pteron" || found != version || python != "cp310" || abi != "abi3" {
        bail!("{name} is not for version {version} and every Python from 3.10");
    }
    if linux && !platform.split('.').any(|tag| tag.starts_with("manylinux_2_28_")) {
        bail!("{name} is not for manylinux_2_28");
    }
    Ok(())
}

/// Lets pip build a wheel of the source distribution, with the dependencies as the tests compile them.
fn check_sdist(release: &Release<'_>, scratch: &Scratch) -> Result<String> {
    let sdist = find(release, ".tar.gz")?;
    let wheels = scratch.path().join("wheels");
    let tools = release.tools()?;
    let pip =
        ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"];
    let mut build = Command::new(tools.python());
    build.args(pip).arg("--wheel-dir").arg(&wheels).arg(&sdist).current_dir(scratch.path());
    build.env("PATH", tools.path()?).env("CARGO_TARGET_DIR", &release.workspace.target);
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    run(build.env("MATURIN_PEP517_ARGS", "--profile dev --compatibility linux"))?;
    let wheel = checksums::files(&wheels)?.pop().context("pip built no wheel")?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name, &release.version, false)?;
    let bytes = fs::metadata(&sdist)?.len();
    Ok(format!("the source distribution, {:.1} MB, is built by pip", mega(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_name_says_what_it_is_for() {
        assert!(check_name("pteron-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl", "0.1.0", true).is_ok());
        assert!(check_name("pteron-0.1.0-cp310-abi3-macosx_11_0_arm64.whl", "0.1.0", false).is_ok());
        for (name, reason) in [
            ("pteron-0.1.0-cp310-abi3-linux_x86_64.whl", "not for manylinux_2_28"),
            ("pteron-0.2.0-cp310-abi3-manylinux_2_28_x86_64.whl", "not for version 0.1.0"),
            ("pteron-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "every Python from 3.10"),
            ("pteron.whl", "no name of a wheel"),
        ] {
            let error = check_name(name, "0.1.0", true).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
