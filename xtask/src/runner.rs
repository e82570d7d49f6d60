//! Runs all steps one after the other, also after a failure, and prints a summary.

mod skipped;

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::rules;
use crate::steps::{Invocation, Job, Step};
use crate::workspace::Workspace;
use skipped::Skipped;

/// Result of a step, with a note of one line.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

struct Report {
    name: &'static str,
    outcome: Outcome,
    /// Tests that did not run.
    skipped: Skipped,
    time: Duration,
}

/// Runs the steps, prints their output as it comes and the summary last.
pub(crate) fn run(steps: &[&Step], workspace: &Workspace) -> ExitCode {
    let mut reports = Vec::with_capacity(steps.len());
    for step in steps {
        println!("\n== {}: {}", step.name, step.why);
        let start = Instant::now();
        let mut skipped = Skipped::default();
        let outcome = execute(step, workspace, &mut skipped).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        let report = Report { name: step.name, outcome, skipped, time: start.elapsed() };
        println!("== {report}");
        reports.push(report);
    }
    println!("\n{}", summary(&reports));
    let failed = reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, note) = match &self.outcome {
            Outcome::Passed(note) => ("passed", note),
            Outcome::Failed(note) => ("FAILED", note),
            Outcome::Skipped(note) => ("skipped", note),
        };
        write!(f, "{:<14} {status:<8} {:>7.1} s", self.name, self.time.as_secs_f64())?;
        if note.is_empty() { Ok(()) } else { write!(f, "  {note}") }
    }
}

/// One line per step, then the skipped tests by reason, then the counts as the last line.
fn summary(reports: &[Report]) -> String {
    let mut text: String = reports.iter().map(|report| format!("{report}\n")).collect();
    for report in reports {
        text += &report.skipped.list(report.name);
    }
    let count = |which: fn(&Outcome) -> bool| reports.iter().filter(|report| which(&report.outcome)).count();
    text += &format!(
        "steps: {} passed, {} failed, {} skipped",
        count(|outcome| matches!(outcome, Outcome::Passed(_))),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    let tests: u64 = reports.iter().map(|report| report.skipped.count()).sum();
    if tests > 0 {
        text += &format!("; {tests} tests skipped");
    }
    text
}

fn execute(step: &Step, workspace: &Workspace, skipped: &mut Skipped) -> Result<Outcome> {
    match step.action.job(workspace)? {
        Job::Skip(reason) => Ok(Outcome::Skipped(reason)),
        Job::Rules => rules::check(&workspace.root).map(|violations| {
            for violation in &violations {
                println!("{violation}");
            }
            match violations.len() {
                0 => Outcome::Passed(String::new()),
                count => Outcome::Failed(format!("{count} broken, listed above")),
            }
        }),
        Job::Run(invocations) => {
            let reported = skipped::File::create(&workspace.target, step.name)?;
            let mut tests = TestCount::default();
            let outcome = run_all(&invocations, workspace, &reported, &mut tests, skipped)?;
            skipped.read(&reported)?;
            tests.passed = tests.passed.saturating_sub(skipped.reported());
            tests.skipped += skipped.count();
            Ok(match outcome {
                Outcome::Passed(_) if tests.passed == 0 && invocations.iter().any(|run| run.counts_tests) => {
                    Outcome::Failed("not one test was run".to_owned())
                }
                Outcome::Passed(_) => Outcome::Passed(tests.to_string()),
                Outcome::Failed(_) => Outcome::Failed(tests.to_string()),
                Outcome::Skipped(reason) => Outcome::Skipped(reason),
            })
        }
    }
}

/// Runs commands until one fails.
fn run_all(
    invocations: &[Invocation],
    workspace: &Workspace,
    reported: &skipped::File,
    tests: &mut TestCount,
    skipped: &mut Skipped,
) -> Result<Outcome> {
    for invocation in invocations {
        println!("   $ {}", invocation.display());
        for (part, reason) in &invocation.left_out {
            skipped.add(part, reason);
        }
        if !start(invocation, &workspace.root, reported, tests, skipped)? {
            return Ok(match invocation.skip_on_failure {
                Some(reason) => Outcome::Skipped(reason.to_owned()),
                None => Outcome::Failed(String::new()),
            });
        }
    }
    Ok(Outcome::Passed(String::new()))
}

/// Runs one command to its end; whether it succeeded.
fn start(
    invocation: &Invocation,
    root: &Path,
    reported: &skipped::File,
    tests: &mut TestCount,
    skipped: &mut Skipped,
) -> Result<bool> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.args).envs(invocation.env.iter().copied()).current_dir(root).stdin(Stdio::null());
    command.env(skipped::VARIABLE, reported.path());
    if invocation.counts_tests {
        command.stdout(Stdio::piped());
    }
    let mut child = command.spawn().with_context(|| format!("{} could not be started", invocation.display()))?;
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            tests.add(&text);
            if let Some((test, reason)) = skipped::ignored(&text) {
                skipped.add(test, reason);
            }
            print!("{text}");
            line.clear();
        }
    }
    Ok(child.wait()?.success())
}

