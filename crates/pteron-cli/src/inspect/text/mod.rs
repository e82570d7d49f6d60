//! Renders the report for people.

mod format;
mod sections;

use super::report::Report;
use crate::table::Table;
use crate::terminal::{FAINT, HEADING, TITLE, clean};
use crate::units;

/// The text being written, and the width of a line.
struct Page {
    out: String,
    /// Columns of the terminal; unlimited where there is none.
    width: Option<usize>,
}

impl Page {
    fn heading(&mut self, title: &str, note: &str) {
        self.out.push_str(&format!("\n{HEADING}{}{HEADING:#}", clean(title)));
        if !note.is_empty() {
            self.out.push_str(&format!("  {FAINT}{}{FAINT:#}", clean(note)));
        }
        self.out.push('\n');
    }

    fn table(&mut self, table: &Table) {
        self.indented(table, 2);
    }

    fn indented(&mut self, table: &Table, indent: usize) {
        table.write(&mut self.out, indent, self.width);
    }
}

/// Renders the report. `width` is that of the terminal, if there is one.
pub(super) fn render(report: &Report, width: Option<usize>) -> String {
    let mut page = Page { out: String::new(), width };
    page.out.push_str(&format!(
        "{TITLE}{}{TITLE:#}  {} {FAINT}({} bytes){FAINT:#}\n",
        clean(&report.file),
        units::bytes(report.bytes),
        units::count(report.bytes)
    ));
    sections::header(&mut page, &report.header);
    sections::methods(&mut page, report);
    sections::constant_methods(&mut page, report);
    for (index, delegate) in report.delegates.iter().enumerate() {
        sections::delegate(&mut page, index, delegate);
    }
    sections::kernels(&mut page, report);
    sections::support(&mut page, report);
    sections::constants(&mut page, report);
    sections::caches(&mut page, report);
    sections::external(&mut page, report);
    sections::memory(&mut page, report);
    page.out
}
