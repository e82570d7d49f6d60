//! The `pteron` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    pteron_cli::main()
}
