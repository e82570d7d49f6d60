//! The terminal: what may be printed on it, in which style, and how wide it is.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const TITLE: Style = Style::new().bold();
pub(crate) const HEADING: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const NUMBER: Style = AnsiColor::Green.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Text from a file with its control characters spelled out: a name must not move the cursor or start a new line.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unsafe(character) { out.extend(character.escape_default()) } else { out.push(character) }
    }
    Cow::Owned(out)
}

/// The same for text of several lines: line breaks and tabs stay.
pub(crate) fn clean_text(text: &str) -> String {
    let shown = |character: char| matches!(character, '\n' | '\t') || !is_unsafe(character);
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if shown(character) { out.push(character) } else { out.extend(character.escape_default()) }
    }
    out
}

/// Control characters, and those that change the direction of what follows.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The columns of the terminal that standard output goes to, if it is one.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    // Some terminals do not say; then they are taken to be as wide as terminals once were.
    let size = terminal_size::terminal_size_of(io::stdout());
    Some(size.map_or(80, |(terminal_size::Width(columns), _)| usize::from(columns).max(40)))
}

/// Writes text with styles; they are dropped where nobody wants them (no terminal, `NO_COLOR`).
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes text as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Says one line on standard error. If even that is closed, nobody is left to tell.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(io::stderr().lock()), "{}", clean(text));
}

/// A line that starts with a coloured `warning`.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(io::stderr().lock()), "{WARNING}warning{WARNING:#}: {}", clean(text));
}

/// Says what failed. A reader that has seen enough is no failure.
pub(crate) fn end(failure: &Failure, verbose: bool) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    complain(failure, verbose);
    ExitCode::FAILURE
}

/// One sentence on standard error; with `verbose` the structure behind it.
fn complain(failure: &Failure, verbose: bool) {
    let mut err = anstream::AutoStream::auto(io::stderr().lock());
    let _ = writeln!(err, "{ERROR}error{ERROR:#}: {}", clean(&failure.to_string()));
    if verbose {
        let _ = writeln!(err, "{FAINT}{failure:#?}{FAINT:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(clean("aten.add × größe"), "aten.add × größe");
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("\u{202e}x"), "\\u{202e}x");
        assert_eq!(clean_text("a\tb\n\u{1b}[2J"), "a\tb\n\\u{1b}[2J");
    }
}
