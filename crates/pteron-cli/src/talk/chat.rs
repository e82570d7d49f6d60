//! `pteron chat`: a conversation at the terminal.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use pteron_llm::{ChatTemplate, Message, Model, ParseSpecial, RenderOptions, Session, TokenId};

use super::commands::{self, Command, Input};
use super::lines::Lines;
use super::model::{self, Opened};
use super::run::stream;
use crate::cli::Chat;
use crate::failure::Failure;
use crate::{files, terminal};

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
    let mut lines = Lines::new(args);
    while let Some(line) = lines.next()? {
        match Input::parse(&line) {
            Input::Nothing => {}
            Input::Command(Command::Quit, _) => break,
            Input::Command(Command::Help, _) => commands::help().for_each(|line| terminal::note(&line)),
            Input::Command(Command::Reset, _) => talk.reset(),
            Input::Command(Command::History, _) => terminal::print(&terminal::clean_text(&talk.transcript()))?,
            Input::Command(Command::Save, name) => talk.save(name),
            Input::Unknown(name) => terminal::note(&format!("there is no {name}; /help lists what there is")),
            Input::Message(text) => {
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
        let written = files::write(Path::new(name), |out| out.write_all(self.transcript().as_bytes()));
        match written {
            Ok(()) => terminal::note(&format!("saved {name}")),
            Err(failure) => terminal::warn(&failure.to_string()),
        }
    }
}
