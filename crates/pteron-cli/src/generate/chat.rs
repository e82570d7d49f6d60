//! `pteron chat`: chats with a model at the terminal.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use pteron_llm::{ChatRequest, GenerationOptions, Message, Model, Session, TokenId};

use super::args::Chat;
use super::commands::{self, Command, Input};
use super::line_editor::LineReader;
use super::model::{self, OpenedModel};
use super::run::stream;
use crate::failure::Failure;
use crate::{files, interrupts, terminal};

/// Runs the command.
pub(crate) fn run(args: &Chat) -> ExitCode {
    match converse(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, args.verbose),
    }
}

/// A conversation, its model and its session.
struct Conversation {
    model: Model,
    session: Session,
    messages: Vec<Message>,
    system: Option<String>,
}

fn converse(args: &Chat) -> Result<(), Failure> {
    let options = args.generation.options(super::defaults(&args.model), None)?;
    let OpenedModel { model, .. } = model::open(&args.model, false, args.quiet)?;
    interrupts::defer_first_interrupt();
    let session = Session::new(&model)?;
    let mut conversation = Conversation { model, session, messages: Vec::new(), system: args.system.clone() };
    conversation.reset();
    if !args.quiet {
        if conversation.model.chat_template().is_none() {
            terminal::note("this model has no chat template: it continues the text you type");
        }
        terminal::note("/help lists the commands");
    }
    let mut lines = LineReader::new(args);
    while let Some(line) = next(&mut lines)? {
        match Input::parse(&line) {
            Input::Nothing => {}
            Input::Command(Command::Quit, _) => break,
            Input::Command(Command::Help, _) => commands::help().for_each(|line| terminal::note(&line)),
            Input::Command(Command::Reset, _) => conversation.reset(),
            Input::Command(Command::History, _) => terminal::print_text(&conversation.transcript())?,
            Input::Command(Command::Save, name) => conversation.save(name),
            Input::Unknown(name) => terminal::note(&format!("there is no command {name}; /help lists the commands")),
            Input::Message(text) => {
                // An error in one turn does not end the conversation.
                if let Err(failure) = conversation.turn(args, options.clone(), text) {
                    if failure.is_closed_pipe() {
                        return Ok(());
                    }
                    terminal::warn(&failure.to_string());
                }
                // A Ctrl-C that stopped the reply does not count for the next one.
                interrupts::reset();
            }
        }
    }
    Ok(())
}

/// Reads the next line. A Ctrl-C before it is complete does not count for what follows.
fn next(lines: &mut LineReader) -> Result<Option<String>, Failure> {
    let line = lines.next();
    interrupts::reset();
    line
}

impl Conversation {
    fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.system.clone().map(Message::system));
        // The session keeps its cache: the next prompt reuses the prefix it shares with it.
    }

    fn turn(&mut self, args: &Chat, options: GenerationOptions, text: &str) -> Result<(), Failure> {
        self.messages.push(Message::user(text));
        // Without a limit the reply may use all of the context that the prompt leaves.
        let reserve = options.max_tokens.unwrap_or(usize::MAX);
        let prompt = self.fitting_prompt(reserve)?;
        let answer = stream(&mut self.session, &prompt, options, "", |token| terminal::print_text(&token.text));
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

    /// Returns the conversation as tokens. Drops its oldest turns where the context has no room for them and a reply.
    fn fitting_prompt(&mut self, reserve: usize) -> Result<Vec<TokenId>, Failure> {
        let request = ChatRequest::new().messages(self.messages.iter().cloned()).with_max_tokens(reserve);
        let prompt = self.model.chat_prompt(&request)?;
        if prompt.dropped_messages > 0 {
            let first = usize::from(self.system.is_some());
            self.messages.drain(first..first + prompt.dropped_messages);
            terminal::note("the context is full: the oldest turns of the conversation were dropped");
        }
        Ok(prompt.tokens)
    }

    fn transcript(&self) -> String {
        self.messages.iter().map(|message| format!("{}: {}\n\n", message.role, message.content)).collect()
    }

    fn save(&self, name: &str) {
        if name.is_empty() {
            terminal::note("/save needs a file name");
            return;
        }
        let written = files::write(Path::new(name), |out| out.write_all(self.transcript().as_bytes()));
        match written {
            Ok(()) => terminal::note(&format!("saved {name}")),
            Err(failure) => terminal::warn(&failure.to_string()),
        }
    }
}
