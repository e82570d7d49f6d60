//! Where the lines of a conversation come from: somebody at a terminal, who edits them, or a pipe.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::commands;
use super::history::{History, KEPT};
use crate::cli::Chat;
use crate::failure::Failure;
use crate::terminal;

const PROMPT: &str = "> ";
/// Longer lines of a pipe, in bytes, are no messages.
const LONGEST_LINE: u64 = 16 << 20;

/// The lines, one after the other.
pub(super) enum LineReader {
    /// Both ends are terminals: lines are edited, and come back with the arrow keys.
    LineEditor(Box<LineEditor>),
    /// Lines as they are; the prompt, if somebody is there to see it.
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

    /// The next line; `None` at the end.
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

/// Lines that are edited at a terminal.
pub(super) struct LineEditor {
    editor: Editor<Commands, MemHistory>,
    /// Where they are kept for the next conversation.
    kept: Option<History>,
    quiet: bool,
    verbose: bool,
}

impl LineEditor {
    /// `None` if the terminal does not let itself be asked.
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

    /// Takes up what was typed in earlier conversations.
    fn recall(&mut self) {
        match self.kept.as_ref().map(History::read).transpose() {
            // What would drive the terminal is not shown at it.
            Ok(entries) => entries.into_iter().flatten().filter(|entry| terminal::is_plain(entry)).for_each(|entry| {
                // One that is passed over is one that cannot be recalled, no more.
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
                // Ctrl-C takes the line back.
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

    /// A conversation goes on without its history; those who want to know why are told once.
    fn stop_keeping(&mut self, failure: &Failure) {
        self.kept = None;
        if self.verbose {
            terminal::warn(&format!("what you type is not kept: {failure}"));
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
