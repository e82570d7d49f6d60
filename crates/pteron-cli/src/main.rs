//! The `pteron` command.

mod bench;
mod cache;
mod cli;
mod convert;
mod devices;
mod exec;
mod failure;
mod files;
mod inspect;
mod loading;
mod npy;
mod npz;
mod table;
mod talk;
mod terminal;
mod tune;
mod units;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command {
        cli::Command::Run(args) => talk::run(&args),
        cli::Command::Chat(args) => talk::chat(&args),
        cli::Command::Convert(args) => convert::run(&args),
        cli::Command::Inspect(args) => inspect::run(&args),
        cli::Command::Exec(args) => exec::run(&args),
        cli::Command::Bench(args) => bench::run(&args),
        cli::Command::Tune(args) => tune::run(&args),
        cli::Command::Devices(args) => devices::run(&args),
    }
}
