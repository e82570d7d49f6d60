//! The report for people, as Markdown that reads well on a terminal.

use super::agreement::Agreement;
use super::cases::Case;
use super::length_sweep::LengthSweep;
use super::report::{Figures, Memory, Outcome, Report, Test};
use crate::terminal::clean;
use crate::units::{bytes, count, time};

/// Columns: their heads, and whether they hold numbers.
const COLUMNS: [(&str, bool); 12] = [
    ("test", false),
    ("depth", true),
    ("tok/s", true),
    ("min … max", true),
    ("wall", true),
    ("GPU", true),
    ("GB/s", true),
    ("of reads", true),
    ("dispatches", true),
    ("uploaded", true),
    ("ratio", true),
    ("note", false),
];

/// The last column.
const NOTE: usize = COLUMNS.len() - 1;

/// What stands where there is no figure.
const NONE: &str = "–";

/// The head, the table and what its columns mean.
pub(super) fn render(report: &Report) -> String {
    let mut out = head(report);
    report.checks.iter().map(Agreement::sentences).for_each(|text| out.push_str(&text));
    out.push_str(&report.length_sweep.as_ref().map(LengthSweep::sentences).unwrap_or_default());
    if !report.tests.is_empty() {
        out.push_str(&lines(report.tests.iter().map(|test| cells(report, test)).collect()));
        out.push_str(&legend(report));
    }
    out
}