/// Sum of the result lines that Rust's test harness prints, one per test binary, and of those that Node's prints.
#[derive(Default)]
struct TestCount {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl TestCount {
    fn add(&mut self, line: &str) {
        if let Some((what, count)) = node_count(line) {
            match what {
                "pass" => self.passed += count,
                "fail" | "cancelled" => self.failed += count,
                _ => {}
            }
            return;
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = counts.split_whitespace().collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1].trim_end_matches(';') {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                _ => {}
            }
        }
    }
}

/// `ℹ pass 12`, as Node's test runner ends its report.
fn node_count(line: &str) -> Option<(&str, u64)> {
    let (what, count) = line.strip_prefix("ℹ ")?.trim_end().split_once(' ')?;
    Some((what, count.parse().ok()?))
}

impl fmt::Display for TestCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.passed, "passed"), (self.failed, "failed"), (self.skipped, "skipped")];
        let counts: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if counts.is_empty() { Ok(()) } else { write!(f, "tests: {}", counts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_ends_with_the_counts() {
        let report =
            |outcome| Report { name: "step", outcome, skipped: Skipped::default(), time: Duration::from_millis(1250) };
        let text = summary(&[
            report(Outcome::Passed("tests: 3 passed".to_owned())),
            report(Outcome::Passed(String::new())),
            report(Outcome::Failed(String::new())),
            report(Outcome::Skipped("no network".to_owned())),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "step           passed       1.2 s  tests: 3 passed");
        assert_eq!(lines[3], "step           skipped      1.2 s  no network");
        assert_eq!(lines[4], "steps: 2 passed, 1 failed, 1 skipped");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn summary_lists_and_counts_skipped_tests() {
        let mut skipped = Skipped::default();
        skipped.add("ops::a", "no 16-bit floats");
        let report = Report { name: "test", outcome: Outcome::Passed(String::new()), skipped, time: Duration::ZERO };
        let text = summary(&[report]);
        assert!(text.contains("no 16-bit floats") && text.contains("ops::a"), "{text}");
        assert!(text.ends_with("steps: 1 passed, 0 failed, 0 skipped; 1 tests skipped"), "{text}");
    }

    #[test]
    fn test_results_of_all_binaries_are_added() {
        let mut count = TestCount::default();
        count.add("running 5 tests\n");
        count.add("test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        count.add("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n");
        assert_eq!(count.to_string(), "tests: 5 passed, 2 failed");
    }

    #[test]
    fn results_of_node_are_added_too() {
        let mut count = TestCount::default();
        for line in ["ℹ tests 9\n", "ℹ suites 3\n", "ℹ pass 6\n", "ℹ fail 1\n", "ℹ cancelled 0\n", "ℹ skipped 2\n"]
        {
            count.add(line);
        }
        count.add("ℹ peak of wasm memory: 40 MB\n");
        assert_eq!(count.to_string(), "tests: 6 passed, 1 failed");
    }
}
