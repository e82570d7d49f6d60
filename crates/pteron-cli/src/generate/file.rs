//! `pteron run --file prompts.jsonl`: completes a file of prompts, many at once.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use pteron_llm::batch::{DraftSource, SubmitError};
use pteron_llm::{
    ChatRequest, Engine, EngineError, EngineOptions, EngineRequest, FinishReason, GeneratedToken, Prompt, Sampling, TokenId,
    TokenStream, Usage,
};
use serde::Serialize;
use serde_json::Value;

use super::args::Run;
use super::model;
use super::prompt_file::{self, CommonOptions, LinePrompt, PromptLine};
use super::run::{LARGEST_PROMPT, Logprob, finish_name};
use crate::failure::{Failure, Reason};
use crate::{files, interrupts, terminal, units};

/// Whether a file holds prompts, one per line, and not the text of one.
pub(super) fn is_prompt_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Runs the command.
pub(super) fn run(args: &Run, path: &Path) -> Result<(), Failure> {
    // Everything that can be wrong with the command line and the file is found before the model is loaded.
    let options = CommonOptions {
        usual: args.generation.options(super::defaults(&args.model), args.logprobs)?,
        with_temperature: args.generation.options(Sampling::default(), args.logprobs)?,
    };
    if args.generation.is_endless() {
        return Err(Failure::EndlessFile);
    }
    let text = String::from_utf8(files::read_or_stream(path, LARGEST_PROMPT)?);
    let text = text.map_err(|_| Failure::file(path, Reason::NotText))?;
    let lines = prompt_file::parse(path, &text, &options)?;
    let token_ids = lines.iter().all(|line| matches!(line.prompt, LinePrompt::Tokens(_)));
    let draft = args.draft.as_deref().map(model::program).transpose()?;
    let speculation = if args.prompt_lookup { DraftSource::PromptLookup } else { DraftSource::None };
    let engine_options = EngineOptions::default().with_speculation(speculation).with_draft_model(draft);
    let engine = model::open_engine(&args.model, token_ids, args.quiet, engine_options)?;
    // From here on the first Ctrl-C ends the run, and no file is left half written.
    interrupts::defer_first_interrupt();
    let mut completion = Completion::new(&engine, args, lines);
    match &args.output {
        Some(output) => {
            let mut failure = None;
            let written = files::write(output, |out| {
                completion.run(|line| out.write_all(line).map_err(Failure::Output)).map_err(|error| {
                    failure = Some(error);
                    io::Error::other("the run ended early")
                })
            });
            // Why the run ended says more than that the file is not written.
            failure.map_or(written, Err)?;
        }
        None => completion.run(|line| {
            let mut out = io::stdout().lock();
            out.write_all(line).and_then(|()| out.flush()).map_err(Failure::Output)
        })?,
    }
    completion.end()
}

/// The prompts of a file, submitted as far as the engine takes them, and their results in the order of the file.
struct Completion<'a> {
    engine: &'a Engine,
    raw: bool,
    lines: VecDeque<PromptLine>,
    /// Lines that the engine has, oldest first.
    submitted: VecDeque<Submitted>,
    total: usize,
    failed: usize,
    bar: ProgressBar,
    quiet: bool,
    start: Instant,
}

struct Submitted {
    index: usize,
    id: Option<Value>,
    stream: Result<TokenStream, String>,
}

/// The result of a line.
#[derive(Serialize)]
struct LineResult<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Text {
        text: String,
        tokens: Vec<TokenId>,
        finish: &'static str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        logprobs: Vec<Logprob>,
        prompt_tokens: usize,
        cached_tokens: usize,
    },
    Error {
        error: String,
    },
}

