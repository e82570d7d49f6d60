//! Output to the terminal: styles, escaping of control characters, width, notes and errors.

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

/// The most characters shown of a name, of a sentence, and of the structure of an error.
const NAME: usize = 400;
const SENTENCE: usize = 2_000;
const STRUCTURE: usize = 20_000;

/// Escapes control characters in a name from a file and shortens it: it must not move the cursor, start a new line or fill the screen.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    shortened(text, NAME, is_unsafe)
}

/// Does the same for a sentence that contains names.
fn sentence(text: &str) -> Cow<'_, str> {
    shortened(text, SENTENCE, is_unsafe)
}

/// Returns at most `most` characters of a text, with those that `escaped` selects escaped.
fn shortened(text: &str, most: usize, escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
    let (shown, rest) = text.split_at(end);
    if rest.is_empty() && !shown.contains(&escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(shown.len() + 32);
    for character in shown.chars() {
        if escaped(character) { out.extend(character.escape_default()) } else { out.push(character) }
    }
    if !rest.is_empty() {
        out.push_str(&format!("… ({} bytes)", text.len()));
    }
    Cow::Owned(out)
}

/// Escapes control characters in text of several lines; keeps line breaks and tabs.
pub(crate) fn clean_text(text: &str) -> String {
    shortened(text, usize::MAX, is_unsafe_in_text).into_owned()
}

/// Whether a text has nothing to escape.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(is_unsafe_in_text)
}

fn is_unsafe_in_text(character: char) -> bool {
    !matches!(character, '\n' | '\t') && is_unsafe(character)
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
    // Terminals that do not report their width are taken to have 80 columns.
    let size = terminal_size::terminal_size_of(io::stdout());
    Some(size.map_or(80, |(terminal_size::Width(columns), _)| usize::from(columns).max(40)))
}

/// Writes text with styles, which are dropped without a terminal or with `NO_COLOR`.
pub(crate) fn print_styled(text: &str) -> Result<(), Failure> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes text unchanged.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes text of a model or a user: with control characters escaped at a terminal, unchanged elsewhere.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(&clean_text(text)) } else { print(text) }
}

/// Writes a line to standard error. Errors are ignored: there is nowhere left to report them.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(io::stderr().lock()), "{}", sentence(text));
}

/// Writes a line that starts with a coloured `warning`.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(io::stderr().lock()), "{WARNING}warning{WARNING:#}: {}", sentence(text));
}

/// Reports a failure and returns the exit status. A closed pipe is not a failure.
pub(crate) fn end(failure: &Failure, verbose: bool) -> ExitCode {
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    report(failure, verbose);
    ExitCode::FAILURE
}

/// Writes the error as one sentence to standard error; with `verbose`, its structure as well.
fn report(failure: &Failure, verbose: bool) {
    let mut err = anstream::AutoStream::auto(io::stderr().lock());
    let _ = writeln!(err, "{ERROR}error{ERROR:#}: {}", sentence(&failure.to_string()));
    if verbose {
        let structure = format!("{failure:#?}");
        let _ = writeln!(err, "{FAINT}{}{FAINT:#}", shortened(&structure, STRUCTURE, is_unsafe_in_text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(clean("aten.add × größe"), "aten.add × größe");
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("\u{202e}x"), "\\u{202e}x");
        assert_eq!(clean_text("a\tb\n\u{1b}[2J"), "a\tb\n\\u{1b}[2J");
        assert_eq!(clean_text("\u{9b}2J\r"), "\\u{9b}2J\\r", "C1 controls and carriage returns");
    }

    #[test]
    fn long_names_are_shortened() {
        let long = "é".repeat(1 << 20);
        assert_eq!(clean(&long), format!("{}… (2097152 bytes)", "é".repeat(NAME)));
        assert_eq!(clean(&"\u{1b}".repeat(NAME + 1)).chars().filter(|&character| character == '\\').count(), NAME);
        assert!(sentence(&long).chars().count() < SENTENCE + 30);
        assert_eq!(clean(&"x".repeat(NAME)), "x".repeat(NAME));
        assert_eq!(clean_text(&long), long, "texts are shown whole");
    }
}
