//! `cargo xtask fuzz`: builds the fuzz farm, runs it, and measures the coverage of its corpus.
//!
//! The farm itself is a program of the workspace below `fuzz/`: it can be carried to a machine that has no compiler.

mod coverage;
pub(crate) mod wrapper;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::workspace::Workspace;
use wrapper::Instrument;

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Options {
    /// How long to fuzz, in hours
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// How long to fuzz, in minutes; added to the hours
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// Processes at a time [default: one per core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Run this target alone; may be given more than once
    #[arg(long, value_name = "TARGET")]
    only: Vec<String>,
    /// Run the targets that compute, too, on the best adapter there is
    #[arg(long)]
    gpu: bool,
    /// Build with a sanitizer, which needs nightly Rust
    #[arg(long, value_name = "NAME")]
    sanitizer: Option<Sanitizer>,
    /// Build the farm and its seeds into this folder, to be carried elsewhere, and do not run it
    #[arg(long, value_name = "FOLDER")]
    package: Option<PathBuf>,
    /// Do not measure the coverage of the corpus at the end
    #[arg(long)]
    no_coverage: bool,
}

/// A sanitizer of rustc.
#[derive(Clone, Copy, ValueEnum)]
enum Sanitizer {
    /// Reads and writes out of bounds, use after free
    Address,
}

/// The target triple of this machine, as far as fuzzing knows it: sanitizers need it by name.
const TRIPLE: &str = if cfg!(target_os = "macos") { "aarch64-apple-darwin" } else { "x86_64-unknown-linux-gnu" };

/// Builds and runs the farm, or packs it.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let farm = build_farm(&workspace.root, options)?;
    if let Some(folder) = &options.package {
        return package(&workspace.root, &farm, folder, options);
    }
    let out = workspace.root.join("fuzz/artifacts/farm");
    // The farm ends by itself with a summary when Ctrl-C is pressed; this process waits for it.
    ctrlc::set_handler(|| {}).context("Ctrl-C could not be caught")?;
    let mut command = Command::new(&farm);
    command.args(["--hours", &options.hours.to_string(), "--minutes", &options.minutes.to_string()]);
    command.arg("--out").arg(&out).arg("--repository").arg(&workspace.root);
    if let Some(jobs) = options.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    command.args(options.only.iter().flat_map(|name| ["--only", name]));
    if options.gpu {
        command.arg("--gpu");
    }
    let status = command.status().with_context(|| format!("{} could not be started", farm.display()))?;
    if !options.no_coverage {
        coverage::report(workspace, &out)?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the farm and returns its path.
fn build_farm(root: &Path, options: &Options) -> Result<PathBuf> {
    let features = if options.gpu { "libfuzzer,gpu" } else { "libfuzzer" };
    let arguments = ["build", "--release", "--features", features, "--bin", "farm"];
    match options.sanitizer {
        None => {
            let target = root.join("fuzz/target/farm");
            cargo(root, Command::new("cargo").args(arguments), &target, Instrument::Edges)?;
            Ok(target.join("release/farm"))
        }
        Some(Sanitizer::Address) => {
            let target = root.join("fuzz/target/farm-address");
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "cargo"]).args(arguments).args(["--target", TRIPLE]);
            command.env("RUSTFLAGS", "-Zsanitizer=address").env_remove("RUSTUP_TOOLCHAIN");
            cargo(root, &mut command, &target, Instrument::Edges)?;
            Ok(target.join(TRIPLE).join("release/farm"))
        }
    }
}

/// Runs a cargo command over `fuzz/`, with this program between cargo and rustc.
fn cargo(root: &Path, command: &mut Command, target: &Path, instrument: Instrument) -> Result<()> {
    let own = std::env::current_exe().context("the path of this program")?;
    command.arg("--manifest-path").arg(root.join("fuzz/Cargo.toml")).arg("--target-dir").arg(target);
    command.env("RUSTC_WRAPPER", own).env(wrapper::VARIABLE, instrument.name());
    let status = command.status().context("cargo could not be started")?;
    if !status.success() {
        bail!("the fuzzers could not be built: libFuzzer needs a C++ compiler, a sanitizer needs nightly Rust");
    }
    Ok(())
}

/// Puts the farm and its seeds into a folder.
fn package(root: &Path, farm: &Path, folder: &Path, options: &Options) -> Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let copy = folder.join("farm");
    std::fs::copy(farm, &copy).with_context(|| copy.display().to_string())?;
    // A run of no length writes the seeds.
    let made = folder.join("made");
    let mut command = Command::new(&copy);
    command.arg("--out").arg(&made).arg("--repository").arg(root).arg("--no-merge");
    if options.gpu {
        command.arg("--gpu");
    }
    let status = command.stdout(std::process::Stdio::null()).status().context("the farm could not be started")?;
    if !status.success() {
        bail!("the seeds could not be written");
    }
    let seeds = folder.join("seeds");
    let _ = std::fs::remove_dir_all(&seeds);
    std::fs::rename(made.join("seeds"), &seeds).context("the seeds")?;
    std::fs::remove_dir_all(&made).context("the seeds")?;
    println!("to run it: {} --minutes 9 --out DIRECTORY --seeds {}", copy.display(), seeds.display());
    Ok(ExitCode::SUCCESS)
}
