//! What the Python package calls: the command itself, and commands whose result is a value instead of a text.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pteron_convert::Progress;

use crate::cli::{Cli, Command};
use crate::{convert, inspect};

/// Runs the command of these arguments, the first of which is the program's name, and returns its exit status.
///
/// A wrong command line, `--help` and `--version` end the process.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> u8 {
    let status = crate::main_of(Cli::parse_from(arguments));
    (0..=u8::MAX).find(|&code| ExitCode::from(code) == status).unwrap_or(1)
}

/// Describes a program, as `pteron inspect --json` does.
///
/// # Errors
/// The sentence that the command would print.
pub fn inspect(program: &Path, data: &[PathBuf]) -> Result<String, String> {
    inspect::describe(program, data).map_err(|failure| failure.to_string())
}

/// Runs `pteron convert` with these arguments and returns its report as `--json` prints it. `watch` sees the progress and may stop.
///
/// # Errors
/// The sentence that the command would print.
pub fn convert(arguments: Vec<OsString>, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<String, String> {
    let line = ["pteron", "convert"].into_iter().map(OsString::from).chain(arguments);
    let cli = Cli::try_parse_from(line).map_err(|error| first_sentence(&error.to_string()))?;
    match cli.command {
        Command::Convert(args) => convert::convert_silently(&args, watch).map_err(|failure| failure.to_string()),
        _ => Err("this is another command than convert".to_owned()),
    }
}

/// The first line of a text that clap wrote for a terminal.
fn first_sentence(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
