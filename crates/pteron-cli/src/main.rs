//! The `pteron` command.

mod cli;
mod failure;
mod files;
mod inspect;
mod mapped;
mod terminal;
mod units;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Inspect(args) => inspect::run(&args),
    }
}
