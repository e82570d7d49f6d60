//! The summary of a run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::{State, Totals};
use crate::{TARGETS, seeds};

/// The inputs of findings in a folder. Text files describe them; slow and hanging inputs are recognised by their names.
pub(super) fn findings(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let files = seeds::files(folder)?;
    Ok(files.into_iter().filter(|path| path.extension().is_none() && !name(path).starts_with("slow-unit-")).collect())
}

/// libFuzzer's own files of inputs that ended their process: the smallest of each kind are enough.
const MAX_ARTIFACTS: usize = 10;

/// Removes the largest inputs where many have ended their process in the same way.
pub(super) fn limit_artifacts(folder: &Path) -> Result<(), String> {
    for kind in ["crash-", "timeout-", "oom-", "slow-unit-"] {
        let files = seeds::files(folder)?.into_iter().filter(|path| name(path).starts_with(kind));
        let mut sized: Vec<_> = files.map(|path| (path.metadata().map_or(0, |metadata| metadata.len()), path)).collect();
        sized.sort();
        for (_, path) in sized.iter().skip(MAX_ARTIFACTS) {
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A table of this run and of all runs, and the findings.
pub(super) fn markdown(before: &State, after: &State, time: Duration, jobs: usize, out: &Path) -> String {
    let mut text = String::from("# Fuzz farm\n\n");
    let none = Totals::default();
    let row = |name: &str| (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
    text += "| target | executions, this run | seconds | per second | executions, all runs | edges | corpus | KiB | findings |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    let (mut run, mut seconds, mut all, mut found) = (0, 0.0, 0, 0);
    for target in TARGETS.iter().filter(|target| after.contains_key(target.name)) {
        let (old, new) = row(target.name);
        let (count, spent) = (new.executions - old.executions, new.seconds - old.seconds);
        let rate = if spent > 0.0 { count as f64 / spent } else { 0.0 };
        let _ = writeln!(
            text,
            "| {} | {} | {spent:.0} | {rate:.0} | {} | {} | {} | {} | {} |",
            target.name,
            grouped(count),
            grouped(new.executions),
            grouped(new.edges),
            grouped(new.corpus),
            grouped(new.corpus_bytes / 1024),
            new.findings,
        );
        run += count;
        seconds += spent;
        all += new.executions;
        found += new.findings;
    }
    let rate = if seconds > 0.0 { run as f64 / seconds } else { 0.0 };
    let _ = writeln!(text, "| all | {} | {seconds:.0} | {rate:.0} | {} | | | | {found} |", grouped(run), grouped(all));
    let _ = writeln!(text, "\n{:.1} minutes with {jobs} processes.", time.as_secs_f64() / 60.0);
    for target in TARGETS.iter().filter(|target| after.contains_key(target.name)) {
        for path in findings(&out.join("findings").join(target.name)).unwrap_or_default() {
            let said = std::fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
            let shown: String = said.trim().chars().filter(|c| !c.is_control()).take(200).collect();
            let _ = writeln!(text, "- FINDING in {}: `{}` {shown}", target.name, name(&path));
        }
    }
    text
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_table_tells_this_run_from_all_runs() {
        let state =
            |executions, seconds| State::from([("gguf".to_owned(), Totals { executions, seconds, ..Totals::default() })]);
        let text = markdown(&state(1000, 1.0), &state(5000, 3.0), Duration::from_secs(60), 2, Path::new("/nowhere"));
        assert!(text.contains("| gguf | 4,000 | 2 | 2000 | 5,000 |"), "{text}");
        assert!(text.contains("| all | 4,000 | 2 | 2000 | 5,000 |"), "{text}");
    }
}
