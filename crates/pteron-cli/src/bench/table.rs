//! The report for people, as Markdown that reads well at a terminal.

use super::agreement::Agreement;
use super::cases::Case;
use super::first_token::FirstToken;
use super::length_sweep::LengthSweep;
use super::report::{Figures, Memory, Outcome, Report, Test};
use crate::table::{Cell, Table};
use crate::terminal::clean;
use crate::units::{bytes, count, time};

/// Columns: header, and whether they hold numbers.
const COLUMNS: [(&str, bool); 13] = [
    ("test", false),
    ("depth", true),
    ("tok/s", true),
    ("min … max", true),
    ("wall", true),
    ("GPU", true),
    ("wall − GPU", true),
    ("GB/s", true),
    ("of reads", true),
    ("dispatches", true),
    ("uploaded", true),
    ("ratio", true),
    ("note", false),
];

/// The last column.
const NOTE: usize = COLUMNS.len() - 1;

/// The placeholder for a missing figure.
const NONE: &str = "–";

/// Renders adapter and program, checks, the table, and the meaning of its columns.
pub(super) fn render(report: &Report) -> String {
    let mut out = head(report);
    report.checks.iter().map(Agreement::sentences).for_each(|text| out.push_str(&text));
    out.push_str(&report.first_token.as_ref().map(FirstToken::sentences).unwrap_or_default());
    out.push_str(&report.length_sweep.as_ref().map(LengthSweep::sentences).unwrap_or_default());
    if !report.tests.is_empty() {
        tests(report).write_markdown(&mut out);
        out.push_str(&legend(report));
    }
    if !report.peers.is_empty() {
        out.push_str(&peers(report));
    }
    out
}

fn head(report: &Report) -> String {
    let (adapter, program) = (&report.adapter, &report.program);
    let date = report.date.replace('T', " ").replace('Z', " UTC");
    let build = if report.optimised { "" } else { ", debug build" };
    let [cold, warm] = [report.loading.cold_seconds, report.loading.warm_seconds].map(time);
    let tuning = report.tuning.as_ref().map(|tuning| format!("; tuned: {tuning}")).unwrap_or_default();
    format!(
        "**{}** ({}, {}), {date}, pteron {}{build}\n\n\
         **{}**: {}, context {}, {} tokens per call, vocabulary {}; {}; loads in {cold} cold, {warm} warm{tuning}\n\n",
        clean(&adapter.name),
        clean(&adapter.driver),
        clean(&adapter.backend),
        report.version,
        clean(&program.name),
        bytes(program.bytes),
        count(program.context_length.into()),
        count(program.call_tokens.into()),
        count(program.vocab_size.into()),
        memory(&report.memory),
    )
}

fn memory(memory: &Memory) -> String {
    let Memory { program_bytes, state_bytes, planned_bytes, ratio, .. } = *memory;
    let allocated = match (memory.allocated_bytes, memory.reserved_bytes) {
        (Some(used), Some(reserved)) => {
            format!("; {} allocated, {} reserved", bytes(used), bytes(reserved))
        }
        _ => String::new(),
    };
    format!(
        "{} of GPU memory ({} of it KV cache{allocated}), {ratio:.2} × the {} planned by the file",
        bytes(program_bytes + state_bytes),
        bytes(state_bytes),
        bytes(planned_bytes),
    )
}

fn tests(report: &Report) -> Table {
    let cell = |text: String, (_, right): (&str, bool)| if right { Cell::new(text).right() } else { Cell::new(text) };
    let mut table = Table::default();
    table.row(COLUMNS.map(|column| cell(column.0.to_owned(), column)));
    for test in &report.tests {
        table.row(cells(report, test).into_iter().zip(COLUMNS).map(|(text, column)| cell(text, column)));
    }
    table
}