impl<'a> Completion<'a> {
    fn new(engine: &'a Engine, args: &Run, lines: Vec<PromptLine>) -> Self {
        let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(lines.len() as u64) };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len} prompts {msg} {elapsed}") {
            bar.set_style(style);
        }
        Self {
            engine,
            raw: args.raw,
            total: lines.len(),
            lines: lines.into(),
            submitted: VecDeque::new(),
            failed: 0,
            bar,
            quiet: args.quiet,
            start: Instant::now(),
        }
    }

    /// Completes all prompts, and passes on each result as a line of JSON.
    fn run(&mut self, mut write: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        self.submit();
        while let Some(Submitted { index, id, stream }) = self.submitted.pop_front() {
            let outcome = match stream {
                Ok(stream) => self.finish(stream)?,
                Err(error) => Outcome::Error { error },
            };
            self.failed += usize::from(matches!(outcome, Outcome::Error { .. }));
            let result = LineResult { index, id: id.as_ref(), outcome };
            let mut line = serde_json::to_vec(&result).map_err(|error| Failure::Output(error.into()))?;
            line.push(b'\n');
            write(&line)?;
            self.bar.inc(1);
            self.submit();
        }
        Ok(())
    }

    /// Submits lines until the engine's queue is full.
    fn submit(&mut self) {
        while let Some(line) = self.lines.pop_front() {
            let index = self.total - self.lines.len() - 1;
            let prompt = self.encode(&line.prompt);
            let stream = match prompt {
                Ok(prompt) => match self.engine.submit(EngineRequest::new(prompt).with_options(line.options.clone())) {
                    Err(EngineError::Submit(SubmitError::QueueFull { .. })) => return self.lines.push_front(line),
                    stream => stream.map_err(|error| error.to_string()),
                },
                Err(error) => Err(error.to_string()),
            };
            self.submitted.push_back(Submitted { index, id: line.id, stream });
        }
    }

    fn encode(&self, prompt: &LinePrompt) -> pteron_llm::Result<Prompt> {
        match prompt {
            LinePrompt::Tokens(tokens) => Ok(tokens.clone().into()),
            LinePrompt::Text(text) if self.raw || !self.engine.has_chat_template() => self.engine.text_prompt(text),
            LinePrompt::Text(text) => self.engine.chat_prompt(&ChatRequest::new().user(text.clone())),
            LinePrompt::Chat(messages) => self.engine.chat_prompt(&ChatRequest::new().messages(messages.iter().cloned())),
        }
    }

    /// Waits for the end of a text. Others go on meanwhile, and further lines are submitted.
    fn finish(&mut self, mut stream: TokenStream) -> Result<Outcome, Failure> {
        let (mut text, mut tokens, mut logprobs, mut finish) = (String::new(), Vec::new(), Vec::new(), None);
        loop {
            if interrupts::interrupted() {
                let done = self.total - self.lines.len() - self.submitted.len() - 1;
                return Err(Failure::InterruptedFile { done, total: self.total });
            }
            let token = match stream.next_blocking() {
                Ok(Some(token)) => token,
                Ok(None) => break,
                Err(EngineError::Model(error)) => return Err(Failure::Engine(EngineError::Model(error))),
                Err(error) => return Ok(Outcome::Error { error: error.to_string() }),
            };
            let GeneratedToken { token: id, text: piece, logprob, top_logprobs, finish: end, .. } = token;
            text += &piece;
            if !matches!(end, Some(FinishReason::StopToken(_))) {
                tokens.push(id);
            }
            logprobs.extend(logprob.map(|logprob| Logprob { token: id, logprob, top: top_logprobs }));
            finish = end;
            self.submit();
            self.show_speed();
        }
        let Usage { prompt_tokens, cached_tokens, .. } = stream.usage();
        let finish = finish_name(finish);
        Ok(Outcome::Text { text, tokens, finish, logprobs, prompt_tokens, cached_tokens })
    }

    fn show_speed(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("· {}", self.speed(self.engine.statistics().generated_tokens)));
        }
    }

    fn speed(&self, tokens: u64) -> String {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = tokens as f64 / self.start.elapsed().as_secs_f64().max(1e-9);
        format!("{rate:.0} tok/s")
    }

    /// Says what was done. Fails if a line has no text.
    fn end(self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        if !self.quiet {
            let statistics = self.engine.statistics();
            let (prompts, tokens) = (units::plural(self.total, "prompt"), statistics.generated_tokens);
            let cached = units::count(statistics.cached_tokens);
            let generated = units::count(tokens);
            let prompt_tokens = units::count(statistics.prompt_tokens);
            terminal::note(&format!(
                "{prompts}, {prompt_tokens} prompt tokens ({cached} from the cache), {generated} generated tokens, {}",
                self.speed(tokens)
            ));
        }
        match self.failed {
            0 => Ok(()),
            failed => Err(Failure::FailedPrompts { failed, total: self.total }),
        }
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
