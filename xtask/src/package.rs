//! `cargo xtask package`: the packages that `cargo publish` would upload, checked without uploading.
//!
//! `cargo package` warns of missing metadata; a warning fails here. The packages are then unpacked side by side and compiled as one
//! workspace: a file that is missing from a package, or a path that leads out of it, is a compile error. That is `cargo package`'s own
//! verification, but it shares the dependencies that other checks have compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The largest package that crates.io takes.
const MAX_BYTES: u64 = 10 << 20;
/// Every package carries these.
const REQUIRED: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The packages of all crates that are published, unpacked side by side.
pub(crate) struct Packages {
    pub(crate) names: Vec<String>,
    /// In the order of the names.
    pub(crate) archives: Vec<PathBuf>,
    /// The folder that they are unpacked into.
    pub(crate) folder: PathBuf,
}

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let packages = prepare(workspace)?;
    write_workspace(workspace, &packages, &[])?;
    compile(workspace, &packages)
}

/// Packages, checks and unpacks every crate that is published.
pub(crate) fn prepare(workspace: &Workspace) -> Result<Packages> {
    let names: Vec<String> =
        workspace.crates.iter().filter(|krate| krate.published).map(|krate| krate.name.clone()).collect();
    let archives = package(workspace, &names)?;
    let folder = workspace.target.join("package").join("unpacked");
    // What an earlier run unpacked.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut problems = Vec::new();
    for (name, archive) in names.iter().zip(&archives) {
        let bytes = fs::metadata(archive).with_context(|| archive.display().to_string())?.len();
        println!("   {name}: {} kB", bytes.div_ceil(1000));
        if bytes >= MAX_BYTES {
            problems.push(format!("{name} is {bytes} bytes, more than the {MAX_BYTES} that crates.io takes"));
        }
        let unpacked = unpack(archive, &folder)?;
        let missing = REQUIRED.iter().filter(|file| !unpacked.join(file).is_file());
        problems.extend(missing.map(|file| format!("{name} is packaged without {file}")));
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(Packages { names, archives, folder })
}

/// Packages the crates and returns their archives, in the same order.
fn package(workspace: &Workspace, names: &[String]) -> Result<Vec<PathBuf>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--no-verify", "--allow-dirty", "--target-dir"]).arg(&workspace.target);
    cargo.args(names.iter().flat_map(|name| ["--package", name.as_str()])).current_dir(&workspace.root);
    let output = cargo.output().context("cargo could not be started")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("cargo package failed:\n{text}");
    }
    if has_warning(&text) {
        bail!("cargo package warns:\n{text}");
    }
    let archive = |krate: &crate::workspace::Crate| {
        workspace.target.join("package").join(format!("{}-{}.crate", krate.name, krate.version))
    };
    Ok(workspace.crates.iter().filter(|krate| krate.published).map(archive).collect())
}

fn has_warning(output: &str) -> bool {
    output.lines().any(|line| line.trim_start().starts_with("warning"))
}

/// Unpacks an archive and returns the folder that it contains.
fn unpack(archive: &Path, into: &Path) -> Result<PathBuf> {
    // With `-m`, files get the present time. In an archive all have the same one, and cargo would not see that any has changed.
    let status =
        Command::new("tar").arg("-xzmf").arg(archive).arg("-C").arg(into).status().context("tar could not be started")?;
    if !status.success() {
        bail!("tar could not unpack {}", archive.display());
    }
    Ok(into.join(archive.file_stem().unwrap_or_default()))
}

impl Packages {
    /// The name of the folder of each package.
    fn folders(&self) -> Vec<String> {
        let stems = self.archives.iter().map(|archive| archive.file_stem().unwrap_or_default());
        stems.map(|stem| stem.to_string_lossy().into_owned()).collect()
    }
}

/// Makes a workspace of the unpacked packages and further folders beside them. All take each other from there.
pub(crate) fn write_workspace(workspace: &Workspace, packages: &Packages, more: &[&str]) -> Result<()> {
    let folders = packages.folders();
    let patches: String =
        packages.names.iter().zip(&folders).map(|(name, folder)| format!("{name} = {{ path = \"{folder}\" }}\n")).collect();
    let profile = profile_of(&fs::read_to_string(workspace.root.join("Cargo.toml"))?);
    let members: Vec<&str> = folders.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let manifest =
        format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[patch.crates-io]\n{patches}\n{profile}");
    fs::write(packages.folder.join("Cargo.toml"), manifest)?;
    fs::copy(workspace.root.join("Cargo.lock"), packages.folder.join("Cargo.lock"))?;
    // The packages are on no registry, so cargo must not look there; their dependencies have to be on this machine. If that fails
    // without a network, the build says what is missing.
    let mut fetch = Command::new("cargo");
    let _ = fetch.args(["fetch", "--quiet", "--locked"]).current_dir(&workspace.root).status();
    Ok(())
}

/// Compiles the unpacked packages.
fn compile(workspace: &Workspace, packages: &Packages) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "--workspace", "--offline", "--target-dir"]).arg(&workspace.target).current_dir(&packages.folder);
    if !cargo.status().context("cargo could not be started")?.success() {
        bail!("the packages do not compile outside the repository; they are in {}", packages.folder.display());
    }
    Ok(())
}

/// The profile sections of a manifest: dependencies that are compiled with the same profile are shared.
fn profile_of(manifest: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[profile.");
        }
        if inside && !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_begin_with_warning_are_warnings() {
        assert!(has_warning("   Packaging a\nwarning: manifest has no documentation\n"));
        assert!(!has_warning("   Packaging no-warning v0.1.0\n    Packaged 9 files\n"));
    }

    #[test]
    fn profiles_are_copied_without_the_other_sections() {
        let manifest = "[workspace]\nmembers = []\n\n# Fast.\n[profile.dev]\ndebug = 1\n[profile.dev.package]\nnaga = {}\n[lints]\nx = 1\n";
        assert_eq!(profile_of(manifest), "[profile.dev]\ndebug = 1\n[profile.dev.package]\nnaga = {}\n");
    }
}
