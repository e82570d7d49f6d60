//! The farm: every target in turn, in slices, each a process of its own that resumes from the kept corpus.

mod args;
mod child;
mod dictionary;
mod run;
mod schedule;
mod slice;
mod state;
mod summary;

use clap::Parser;

pub use child::{execute, mutate};

/// Makes this process a libFuzzer process of one target, or runs the farm and ends.
pub fn initialize() {
    if child::initialize() {
        return;
    }
    let code = match run::run(&args::Args::parse()) {
        Ok(0) => 0,
        Ok(findings) => {
            eprintln!("farm: {findings} findings");
            1
        }
        Err(error) => {
            eprintln!("farm: {error}");
            2
        }
    };
    std::process::exit(code);
}
