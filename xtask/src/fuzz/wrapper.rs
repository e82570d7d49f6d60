//! The `RUSTC_WRAPPER` of fuzz builds: adds instrumentation flags for the crates that fuzzing should see.
//!
//! Flags for all crates would slow down code that is not under test, such as clap and wgpu.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// The environment variable that says which flags to add.
pub(crate) const VARIABLE: &str = "PTERON_FUZZ_INSTRUMENT";

/// Third-party crates that parse files or prompts.
const READERS: [&str; 6] = ["flatbuffers", "miniz_oxide", "rawzip", "regex_syntax", "safetensors", "serde_json"];

/// The instrumentation that the compiler adds.
#[derive(Clone, Copy)]
pub(crate) enum Instrument {
    /// Counters of edges and traced comparisons, for libFuzzer. They work with any Rust.
    Edges,
    /// Counters of regions, for a report.
    Regions,
}

impl Instrument {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Edges => "edges",
            Self::Regions => "regions",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Edges => &[
                "-Cpasses=sancov-module",
                "-Cllvm-args=-sanitizer-coverage-level=4",
                "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
                "-Cllvm-args=-sanitizer-coverage-pc-table",
                "-Cllvm-args=-sanitizer-coverage-trace-compares",
            ],
            Self::Regions => &["-Cinstrument-coverage"],
        }
    }

    fn sees(self, name: &str) -> bool {
        match self {
            Self::Edges => name.starts_with("pteron") || name == "farm" || READERS.contains(&name),
            Self::Regions => name.starts_with("pteron") || name == "smoke",
        }
    }
}

/// Returns the instrumentation that the environment asks for; `None` if cargo did not call this program.
pub(crate) fn wanted() -> Option<Instrument> {
    let name = std::env::var(VARIABLE).ok()?;
    [Instrument::Edges, Instrument::Regions].into_iter().find(|instrument| instrument.name() == name)
}

/// Runs rustc as cargo asks, with flags added where they belong.
pub(crate) fn rustc(instrument: Instrument) -> Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let rustc = arguments.next().context("cargo names the compiler first")?;
    let arguments: Vec<OsString> = arguments.collect();
    let mut command = Command::new(rustc);
    command.args(&arguments);
    if instrumented(instrument, &arguments) {
        command.args(instrument.flags());
    }
    if matches!(instrument, Instrument::Edges) && crate_name(&arguments) == Some("farm") {
        // It is copied to other machines; panics name their location without symbols.
        command.arg("-Cstrip=symbols");
    }
    let status = command.status().context("rustc could not be started")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn instrumented(instrument: Instrument, arguments: &[OsString]) -> bool {
    let is_macro = after(arguments, "--crate-type") == Some("proc-macro");
    !is_macro && crate_name(arguments).is_some_and(|name| instrument.sees(name))
}

fn crate_name(arguments: &[OsString]) -> Option<&str> {
    after(arguments, "--crate-name")
}

fn after<'a>(arguments: &'a [OsString], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1)?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_for_readers_alone() {
        let seen = |words: &str| {
            let arguments: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            instrumented(Instrument::Edges, &arguments)
        };
        assert!(seen("--crate-name pteron_gpu --crate-type lib"));
        assert!(seen("--crate-name serde_json --edition=2021 --crate-type lib"));
        assert!(!seen("--crate-name wgpu_core --crate-type lib"));
        assert!(!seen("--crate-name build_script_build --crate-type bin"));
        assert!(!seen("--crate-name pteron_macros --crate-type proc-macro"));
        assert!(!seen("-vV"));
    }
}
