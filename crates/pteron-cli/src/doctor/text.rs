//! The report for people.

use super::Report;
use super::check::Check;
use crate::table::{Cell, Table};
use crate::terminal::{FAINT, HEADING, NUMBER, PLAIN, TITLE, WARNING, clean};
use crate::units::{plural, time};

/// The whole report. `width` is that of the terminal, if there is one.
pub(super) fn render(report: &Report, width: Option<usize>) -> String {
    let system = &report.system;
    let build = if report.optimised { "release build" } else { "debug build" };
    let mut about = vec![build.to_owned(), format!("{} {}", system.os, system.arch)];
    about.extend(system.distribution.clone());
    about.extend(system.kernel.as_ref().map(|kernel| format!("kernel {kernel}")));
    about.extend(system.cores.map(|cores| plural(cores, "core")));
    let mut out = format!("{TITLE}pteron {}{TITLE:#}  {}\n", report.version, clean(&about.join(" · ")));

    heading(&mut out, "Adapters");
    if report.adapters.is_empty() {
        out.push_str(&format!("  {WARNING}none{WARNING:#}\n"));
    }
    for device in &report.adapters {
        // All details of the adapter in use; for the others only what distinguishes them.
        if device.used { device.write(&mut out, 2, width) } else { device.write_line(&mut out, 2, width) }
    }
    heading(&mut out, "Files");
    files(report).write(&mut out, 2, width);
    if !system.environment.is_empty() {
        heading(&mut out, "Environment");
        let mut table = Table::default();
        system.environment.iter().for_each(|line| table.row([Cell::new(line)]));
        table.write(&mut out, 2, width);
    }
    heading(&mut out, "Bundled model");
    out.push_str(&format!("  {}\n", result(&report.check)));
    out
}

fn heading(out: &mut String, text: &str) {
    out.push_str(&format!("{HEADING}{text}{HEADING:#}\n"));
}

fn files(report: &Report) -> Table {
    let mut table = Table::default();
    for folder in &report.folders {
        let path = folder.path.as_ref().map_or_else(|| "no folder".to_owned(), |path| path.display().to_string());
        let state = folder.error.as_ref().map_or_else(|| "writable".to_owned(), |error| format!("not writable: {error}"));
        let style = if folder.writable { PLAIN } else { WARNING };
        table.row([Cell::new(folder.purpose).style(FAINT), Cell::new(path), Cell::new(state).style(style)]);
    }
    let tuning = &report.tuning;
    let entries = match (tuning.entries, tuning.knows_adapter) {
        (0, _) => "no tuning stored".to_owned(),
        (1, true) => "1 tuning, for this adapter".to_owned(),
        (count, true) => format!("{count} tunings, some for this adapter"),
        (count, false) => format!("{}, none for this adapter", plural(count, "tuning")),
    };
    let (text, style) = match &tuning.warning {
        Some(warning) => (warning.clone(), WARNING),
        None => (entries, PLAIN),
    };
    table.row([Cell::new("tuning file").style(FAINT), Cell::new(text).style(style)]);
    table
}

fn result(check: &Check) -> String {
    if let Some(error) = &check.error {
        return format!("{WARNING}FAILED{WARNING:#}: {}", clean(error));
    }
    let Check { tokens, matching, .. } = check;
    let counted = format!("{matching} of {tokens} tokens are PyTorch's");
    let load = check.load_seconds.map(|seconds| format!(" · loaded in {}", time(seconds))).unwrap_or_default();
    let rate = check.tokens_per_second.map(|rate| format!(" · {rate:.1} tok/s, prompts included")).unwrap_or_default();
    match check.ok {
        true => format!("{NUMBER}OK{NUMBER:#}: {counted}{load}{rate}"),
        false => format!("{WARNING}WRONG OUTPUT{WARNING:#}: {counted}{load}{rate}; please report this"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_names_the_error() {
        let good = Check { ok: true, tokens: 72, matching: 72, load_seconds: Some(0.5), ..Check::default() };
        assert!(result(&good).ends_with(": 72 of 72 tokens are PyTorch's · loaded in 500 ms"), "{}", result(&good));
        let wrong = Check { ok: false, matching: 70, ..good };
        assert!(result(&wrong).contains("WRONG OUTPUT") && result(&wrong).contains("70 of 72"));
        let failed = Check { error: Some("no adapter\u{1b}".to_owned()), ..Check::default() };
        assert!(result(&failed).contains("FAILED") && result(&failed).ends_with("no adapter\\u{1b}"));
    }
}
