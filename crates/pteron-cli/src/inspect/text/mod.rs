//! The report for people. Everything printed stands in the report; here it only gets words and columns.

mod parts;
mod words;

use super::report::Report;
use crate::table::Table;
use crate::terminal::{FAINT, HEADING, TITLE, clean};
use crate::units;

/// The text being written, and how much room a line has.
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

/// The whole report. `width` is that of the terminal, if there is one.
pub(super) fn render(report: &Report, width: Option<usize>) -> String {
    let mut page = Page { out: String::new(), width };
    page.out.push_str(&format!(
        "{TITLE}{}{TITLE:#}  {} {FAINT}({} bytes){FAINT:#}\n",
        clean(&report.file),
        units::bytes(report.bytes),
        units::count(report.bytes)
    ));
    parts::header(&mut page, &report.header);
    parts::methods(&mut page, report);
    parts::constant_methods(&mut page, report);
    for (index, delegate) in report.delegates.iter().enumerate() {
        parts::delegate(&mut page, index, delegate);
    }
    parts::kernels(&mut page, report);
    parts::support(&mut page, report);
    parts::constants(&mut page, report);
    parts::caches(&mut page, report);
    parts::external(&mut page, report);
    parts::memory(&mut page, report);
    page.out
}
