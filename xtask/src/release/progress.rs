//! Lines that say what runs, for how long it has run, and what came out.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The clock of a whole release.
pub(crate) struct Progress {
    start: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Prints a line with the time since the start before it.
    pub(crate) fn say(&self, text: &str) {
        println!("[{}] {text}", clock(self.start.elapsed().as_secs()));
    }

    /// Prints a line before some work and one with its time after it.
    pub(crate) fn stage<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.say(&format!("{name} …"));
        let start = Instant::now();
        let result = work().with_context(|| name.to_owned());
        let end = if result.is_ok() { "" } else { " FAILED" };
        self.say(&format!("{name}:{end} {:.1} s", start.elapsed().as_secs_f64()));
        result
    }
}

/// Minutes and seconds.
fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

/// Runs a command whose output is shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("{} could not be started", program(command)))?;
    if status.success() { Ok(()) } else { bail!("{} failed: {status}", line(command)) }
}

/// Runs a command and returns what it printed on standard output; its errors are part of the failure.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    bail!("{} failed: {}\n{}", line(command), output.status, both(&output));
}

/// Runs a command to its end, whether it succeeds or not.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("{} could not be started", program(command)))
}

/// What a command printed on both streams.
pub(crate) fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn line(command: &Command) -> String {
    let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    format!("{} {}", program(command), words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_minutes() {
        assert_eq!((clock(9).as_str(), clock(3601).as_str()), ("00:09", "60:01"));
    }

    #[test]
    #[cfg(unix)]
    fn a_failure_has_the_command_and_what_it_printed() {
        let error = read(Command::new("sh").args(["-c", "echo reason >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("reason") && error.contains('3'), "{error}");
        assert_eq!(read(Command::new("sh").args(["-c", "echo out"])).unwrap(), "out\n");
    }

    #[test]
    fn a_failed_stage_is_named() {
        let error = Progress::new().stage("npm", || -> Result<()> { bail!("no network") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "npm: no network");
    }
}