fn cells(report: &Report, test: &Test) -> [String; COLUMNS.len()] {
    let mut cells = [const { String::new() }; COLUMNS.len()];
    cells[0] = test.case.name();
    cells[1] = count(test.case.depth().into());
    cells[2..11].fill(NONE.to_owned());
    match (&test.outcome, report.figures(test)) {
        (Outcome::Skipped { skipped }, _) => cells[NOTE] = format!("skipped: {skipped}"),
        (Outcome::Measured { work, .. }, Some(figures)) => {
            let Figures { wall, gpu, .. } = figures;
            let tokens = f64::from(test.case.tokens());
            // Prefill is timed as a whole, decode per token.
            let each =
                |seconds: f64| time(if matches!(test.case, Case::Prefill { .. }) { seconds } else { seconds / tokens });
            cells[2] = speed(figures.tokens_per_second);
            cells[3] = format!("{} … {}", speed(tokens / wall.max), speed(tokens / wall.min));
            cells[4] = each(wall.median);
            cells[5] = gpu.map_or_else(|| NONE.to_owned(), |gpu| each(gpu.median));
            cells[6] = figures.gap_call_seconds.map_or_else(|| NONE.to_owned(), |gap| time(gap.median.max(0.0)));
            cells[7] = figures.read_bytes_per_second.map_or_else(|| NONE.to_owned(), |rate| speed(rate / 1e9));
            cells[8] = figures.read_share.map_or_else(|| NONE.to_owned(), |share| format!("{:.1} %", 100.0 * share));
            cells[9] = count(work.each(work.dispatches));
            cells[10] = bytes(work.each(work.uploaded_bytes));
            cells[11] = figures.ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default();
        }
        (Outcome::Measured { .. }, None) => {}
    }
    cells
}

/// A rate with three significant digits, or all before the point.
fn speed(rate: f64) -> String {
    let digits = match rate {
        rate if rate < 9.995 => 2,
        rate if rate < 99.95 => 1,
        _ => 0,
    };
    format!("{rate:.digits$}")
}

fn legend(report: &Report) -> String {
    let runs = match report.repeat {
        1 => "one run after a warm-up".to_owned(),
        repeat => format!("the median of {repeat} runs after a warm-up, with the slowest and the fastest"),
    };
    let mut out = format!(
        "\ntok/s: {runs}, by wall time. wall, GPU: of the whole prompt (pp), or per token (tg). wall − GPU, dispatches, uploaded: \
         per call.\n"
    );
    if let Some(against) = report.against {
        out.push_str(&format!(
            "ratio: the time of a run {against} relative to the measured one; the median of runs in turns.\n"
        ));
    }
    if report.tests.iter().any(|test| matches!(test.case, Case::Decode { .. })) {
        let [constants, cache] =
            [report.program.constant_bytes_per_token, report.program.cache_bytes_per_position].map(bytes);
        out.push_str(&format!(
            "GB/s: the least a token must read ({constants} of constants, {cache} of KV cache per position), by wall time."
        ));
        if let Some(reading) = &report.reading {
            out.push_str(&format!(
                " of reads: relative to {} GB/s, the rate of a kernel that only reads {} in the same process.",
                speed(reading.bytes_per_second / 1e9),
                bytes(reading.buffer_bytes),
            ));
        }
        out.push('\n');
    }
    out
}

