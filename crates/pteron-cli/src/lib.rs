//! Internals of the `pteron` command, for the binary, the Python package and fuzzers. Nothing here is a public API: it may change at any time.

mod bench;
mod calendar;
mod cli;
mod convert;
mod devices;
mod doctor;
#[doc(hidden)]
pub mod embedding;
mod exec;
mod failure;
mod files;
mod folders;
#[doc(hidden)]
pub mod fuzzing;
mod generate;
mod inspect;
mod interrupts;
mod loading;
mod models;
mod npy;
mod npz;
#[cfg(feature = "pull")]
mod pull;
mod reference;
#[cfg(feature = "serve")]
mod serve;
#[cfg(doctest)]
mod site;
mod table;
mod terminal;
mod tune;
mod units;

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line and runs the command it names.
#[doc(hidden)]
#[must_use]
pub fn main() -> ExitCode {
    main_of(cli::Cli::parse())
}

fn main_of(cli: cli::Cli) -> ExitCode {
    interrupts::install();
    match cli.command {
        cli::Command::Run(args) => generate::run(&args),
        cli::Command::Chat(args) => generate::chat(&args),
        #[cfg(feature = "serve")]
        cli::Command::Serve(args) => serve::run(args),
        cli::Command::Convert(args) => convert::run(&args),
        #[cfg(feature = "pull")]
        cli::Command::Pull(args) => pull::run(&args),
        cli::Command::Models(args) => models::run(&args),
        cli::Command::Inspect(args) => inspect::run(args),
        cli::Command::Exec(args) => exec::run(args),
        cli::Command::Bench(args) => bench::run(&args),
        cli::Command::Tune(args) => tune::run(&args),
        cli::Command::Devices(args) => devices::run(&args),
        cli::Command::Doctor(args) => doctor::run(&args),
        cli::Command::Completions(args) => reference::completions(&args),
        cli::Command::Manual(args) => reference::manual(&args),
    }
}
