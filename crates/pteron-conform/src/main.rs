//! Runs folders of exported programs and compares their outputs with PyTorch's.
//!
//! A folder holds `manifest.json` files: lists of operator cases, or a model with sequences of calls. A checkpoint beside a model is
//! converted, and the converted program must give the same outputs.

mod case;
mod convert;
mod manifest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use case::Outcome;
use clap::Parser;
use pteron::{Gpu, GpuOptions, LoadOptions, block_on};

/// Runs every case below the folders. Fails if there are none.
#[derive(Debug, Parser)]
struct Options {
    /// Folders with manifests below them.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Part of the name of the adapter to run on.
    #[arg(long)]
    adapter: Option<String>,
    /// Fail on missing operators, too.
    #[arg(long)]
    strict: bool,
    /// Run only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Compute each operator of the programs by itself, in 32 bits.
    #[arg(long)]
    exact: bool,
    /// Keep converted programs, as `DIR/MODEL/program.pte`.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Why a folder or a case could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
    #[error("{0}: no manifest.json with cases below it")]
    Empty(PathBuf),
    #[error("{0}")]
    Output(String),
}

impl Failure {
    pub(crate) fn file(path: &Path, error: &impl std::fmt::Display) -> Self {
        Self::File { path: path.display().to_string(), reason: error.to_string() }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conform: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let gpu = block_on(Gpu::open(&GpuOptions::default().with_adapter(options.adapter.clone())))?;
    let load = if options.exact { LoadOptions::exact() } else { LoadOptions::default() };
    let adapter = gpu.adapter();
    println!("adapter: {} ({}, {})", adapter.name, adapter.driver, adapter.backend);
    let (mut passed, mut failed, mut missing) = (0, 0, BTreeMap::<String, usize>::new());
    for folder in &options.folders {
        for case in manifest::find(folder)? {
            if options.only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
                continue;
            }
            match case::run(&gpu, &case, &load, options.keep.as_deref()) {
                Outcome::Passed { calls } => {
                    passed += 1;
                    println!("ok      {} ({calls} calls)", case.name);
                }
                Outcome::Missing(what) => {
                    println!("skipped {}: missing {what}", case.name);
                    *missing.entry(what).or_default() += 1;
                }
                Outcome::Failed(reason) => {
                    failed += 1;
                    println!("FAILED  {}: {reason}", case.name);
                }
            }
        }
    }
    for (what, cases) in &missing {
        println!("missing {what}: {cases} cases");
    }
    let skipped: usize = missing.values().sum();
    println!("conform: {passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0 && passed > 0 && !(options.strict && skipped > 0))
}
