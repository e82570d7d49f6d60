//! The `pteron` command.

mod cli;
mod devices;
mod exec;
mod failure;
mod files;
mod inspect;
mod npy;
mod npz;
mod table;
mod terminal;
mod units;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Inspect(args) => inspect::run(&args),
        cli::Command::Exec(args) => exec::run(&args),
        cli::Command::Devices(args) => devices::run(&args),
    }
}
