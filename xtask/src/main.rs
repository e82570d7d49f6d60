//! Checks and developer tools of Pteron, run as `cargo xtask`.
//!
//! `cargo xtask test` is what continuous integration runs; its steps are the table [`steps::STEPS`].

mod bench_open;
mod benchmarks;
mod changelog;
mod examples;
mod features;
mod fuzz;
mod package;
mod ray;
mod release;
mod roundtrip;
mod rules;
mod runner;
mod site;
mod steps;
mod web;
mod workspace;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The program that `bench-open` uses if none is named, from the repository's root.
const SMALL_PROGRAM: &str = "fixtures/llama/tiny_4w/program.pte";

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and developer tools of Pteron")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check, or the named ones, and print a summary
    Test {
        /// Run this step alone; may be given more than once
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Print the steps and their commands instead of running them
        #[arg(long)]
        list: bool,
    },
    /// Read, write and read again every .pte and .ptd below some folders, and compare
    Roundtrip {
        /// Folders to look in
        #[arg(required = true, value_name = "DIR")]
        dirs: Vec<PathBuf>,
        /// Where the written files go, in the same tree
        #[arg(long, value_name = "OUT")]
        out: PathBuf,
    },
    /// Run the programs below some folders and compare with PyTorch's outputs
    Conform {
        /// Folders, and other arguments of `pteron-conform`
        #[arg(required = true, value_name = "DIR", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Measure how long a program with a gigabyte of weights takes to open
    BenchOpen {
        /// The program whose tables are used; without it a small fixture
        #[arg(long, value_name = "FILE")]
        model: Option<PathBuf>,
        /// How many bytes of weights are added, as a hole in a sparse file
        #[arg(long, default_value_t = 1 << 30)]
        bytes: u64,
    },
    /// Write docs/benchmarks/speed.md again, from the runs in benches/runs
    Benchmarks,
    /// Fuzz every layer for some time: all targets in turn, the corpus kept, one summary in fuzz/artifacts/farm
    Fuzz(fuzz::Options),
    /// Package every crate, check the packages' sizes, and compile them as crates.io would serve them
    Package,
    /// Build everything that is published, install each artefact in a scratch folder and run it
    Release(release::Options),
    /// Compile every crate with no, each single and all features
    Features,
    /// Build and run every example
    Examples,
    /// Test the Ray Serve application with a local cluster; installs Ray into target/ray
    Ray,
    /// Build the documentation site into target/site/book, check its links, and run the code blocks of its pages
    Site {
        /// Only run the blocks of pages whose path contains one of these words
        #[arg(value_name = "WORD")]
        only: Vec<String>,
    },
    /// Build the npm package and the page: `web/pteron` and `web/dist`
    Web {
        /// Then compare the page's speed with that of the command, on the same driver
        #[arg(long)]
        bench: bool,
    },
}

fn main() -> ExitCode {
    let result = match fuzz::wrapper::wanted() {
        // cargo calls this program in the place of rustc.
        Some(instrument) => fuzz::wrapper::rustc(instrument),
        None => run(Cli::parse().command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Test { only, list } => {
            let steps = steps::select(&only)?;
            let workspace = Workspace::load()?;
            if !list {
                return Ok(runner::run(&steps, &workspace));
            }
            // A reader that has seen enough, as in `| head`, is no fault.
            let _ = std::io::stdout().write_all(steps::list(&steps, &workspace).as_bytes());
        }
        Command::Roundtrip { dirs, out } => roundtrip::run(&dirs, &out)?,
        Command::Conform { args } => {
            let status = steps::conform(&Workspace::load()?, args)?;
            return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::BenchOpen { model, bytes } => {
            let model = model.map_or_else(|| Ok(Workspace::load()?.root.join(SMALL_PROGRAM)), anyhow::Ok)?;
            bench_open::run(&model, bytes)?;
        }
        Command::Benchmarks => benchmarks::run(&Workspace::load()?)?,
        Command::Fuzz(options) => return fuzz::run(&Workspace::load()?, &options),
        Command::Package => package::run(&Workspace::load()?)?,
        Command::Release(options) => return release::run(&Workspace::load()?, &options),
        Command::Features => features::run(&Workspace::load()?)?,
        Command::Examples => examples::run(&Workspace::load()?)?,
        Command::Ray => ray::run(&Workspace::load()?)?,
        Command::Site { only } => return site::run(&Workspace::load()?, &only),
        Command::Web { bench: false } => web::build(&Workspace::load()?)?,
        Command::Web { bench: true } => web::bench(&Workspace::load()?)?,
    }
    Ok(ExitCode::SUCCESS)
}