fn head(report: &Report) -> String {
    let (adapter, program) = (&report.adapter, &report.program);
    let date = report.date.replace('T', " ").replace('Z', " UTC");
    let build = if report.optimised { "" } else { ", a build without optimisation" };
    let [cold, warm] = [report.loading.cold_seconds, report.loading.warm_seconds].map(time);
    let tuning = report.tuning.as_ref().map(|tuning| format!("; tuned: {tuning}")).unwrap_or_default();
    format!(
        "**{}** ({}, {}), {date}, pteron {}{build}\n\n\
         **{}**: {}, context {}, {} tokens a call, vocabulary {}; {}; loads in {cold} cold, {warm} warm{tuning}\n\n",
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
    let told = match (memory.allocated_bytes, memory.reserved_bytes) {
        (Some(used), Some(reserved)) => {
            format!("; {} by the allocator's report, which reserves {}", bytes(used), bytes(reserved))
        }
        _ => String::new(),
    };
    format!(
        "{} of GPU memory ({} of it KV cache{told}), {ratio:.2} × the {} that the file plans",
        bytes(program_bytes + state_bytes),
        bytes(state_bytes),
        bytes(planned_bytes),
    )
}

fn cells(report: &Report, test: &Test) -> [String; COLUMNS.len()] {
    let mut cells = [const { String::new() }; COLUMNS.len()];
    cells[0] = test.case.name();
    cells[1] = count(test.case.depth().into());
    cells[2..10].fill(NONE.to_owned());
    match (&test.outcome, report.figures(test)) {
        (Outcome::Skipped { skipped }, _) => cells[NOTE] = format!("skipped: {skipped}"),
        (Outcome::Measured { work, .. }, Some(figures)) => {
            let Figures { wall, gpu, .. } = figures;
            let tokens = f64::from(test.case.tokens());
            // A prompt is waited for as a whole, an answer token by token.
            let each =
                |seconds: f64| time(if matches!(test.case, Case::Prefill { .. }) { seconds } else { seconds / tokens });
            cells[2] = speed(figures.tokens_per_second);
            cells[3] = format!("{} … {}", speed(tokens / wall.max), speed(tokens / wall.min));
            cells[4] = each(wall.median);
            cells[5] = gpu.map_or_else(|| NONE.to_owned(), |gpu| each(gpu.median));
            cells[6] = figures.read_bytes_per_second.map_or_else(|| NONE.to_owned(), |rate| speed(rate / 1e9));
            cells[7] = figures.read_share.map_or_else(|| NONE.to_owned(), |share| format!("{:.1} %", 100.0 * share));
            cells[8] = count(work.each(work.dispatches));
            cells[9] = bytes(work.each(work.uploaded_bytes));
            cells[10] = figures.ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default();
        }
        (Outcome::Measured { .. }, None) => {}
    }
    cells
}

/// A rate with three digits, or all that are before the point.
fn speed(rate: f64) -> String {
    let digits = match rate {
        rate if rate < 9.995 => 2,
        rate if rate < 99.95 => 1,
        _ => 0,
    };
    format!("{rate:.digits$}")
}

/// Rows under their heads, padded so that columns line up. A column in which nothing stands is left out.
fn lines(rows: Vec<[String; COLUMNS.len()]>) -> String {
    let used: Vec<usize> = (0..COLUMNS.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let heads = COLUMNS.map(|(head, _)| head.to_owned());
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let columns: Vec<(usize, usize, bool)> =
        used.into_iter().map(|column| (column, width(column), COLUMNS[column].1)).collect();
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        for &(column, width, right) in &columns {
            let cell = &row[column];
            let cell = if right { format!("| {cell:>width$} ") } else { format!("| {cell:<width$} ") };
            out.push_str(&cell);
        }
        out.push_str("|\n");
        if number == 0 {
            for &(_, width, right) in &columns {
                out.push_str(&format!("|{}{}", "-".repeat(width + 1), if right { ":" } else { "-" }));
            }
            out.push_str("|\n");
        }
    }
    out
}

fn legend(report: &Report) -> String {
    let runs = match report.repeat {
        1 => "one run behind a warm-up".to_owned(),
        repeat => format!("the median of {repeat} runs behind a warm-up, with the slowest and the fastest"),
    };
    let mut out = format!(
        "\ntok/s: {runs}, by wall time. wall, GPU: until a prompt (pp) has its token, or for each token (tg). dispatches, uploaded: of one \
         call.\n"
    );
    if let Some(against) = report.against {
        out.push_str(&format!(
            "ratio: how long a run takes {against}, in parts of what it takes here; the median of pairs that took turns.\n"
        ));
    }
    if report.tests.iter().any(|test| matches!(test.case, Case::Decode { .. })) {
        let [constants, cache] =
            [report.program.constant_bytes_per_token, report.program.cache_bytes_per_position].map(bytes);
        out.push_str(&format!(
            "GB/s: what a token reads at least ({constants} of constants, {cache} of cache for each position), by wall time."
        ));
        if let Some(reading) = &report.reading {
            out.push_str(&format!(
                " of reads: compared with {} GB/s, at which a kernel that only reads went over {} in the same process.",
                speed(reading.bytes_per_second / 1e9),
                bytes(reading.buffer_bytes),
            ));
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{compared, sample};
    use super::super::{agreement, length_sweep};
    use super::*;

    #[test]
    fn figures_stand_under_their_heads() {
        let text = render(&sample());
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            table[..4],
            [
                "| test    | depth | tok/s |   min … max |   wall |    GPU | GB/s | of reads | dispatches | uploaded | note                                                  |",
                "|---------|------:|------:|------------:|-------:|-------:|-----:|---------:|-----------:|---------:|-------------------------------------------------------|",
                "| pp 100  |     0 |   200 |   100 … 250 | 500 ms | 400 ms |    – |        – |        141 |     60 B |                                                       |",
                "| tg 9    |   495 |  5.00 | 4.74 … 5.14 | 200 ms | 178 ms | 0.01 |   12.5 % |        140 |     60 B |                                                       |",
            ]
        );
        assert!(table[4].ends_with("| skipped: needs 2,048 positions, the context has 1,024 |"), "{}", table[4]);
        assert_eq!(table.len(), 5);
        let widths: Vec<usize> = table.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    }

    #[test]
    fn head_and_legend_say_what_was_measured() {
        let text = render(&sample());
        assert!(
            text.starts_with("**Wing <3000>** (feather 1.2, vulkan), 2026-11-15 14:43:35 UTC, pteron 0.1.0\n"),
            "{text}"
        );
        for part in [
            "**bird & co.pte**: 3.0 MiB, context 1,024, 511 tokens a call, vocabulary 6,144; 5.0 MiB of GPU memory",
            "(1.0 MiB of it KV cache), 1.25 × the 4.0 MiB that the file plans; loads in 1.50 s cold, 250 ms warm",
            "the median of 3 runs",
            "(1.9 MiB of constants, 1000 B of cache for each position)",
            "compared with 0.10 GB/s, at which a kernel that only reads went over 64.0 MiB",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("checked") && !text.contains("Every length") && !text.contains("ratio"));
    }

    #[test]
    fn what_was_not_measured_is_not_mentioned() {
        let mut report = sample();
        report.tests.truncate(1);
        report.optimised = false;
        let text = render(&report);
        assert!(!text.contains("note") && !text.contains("GB/s: "), "{text}");
        assert!(text.contains("a build without optimisation"));
        report.tests.clear();
        report.checks = vec![agreement::tests::agreement(&[(&[1.0, 2.0], &[1.0, 2.0])]); 2];
        report.length_sweep = Some(length_sweep::tests::found(40, |_| 0.0));
        let text = render(&report);
        assert!(!text.contains('|') && text.matches("at 1 of 1 positions").count() == 2, "{text}");
        assert!(text.ends_with("None takes more than 1.25 ×.\n\n"), "{text}");
    }

    #[test]
    fn what_is_compared_has_a_column_and_the_allocator_a_word() {
        let mut report = compared([1.5, 1.25, 2.0]);
        report.memory.allocated_bytes = Some(6 << 20);
        report.memory.reserved_bytes = Some(8 << 20);
        report.tuning = Some("no subgroups".to_owned());
        let text = render(&report);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(table[0].contains("| uploaded | ratio | note"), "{}", table[0]);
        assert!(table[2].contains("|     60 B |  1.50 |"), "{}", table[2]);
        assert!(text.contains("ratio: how long a run takes unfused,"), "{text}");
        assert!(text.contains("KV cache; 6.0 MiB by the allocator's report, which reserves 8.0 MiB), 1.25 ×"), "{text}");
        assert!(text.contains("250 ms warm; tuned: no subgroups\n"), "{text}");
    }
}
