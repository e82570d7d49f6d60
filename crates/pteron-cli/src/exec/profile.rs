//! The profile for people: GPU time by kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pteron::{AdapterSummary, CallProfile, DispatchTime, Timing};

use crate::table::{Cell, Table};
use crate::terminal::{FAINT, HEADING, NUMBER, clean};
use crate::units;

/// A profiled call.
pub(super) struct Call {
    /// The file of its inputs.
    pub(super) name: String,
    pub(super) wall: Duration,
    /// The work on the GPU and on the host.
    pub(super) profile: CallProfile,
}

/// The dispatches of one kernel, added up.
#[derive(Default)]
struct Row<'a> {
    seconds: f64,
    dispatches: usize,
    bytes: u64,
    operators: BTreeSet<&'a str>,
}

impl<'a> Row<'a> {
    fn add(&mut self, seconds: f64, dispatch: &'a DispatchTime) {
        self.seconds += seconds;
        self.dispatches += 1;
        self.bytes = self.bytes.saturating_add(dispatch.bytes);
        self.operators.insert(&dispatch.operator);
    }

    fn cells(&self, kernel: &str, total: f64) -> [Cell; 7] {
        let share = if total > 0.0 { 100.0 * self.seconds / total } else { 0.0 };
        let rate = if self.seconds > 0.0 { format!("{:.2}", self.bytes as f64 / self.seconds / 1e9) } else { String::new() };
        let operators: Vec<&str> = self.operators.iter().copied().collect();
        [
            Cell::new(units::time(self.seconds)).style(NUMBER).right(),
            Cell::new(format!("{share:.1}%")).right(),
            Cell::new(units::count(self.dispatches as u64)).right(),
            Cell::new(units::bytes(self.bytes)).right(),
            Cell::new(rate).right(),
            Cell::new(kernel),
            Cell::new(operators.join(", ")).style(FAINT),
        ]
    }
}

/// Describes how dispatches were timed, as a clause.
pub(super) fn timing(calls: &[Call]) -> &'static str {
    match calls.iter().flat_map(|call| &call.profile.graphs).next().map(|profile| profile.timing) {
        Some(Timing::InsidePass) => "timestamps between the dispatches of one pass",
        Some(Timing::PassPerDispatch) => "one pass per dispatch, which makes small kernels look slower than they are",
        None => "nothing ran on it",
    }
}

/// Renders the table by kernel, the longest time first.
pub(super) fn render(adapter: &AdapterSummary, calls: &[Call], width: Option<usize>) -> String {
    let mut rows: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for profile in calls.iter().flat_map(|call| &call.profile.graphs) {
        for dispatch in &profile.dispatches {
            rows.entry(dispatch.kernel).or_default().add(profile.duration(dispatch) / 1e9, dispatch);
        }
    }
    let total: f64 = rows.values().map(|row| row.seconds).sum();
    let dispatches: usize = rows.values().map(|row| row.dispatches).sum();
    let wall: Duration = calls.iter().map(|call| call.wall).sum();
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));

    let about = [adapter.name.as_str(), &adapter.backend, &adapter.driver].join(" · ");
    let mut out = format!("{HEADING}Profile{HEADING:#}  {FAINT}{}{FAINT:#}\n", clean(&about));
    let mut table = Table::default();
    let heads = ["GPU time", "share", "dispatches", "bytes", "GB/s", "kernel", "operators"];
    table.row(heads.into_iter().enumerate().map(|(column, head)| {
        let cell = Cell::new(head).style(FAINT);
        if column < 5 { cell.right() } else { cell }
    }));
    for (kernel, row) in &rows {
        table.row(row.cells(kernel, total));
    }
    table.write(&mut out, 2, width);
    let mut table = Table::default();
    let mut line = |label: &str, amount: String, note: String| {
        table.row([Cell::new(label), Cell::new(amount).style(NUMBER).right(), Cell::new(note).style(FAINT)]);
    };
    line("GPU", units::time(total), format!("{}, {}", count_dispatches(dispatches), timing(calls)));
    if let Some((amount, names)) = host_kernels(calls) {
        line("host", amount, names);
    }
    line("wall", units::time(wall.as_secs_f64()), format!("{}, from inputs to outputs", units::plural(calls.len(), "call")));
    table.write(&mut out, 2, width);
    out.push_str(&format!(
        "  {FAINT}bytes are an estimate: every tensor a kernel binds, whole, at its live shape; GB/s follow from it{FAINT:#}\n"
    ));
    out
}

/// The number of kernels that ran on the host, and their names with the number of their calls; `None` if there are none.
fn host_kernels(calls: &[Call]) -> Option<(String, String)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in calls.iter().flat_map(|call| &call.profile.host_kernels) {
        *counts.entry(name).or_default() += 1;
    }
    let names: Vec<String> = counts.iter().map(|(name, count)| format!("{} ({count}×)", clean(name))).collect();
    let total: usize = counts.values().sum();
    (total > 0).then(|| (units::plural(total, "kernel"), format!("{}, between GPU graphs", names.join(", "))))
}

fn count_dispatches(dispatches: usize) -> String {
    format!("{} dispatch{}", units::count(dispatches as u64), if dispatches == 1 { "" } else { "es" })
}
