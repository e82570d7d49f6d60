//! The table printer: aligned columns for terminals, or Markdown.

use anstyle::Style;

use crate::terminal::{PLAIN, clean};

/// A text in a style.
pub(crate) struct Cell {
    text: String,
    style: Style,
    right: bool,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: clean(text.as_ref()).into_owned(), style: PLAIN, right: false }
    }

    pub(crate) fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Aligned to the right of its column.
    pub(crate) fn right(self) -> Self {
        Self { right: true, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Rows of cells. A row may be shorter than others.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the rows with two spaces between columns and no trailing spaces. Cuts the last cells of rows that do not fit `width`.
    pub(crate) fn write(&self, out: &mut String, indent: usize, width: Option<usize>) {
        let widths = self.widths();
        for row in &self.rows {
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            let mut left = width.map(|width| width.saturating_sub(indent));
            out.extend(std::iter::repeat_n(' ', indent));
            for (column, (cell, &wide)) in row.iter().zip(&widths).enumerate().take(last + 1) {
                let room = left.unwrap_or(usize::MAX);
                write_cell(out, cell, wide.min(room), column == last);
                left = left.map(|left| left.saturating_sub(wide + 2));
                if column < last && left != Some(0) {
                    out.push_str("  ");
                }
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
    }
}

impl Table {
    /// Writes the rows as a Markdown table whose first row is the header, padded so that it also reads well as text. Leaves out
    /// columns without content below the header.
    pub(crate) fn write_markdown(&self, out: &mut String) {
        let Some((header, rows)) = self.rows.split_first() else { return };
        let is_used = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.text.is_empty()));
        let widths = self.widths();
        let columns: Vec<(usize, usize)> = widths.into_iter().enumerate().filter(|(column, _)| is_used(*column)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            for &(column, width) in &columns {
                let text = row.get(column).map_or("", |cell| &cell.text);
                let right = header.get(column).is_some_and(|cell| cell.right);
                out.push_str(&if right { format!("| {text:>width$} ") } else { format!("| {text:<width$} ") });
            }
            out.push_str("|\n");
            if number == 0 {
                for &(column, width) in &columns {
                    let end = if header.get(column).is_some_and(|cell| cell.right) { ":" } else { "-" };
                    out.push_str(&format!("|{}{end}", "-".repeat(width + 1)));
                }
                out.push_str("|\n");
            }
        }
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max().unwrap_or(0);
        (0..columns).map(widest).collect()
    }
}

fn write_cell(out: &mut String, cell: &Cell, width: usize, is_last: bool) {
    let text = cut(&cell.text, width);
    let padding = width.saturating_sub(text.chars().count());
    if cell.right {
        out.extend(std::iter::repeat_n(' ', padding));
    }
    if text.is_empty() || cell.style == PLAIN {
        out.push_str(&text);
    } else {
        out.push_str(&format!("{0}{text}{0:#}", cell.style));
    }
    if !cell.right && !is_last {
        out.extend(std::iter::repeat_n(' ', padding));
    }
}

/// Returns at most `width` characters, the last an ellipsis if some are missing.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain("…".chars().take(width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        table.row([Cell::new("12").right(), Cell::new("short"), Cell::new("note")]);
        table.row([Cell::new("3").right(), Cell::new("much longer"), Cell::new("a long remark")]);
        table.row([Cell::new("4").right()]);
        table
    }

    fn written(width: Option<usize>) -> String {
        let mut out = String::new();
        table().write(&mut out, 2, width);
        out
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(written(None), "  12  short        note\n   3  much longer  a long remark\n   4\n");
    }

    #[test]
    fn rows_that_do_not_fit_are_cut() {
        assert_eq!(written(Some(24)), "  12  short        note\n   3  much longer  a lo…\n   4\n");
        assert!(written(Some(10)).lines().all(|line| line.chars().count() <= 10), "{}", written(Some(10)));
    }

    #[test]
    fn markdown_has_a_header_and_no_empty_columns() {
        let mut table = Table::default();
        table.row([Cell::new("name"), Cell::new("count").right(), Cell::new("note")]);
        table.row([Cell::new("a"), Cell::new("1,000").right(), Cell::new("")]);
        table.row([Cell::new("longer"), Cell::new("3").right()]);
        let mut out = String::new();
        table.write_markdown(&mut out);
        let expected = ["| name   | count |", "|--------|------:|", "| a      | 1,000 |", "| longer |     3 |"];
        assert_eq!(out.lines().collect::<Vec<_>>(), expected);
        let mut out = String::new();
        Table::default().write_markdown(&mut out);
        assert_eq!(out, "");
    }

    #[test]
    fn names_cannot_break_a_line() {
        let mut table = Table::default();
        table.row([Cell::new("a\nb\u{1b}[1m")]);
        let mut out = String::new();
        table.write(&mut out, 0, None);
        assert_eq!(out, "a\\nb\\u{1b}[1m\n");
    }
}
