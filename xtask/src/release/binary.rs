//! The `pteron` command for the system that this runs on, with manual pages, completions and licences, as an archive.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::progress::{both, output, read, run};
use super::scratch::Scratch;
use super::{Release, bundle, symbols};

const PACKAGE: &str = "pteron-cli";

/// Files of the repository that are in the archive.
const FILES: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Shells and the names that they look for.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "pteron.bash"),
    ("elvish", "pteron.elv"),
    ("fish", "pteron.fish"),
    ("powershell", "_pteron.ps1"),
    ("zsh", "_pteron"),
];

/// The archive, and the folder in it.
pub(super) fn archive_name(release: &Release<'_>) -> String {
    format!("pteron-{}", release.target)
}

pub(super) fn build(release: &Release<'_>) -> Result<()> {
    let program = compile(release)?;
    let scratch = Scratch::new("archive")?;
    let folder = scratch.path().join(archive_name(release));
    fs::create_dir_all(folder.join("completions"))?;
    fs::copy(&program, folder.join(program.file_name().context("a program has a name")?))?;
    for file in FILES {
        fs::copy(release.root().join(file), folder.join(file)).with_context(|| file.to_owned())?;
    }
    let notices = release.describe(PACKAGE, &release.target)?;
    notices.write(&folder)?;
    notices.write(&release.out)?;
    run(Command::new(&program).arg("man").arg(folder.join("man")))?;
    for (shell, file) in SHELLS {
        fs::write(folder.join("completions").join(file), read(Command::new(&program).args(["completions", shell]))?)?;
    }
    bundle::pack(&folder, &release.out, &release.time)?;
    Ok(())
}

/// Compiles the command; under Linux for the oldest glibc, with zig as C compiler and linker.
fn compile(release: &Release<'_>) -> Result<PathBuf> {
    let target = &release.target;
    // With the features that the Python package has its dependencies compiled with, so that its wheel needs no second build of them.
    let packages = ["--package", PACKAGE, "--package", "pteron-python"];
    let options = ["--locked", "--release", "--bin", "pteron", "--target"];
    let folder = release.workspace.target.join(target).join("release");
    let program = folder.join("pteron").with_extension(std::env::consts::EXE_EXTENSION);
    if !target.ends_with("-linux-gnu") {
        run(release.cargo().arg("build").args(packages).args(options).arg(target))?;
        return Ok(program);
    }
    let mut zigbuild = release.tools()?.command("cargo-zigbuild")?;
    zigbuild
        .arg("zigbuild")
        .args(packages)
        .args(options)
        .arg(format!("{target}.{}", symbols::GLIBC))
        .current_dir(release.root());
    run(&mut zigbuild)?;
    Ok(program)
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    if cfg!(windows) {
        return Ok(vec!["the archive was not unpacked and run: unproven on Windows".to_owned()]);
    }
    let scratch = Scratch::new("binary")?;
    let name = archive_name(release);
    bundle::unpack(&release.out.join(format!("{name}.tgz")), scratch.path())?;
    let folder = scratch.path().join(&name);
    let program = folder.join("pteron");
    let mut notes = Vec::new();
    if cfg!(target_os = "linux") {
        notes.push(format!("needs glibc {} and no other library", symbols::check(&program)?));
    }
    notes.push(check_program(release, &scratch, &program, true)?);
    notes.push(check_manual(&scratch, &folder.join("man"))?);
    notes.push(check_completions(&scratch, &folder.join("completions"))?);
    Ok(notes)
}

/// Runs the program: its version, the check of its bundled model, and a text.
pub(super) fn check_program(release: &Release<'_>, scratch: &Scratch, program: &Path, optimised: bool) -> Result<String> {
    let version = read(scratch.command(program).arg("--version"))?;
    if version.trim() != format!("pteron {}", release.version) {
        bail!("--version prints {:?}, but the release has version {}", version.trim(), release.version);
    }
    let report: serde_json::Value = serde_json::from_str(&read(scratch.command(program).args(["doctor", "--json"]))?)?;
    let check = &report["check"];
    if report["ok"] != true || report["optimised"] != optimised {
        bail!("pteron doctor reports {report}");
    }
    let text = read(scratch.command(program).args(["run", "--quiet", "--max-tokens", "20", "To read a file in Rust, you"]))?;
    if text.split_whitespace().count() < 5 {
        bail!("pteron run prints {text:?}");
    }
    let (matching, tokens, adapter) = (&check["matching"], &check["tokens"], &check["adapter"]);
    Ok(format!(
        "`pteron doctor` finds {matching} of {tokens} tokens as PyTorch computes them on {adapter}; `pteron run` writes"
    ))
}

/// Renders every manual page, where `man` is installed.
fn check_manual(scratch: &Scratch, folder: &Path) -> Result<String> {
    let pages = super::checksums::files(folder)?;
    let names: Vec<_> = pages.iter().filter_map(|page| page.file_name()).map(|name| name.to_string_lossy()).collect();
    if !["pteron.1", "pteron-run.1", "pteron-serve.1"].iter().all(|name| names.iter().any(|found| found == name)) {
        bail!("the manual has only {}", names.join(", "));
    }
    if output(scratch.command("man").arg("--version")).is_err() {
        return Ok(format!("{} manual pages, not rendered: man is not installed", pages.len()));
    }
    for page in &pages {
        let rendered = output(
            scratch
                .command("man")
                .arg("--warnings")
                .arg("--local-file")
                .arg(page)
                .env("MANWIDTH", "100")
                .env("LC_ALL", "C.UTF-8"),
        )?;
        let text = String::from_utf8_lossy(&rendered.stdout).into_owned();
        if !rendered.status.success() || !rendered.stderr.is_empty() || !text.contains("SYNOPSIS") {
            bail!("man does not render {}:\n{}", page.display(), both(&rendered));
        }
    }
    Ok(format!("{} manual pages rendered by man without a warning", pages.len()))
}

/// Lets every shell that is installed read its completions.
fn check_completions(scratch: &Scratch, folder: &Path) -> Result<String> {
    let ask = "source \"$0\"; COMP_WORDS=(pteron insp); COMP_CWORD=1; _pteron pteron insp pteron; echo \"${COMPREPLY[*]}\"";
    let bash = read(scratch.command("bash").args(["--norc", "-c", ask]).arg(folder.join("pteron.bash")))?;
    if bash.trim() != "inspect" {
        bail!("bash completes `pteron insp` to {:?}", bash.trim());
    }
    let mut read_by = vec!["bash"];
    for (shell, file) in [("zsh", "_pteron"), ("fish", "pteron.fish")] {
        if output(scratch.command(shell).arg("--version")).is_ok() {
            read(scratch.command(shell).arg("--no-execute").arg(folder.join(file)))?;
            read_by.push(shell);
        }
    }
    let missing = SHELLS.iter().filter(|(_, file)| !folder.join(file).is_file()).count();
    if missing > 0 {
        bail!("{missing} completions are missing");
    }
    Ok(format!("completions for {} shells, read by {}", SHELLS.len(), read_by.join(", ")))
}