/// Our speeds beside those of the peers: one row per test, with the ratio of our median to theirs.
fn peers(report: &Report) -> String {
    let mut table = Table::default();
    let number = |text: String| Cell::new(text).right();
    let heads = report.peers.iter().flat_map(|peer| [number(clean(&peer.name).into_owned()), number("ratio".to_owned())]);
    let own = [Cell::new("test"), number("depth".to_owned()), number("pteron tok/s".to_owned())];
    table.row(own.into_iter().chain(heads));
    for test in &report.tests {
        let own = report.figures(test).map(|figures| figures.tokens_per_second);
        let text = |rate: Option<f64>| number(rate.map_or_else(|| NONE.to_owned(), speed));
        let others = report.peers.iter().flat_map(|peer| {
            let other = peer.speed(test.case).map(|summary| summary.median);
            let ratio = own.zip(other).map_or_else(|| NONE.to_owned(), |(own, other)| format!("{:.2}", own / other));
            [text(other), number(ratio)]
        });
        let first = [Cell::new(test.case.name()), number(count(test.case.depth().into())), text(own)];
        table.row(first.into_iter().chain(others));
    }
    let mut out = "\n".to_owned();
    table.write_markdown(&mut out);
    out.push_str("\nIn turns, medians of tokens per second; ratio: ours to theirs, above 1 ours is faster.\n");
    for peer in &report.peers {
        let told = [&peer.build, &peer.backends, &peer.gpu].into_iter().flatten().map(|text| clean(text));
        let told: Vec<_> = std::iter::once(clean(&peer.model)).chain(told).collect();
        out.push_str(&format!("{}: {}\n", clean(&peer.name), told.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{compared, sample};
    use super::super::{agreement, length_sweep};
    use super::*;

    #[test]
    fn figures_are_aligned_below_their_headers() {
        let text = render(&sample());
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            table[..4],
            [
                "| test    | depth | tok/s |   min … max |   wall |    GPU | wall − GPU | GB/s | of reads | dispatches | uploaded | note                                                  |",
                "|---------|------:|------:|------------:|-------:|-------:|-----------:|-----:|---------:|-----------:|---------:|-------------------------------------------------------|",
                "| pp 100  |     0 |   200 |   100 … 250 | 500 ms | 400 ms |     100 ms |    – |        – |        141 |     60 B |                                                       |",
                "| tg 9    |   495 |  5.00 | 4.74 … 5.14 | 200 ms | 178 ms |    27.8 ms | 0.01 |   12.5 % |        140 |     60 B |                                                       |",
            ]
        );
        assert!(table[4].ends_with("| skipped: needs 2,048 positions, the context has 1,024 |"), "{}", table[4]);
        assert_eq!(table.len(), 5);
        let widths: Vec<usize> = table.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    }

    #[test]
    fn header_and_legend_describe_the_measurement() {
        let text = render(&sample());
        assert!(
            text.starts_with("**Wing <3000>** (feather 1.2, vulkan), 2026-11-15 14:43:35 UTC, pteron 0.1.0\n"),
            "{text}"
        );
        for part in [
            "**bird & co.pte**: 3.0 MiB, context 1,024, 511 tokens per call, vocabulary 6,144; 5.0 MiB of GPU memory",
            "(1.0 MiB of it KV cache), 1.25 × the 4.0 MiB planned by the file; loads in 1.50 s cold, 250 ms warm",
            "the median of 3 runs",
            "(1.9 MiB of constants, 1000 B of KV cache per position)",
            "relative to 0.10 GB/s, the rate of a kernel that only reads 64.0 MiB",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("checked") && !text.contains("Length sweep") && !text.contains("ratio"));
    }

    #[test]
    fn sections_without_measurements_are_left_out() {
        let mut report = sample();
        report.tests.truncate(1);
        report.optimised = false;
        let text = render(&report);
        assert!(!text.contains("note") && !text.contains("GB/s: "), "{text}");
        assert!(text.contains("debug build"));
        report.tests.clear();
        report.checks = vec![agreement::tests::agreement(&[(&[1.0, 2.0], &[1.0, 2.0])]); 2];
        report.length_sweep = Some(length_sweep::tests::found(40, |_| 0.0));
        let text = render(&report);
        assert!(!text.contains('|') && text.matches("at 1 of 1 positions").count() == 2, "{text}");
        assert!(text.ends_with("None takes more than 1.25 ×.\n\n"), "{text}");
    }

    #[test]
    fn an_ab_comparison_has_a_column() {
        let mut report = compared([1.5, 1.25, 2.0]);
        report.memory.allocated_bytes = Some(6 << 20);
        report.memory.reserved_bytes = Some(8 << 20);
        report.tuning = Some("no subgroups".to_owned());
        let text = render(&report);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(table[0].contains("| uploaded | ratio | note"), "{}", table[0]);
        assert!(table[2].contains("|     60 B |  1.50 |"), "{}", table[2]);
        assert!(text.contains("ratio: the time of a run unfused relative"), "{text}");
        assert!(text.contains("KV cache; 6.0 MiB allocated, 8.0 MiB reserved), 1.25 ×"), "{text}");
        assert!(text.contains("250 ms warm; tuned: no subgroups\n"), "{text}");
    }
}
