//! The report of a conversion, for people and for scripts.

use std::fmt::Write;
use std::time::Duration;

use pteron_convert::Report;
use pteron_convert::template::WeightFormat;
use pteron_convert::write::ConvertedWeight;
use serde::Serialize;

use super::Convert;
use super::sidecars::Sidecars;
use crate::failure::Failure;
use crate::table::{Cell, Table};
use crate::terminal::{FAINT, TITLE};
use crate::units::{bytes, count, time};

/// One line: files, size, quantisation error, time.
pub(super) fn line(args: &Convert, report: &Report, sidecars: &Sidecars, took: Duration) -> String {
    let others: String = sidecars.names().map(|name| format!(", {name}")).collect();
    let numbers: u64 = report.weights.iter().map(|weight| weight.numbers).sum();
    let error = match (args.synthetic.is_some(), report.relative_error) {
        (true, _) => String::new(),
        (false, 0.0) => " · lossless".to_owned(),
        (false, error) => format!(" · {:.2} % quantisation error", 100.0 * error),
    };
    format!(
        "wrote {}{others} · {} · {} weights{error} · {}",
        args.out.display(),
        bytes(report.bytes),
        count(numbers),
        time(took.as_secs_f64())
    )
}

/// Every tensor.
pub(super) fn table(report: &Report) -> String {
    let mut table = Table::default();
    let titles = ["weight", "form", "numbers", "greatest error", "relative error"];
    table.row(titles.into_iter().enumerate().map(|(column, title)| {
        let cell = Cell::new(title).style(TITLE);
        if column < 2 { cell } else { cell.right() }
    }));
    for weight in &report.weights {
        table.row(row(weight));
    }
    let mut out = String::new();
    table.write(&mut out, 0, None);
    let _ = writeln!(out, "\nall quantised weights: {:.3} % error", 100.0 * report.relative_error);
    out
}

fn row(weight: &ConvertedWeight) -> [Cell; 5] {
    let form = match weight.form {
        WeightFormat::Int4 { group } => format!("4 bits, groups of {group}"),
        WeightFormat::Float32 => "float32".to_owned(),
    };
    let [greatest, relative] = if weight.lossless {
        ["0".to_owned(), "lossless".to_owned()]
    } else {
        [format!("{:.3e}", weight.max_error), format!("{:.2} %", 100.0 * weight.relative_error)]
    };
    [
        Cell::new(weight.weight.to_string()),
        Cell::new(form).style(FAINT),
        Cell::new(count(weight.numbers)).right(),
        Cell::new(greatest).right(),
        Cell::new(relative).right(),
    ]
}

#[derive(Serialize)]
struct Json<'a> {
    program: String,
    /// Files in the same folder.
    beside: Vec<String>,
    seconds: f64,
    #[serde(flatten)]
    report: &'a Report,
}

/// The output of `--json`.
pub(super) fn json(args: &Convert, report: &Report, sidecars: &Sidecars, took: Duration) -> Result<String, Failure> {
    let program = args.out.display().to_string();
    let object = Json { program, beside: sidecars.names().collect(), seconds: took.as_secs_f64(), report };
    let text = serde_json::to_string(&object).map_err(|error| Failure::Output(error.into()))?;
    Ok(text + "\n")
}
