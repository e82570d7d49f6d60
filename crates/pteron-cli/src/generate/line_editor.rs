//! Reads the lines of a conversation: from a line editor at a terminal, or from a pipe.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::args::Chat;
use super::commands;
use super::history::{History, KEPT};
use crate::failure::Failure;
use crate::terminal;

const PROMPT: &str = "> ";
/// The longest line accepted from a pipe, in bytes.
const LONGEST_LINE: u64 = 16 << 20;

/// Reads lines one at a time.
pub(super) enum LineReader {
    /// Standard input and output are terminals: lines are edited, and the arrow keys recall earlier ones.
    LineEditor(Box<LineEditor>),
    /// Lines are read unedited; the prompt is printed where standard input is a terminal.
    Plain { prompt: &'static str },
}

impl LineReader {
    pub(super) fn new(args: &Chat) -> Self {
        let input = io::stdin().is_terminal();
        let edited = if input && io::stdout().is_terminal() { LineEditor::new(args) } else { None };
        match edited {
            Some(edited) => Self::LineEditor(Box::new(edited)),
            None => Self::Plain { prompt: if input && !args.quiet { PROMPT } else { "" } },
        }
    }

    /// Returns the next line; `None` at the end of input.
    pub(super) fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::LineEditor(edited) => edited.next(),
            Self::Plain { prompt } => read_plain(prompt),
        }
    }
}

fn read_plain(prompt: &str) -> Result<Option<String>, Failure> {
    if !prompt.is_empty() {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\n{prompt}").and_then(|()| err.flush());
    }
    let mut line = String::new();
    loop {
        let left = LONGEST_LINE.saturating_sub(line.len() as u64);
        match io::stdin().lock().take(left).read_line(&mut line) {
            Ok(0) if left == 0 => return Err(Failure::LongInput { most: LONGEST_LINE }),
            Ok(0) => return Ok((!line.is_empty()).then_some(line)),
            Ok(_) if line.ends_with('\n') => return Ok(Some(line)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Input(error)),
        }
    }
}

/// The line editor.
pub(super) struct LineEditor {
    editor: Editor<Commands, MemHistory>,
    /// Stores lines for later conversations.
    kept: Option<History>,
    quiet: bool,
    verbose: bool,
}

impl LineEditor {
    /// Returns `None` if the terminal cannot be set up for editing.
    fn new(args: &Chat) -> Option<Self> {
        let config = Config::builder().max_history_size(KEPT).ok()?;
        let config = config.history_ignore_space(true).completion_type(CompletionType::List).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).ok()?;
        editor.set_helper(Some(Commands));
        let kept = if args.no_history { None } else { History::of_user() };
        let mut lines = Self { editor, kept, quiet: args.quiet, verbose: args.verbose };
        lines.recall();
        Some(lines)
    }

    /// Loads the lines of earlier conversations.
    fn recall(&mut self) {
        match self.kept.as_ref().map(History::read).transpose() {
            // Lines with control characters could drive the terminal.
            Ok(entries) => entries.into_iter().flatten().filter(|entry| terminal::is_plain(entry)).for_each(|entry| {
                // A line that is not added cannot be recalled; nothing else is lost.
                let _ = self.editor.add_history_entry(entry);
            }),
            Err(failure) => self.stop_keeping(&failure),
        }
    }

    fn next(&mut self) -> Result<Option<String>, Failure> {
        if !self.quiet {
            terminal::print("\n")?;
        }
        loop {
            match self.editor.readline(if self.quiet { "" } else { PROMPT }) {
                Ok(line) => {
                    self.keep(line.trim_end());
                    return Ok(Some(line));
                }
                // Ctrl-C clears the line.
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Io(error)) => return Err(Failure::Input(error)),
                Err(error) => return Err(Failure::Input(io::Error::other(error))),
            }
        }
    }

    fn keep(&mut self, line: &str) {
        let is_new = self.editor.add_history_entry(line).unwrap_or(false);
        if let Some(Err(failure)) = self.kept.as_ref().filter(|_| is_new).map(|history| history.add(line)) {
            self.stop_keeping(&failure);
        }
    }

    /// Continues the conversation without its history; with `--verbose`, says why, once.
    fn stop_keeping(&mut self, failure: &Failure) {
        self.kept = None;
        if self.verbose {
            terminal::warn(&format!("lines are not stored: {failure}"));
        }
    }
}

/// Completes the names of commands.
struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, commands::completions(line.get(..position).unwrap_or_default())))
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}
