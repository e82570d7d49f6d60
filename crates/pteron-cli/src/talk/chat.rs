//! `pteron chat`: a conversation at the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use pteron_llm::{ChatTemplate, Message, Model, ParseSpecial, RenderOptions, Session, TokenId};

use super::model::{self, Opened};
use super::run::stream;
use crate::cli::Chat;
use crate::failure::{Failure, Reason};
use crate::terminal;

const HELP: &str = "\
/reset        forgets the conversation
/history      shows it
/save FILE    writes it as text
/help         shows this
/quit         ends (so does Ctrl-D); Ctrl-C stops an answer";

/// Runs the command.
pub(crate) fn run(args: &Chat) -> ExitCode {
    match converse(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, args.verbose),
    }
}

/// A conversation and what it needs.
struct Conversation {
    model: Model,
    session: Session,
    template: Option<ChatTemplate>,
    messages: Vec<Message>,
    system: Option<String>,
}

fn converse(args: &Chat) -> Result<(), Failure> {
    let Opened { model, template, .. } = model::open(&args.model, args.quiet)?;
    super::catch_interrupts();
    let session = Session::new(&model)?;
    let mut talk = Conversation { model, session, template, messages: Vec::new(), system: args.system.clone() };
    talk.reset();
    if !args.quiet {
        if talk.template.is_none() {
            terminal::note("this model has no chat template: it goes on from what you write");
        }
        terminal::note("/help says what you can type");
    }
    while let Some(line) = read_line(args.quiet)? {
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => break,
            "/help" => HELP.lines().for_each(terminal::note),
            "/reset" => talk.reset(),
            "/history" => terminal::print(&talk.transcript())?,
            command if command.starts_with("/save") => talk.save(command.trim_start_matches("/save").trim()),
            command if command.starts_with('/') => {
                terminal::note(&format!("there is no {command}; /help lists what there is"));
            }
            text => {
                // What went wrong in one turn does not end the conversation.
                if let Err(failure) = talk.turn(args, text) {
                    if failure.is_closed_pipe() {
                        return Ok(());
                    }
                    terminal::warn(&failure.to_string());
                }
            }
        }
    }
    Ok(())
}

/// A line from the terminal or a pipe; `None` at the end.
fn read_line(quiet: bool) -> Result<Option<String>, Failure> {
    if std::io::stdin().is_terminal() && !quiet {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "\n> ").and_then(|()| err.flush());
    }
    let mut line = String::new();
    loop {
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(line)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Output(error)),
        }
    }
}

impl Conversation {
    fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.system.clone().map(Message::system));
        // Nothing of the cache is of use to another conversation, but for what it begins with, which is found by itself.
    }

    fn turn(&mut self, args: &Chat, text: &str) -> Result<(), Failure> {
        self.messages.push(Message::user(text));
        let options = args.generation.options(super::defaults(&args.model));
        let reserve = options.max_tokens.unwrap_or(1);
        let prompt = self.fitting_prompt(reserve)?;
        let answer =
            stream(&mut self.session, &prompt, options, |piece| terminal::print(&terminal::clean_text(&piece.text)));
        terminal::print("\n")?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                self.messages.pop();
                return Err(failure);
            }
        };
        self.messages.push(Message::assistant(answer.text));
        if !args.quiet {
            terminal::note(&answer.speed.line());
        }
        Ok(())
    }

    /// The tokens of the conversation, its oldest turns dropped where there is no room for them and an answer.
    fn fitting_prompt(&mut self, reserve: usize) -> Result<Vec<TokenId>, Failure> {
        let room = (self.model.metadata().context_length as usize).saturating_sub(reserve.min(64)).max(1);
        loop {
            let tokens = self.tokens()?;
            let first = usize::from(self.system.is_some());
            if tokens.len() <= room || self.messages.len() <= first + 1 {
                return Ok(tokens);
            }
            // A question and its answer go together.
            let turn = (first + 2).min(self.messages.len() - 1);
            self.messages.drain(first..turn);
            terminal::note("the conversation is longer than the context: its oldest turn was dropped");
        }
    }

    fn tokens(&self) -> Result<Vec<TokenId>, Failure> {
        let tokenizer = self.model.tokenizer();
        let tokens = match &self.template {
            Some(template) => {
                let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
                let text = template.render(&self.messages, &options).map_err(pteron_llm::Error::from)?;
                tokenizer.encode(&text, ParseSpecial::Yes)
            }
            None => {
                let texts: Vec<&str> = self.messages.iter().map(|message| message.content.as_str()).collect();
                super::encode(&self.model, &texts.join("\n\n"))
            }
        };
        Ok(tokens.map_err(pteron_llm::Error::from)?)
    }

    fn transcript(&self) -> String {
        self.messages.iter().map(|message| format!("{}: {}\n\n", message.role, message.content)).collect()
    }

    fn save(&self, name: &str) {
        if name.is_empty() {
            terminal::note("/save needs the name of a file");
            return;
        }
        match write_whole(Path::new(name), self.transcript().as_bytes()) {
            Ok(()) => terminal::note(&format!("saved {name}")),
            Err(failure) => terminal::warn(&failure.to_string()),
        }
    }
}

/// Writes a file that is there as a whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension("partial");
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written.map_err(|error| Failure::file(path, Reason::Unwritten(error)))
}
