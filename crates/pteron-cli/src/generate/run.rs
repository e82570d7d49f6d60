//! `pteron run`: continues a prompt.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::time::Instant;

use pteron::block_on;
use pteron_llm::tokenizer::Format;
use pteron_llm::{FinishReason, GeneratedToken, GenerationOptions, Session, TokenId};
use serde::Serialize;

use super::args::Run;
use super::file;
use super::model::{self, OpenedModel};
use super::speed::Speed;
use crate::failure::{Failure, Reason};
use crate::{files, interrupts, terminal};

/// The prompt of the bundled model where none is given.
const DEFAULT_PROMPT: &str = "To read a file in Rust, you";

/// Longer prompts, in bytes, fit no context.
pub(super) const LARGEST_PROMPT: u64 = 64 << 20;

/// Runs the command.
pub(crate) fn run(args: &Run) -> ExitCode {
    match generate(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, args.verbose),
    }
}

fn generate(args: &Run) -> Result<(), Failure> {
    if let Some(path) = args.file.as_deref().filter(|path| file::is_prompt_file(path)) {
        return file::run(args, path);
    }
    if args.output.is_some() {
        return Err(Failure::OutputOfText);
    }
    if args.draft.is_some() || args.prompt_lookup {
        return Err(Failure::DraftOfText);
    }
    if args.logprobs.is_some() && !args.json {
        return Err(Failure::LogprobsOfText);
    }
    // Everything that can be wrong with the command line is found before the model is loaded.
    let options = args.generation.options(super::defaults(&args.model), args.logprobs)?;
    let has_ids = !args.token_ids.is_empty();
    let prompt = if has_ids { String::new() } else { prompt(args)? };
    let OpenedModel { model, loading, gpu } = model::open(&args.model, has_ids, args.quiet || args.json)?;
    // From here on the first Ctrl-C ends the text, not the program.
    interrupts::defer_first_interrupt();
    let continues = args.raw || model.chat_template().is_none();
    let tokens = match continues {
        _ if has_ids => args.token_ids.clone(),
        true => model.text_prompt(&prompt)?,
        false => model.chat_prompt(&pteron_llm::ChatRequest::new().user(prompt.clone()))?.tokens,
    };
    let mut session = Session::new(&model)?;
    let shows_ids = model.tokenizer().format() == Format::IdsOnly;
    let print = |token: &GeneratedToken| match () {
        () if args.json => Ok(()),
        () if shows_ids => terminal::print(&format!("{} ", token.token)),
        () => terminal::print_text(&token.text),
    };
    // Without a template the text continues the prompt, so the two are printed as one.
    let before = if continues && !args.json { prompt.as_str() } else { "" };
    let text = stream(&mut session, &tokens, options, before, print)?;
    if args.json {
        let report = JsonReport {
            adapter: &gpu.adapter().name,
            prompt: &prompt,
            text: &text.text,
            tokens: &text.tokens,
            finish: finish_name(text.finish),
            logprobs: &text.logprobs,
            speed: text.speed,
            loading_seconds: loading.as_secs_f64(),
        };
        let json = serde_json::to_string(&report).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{json}\n"));
    }
    terminal::print("\n")?;
    if !args.quiet {
        terminal::note(&text.speed.line());
    }
    Ok(())
}

#[derive(Serialize)]
struct JsonReport<'a> {
    adapter: &'a str,
    prompt: &'a str,
    text: &'a str,
    tokens: &'a [TokenId],
    finish: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    logprobs: &'a [Logprob],
    speed: Speed,
    loading_seconds: f64,
}

/// The log probability of a token, and of the most probable ones at its position.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Logprob {
    pub(super) token: TokenId,
    pub(super) logprob: f32,
    pub(super) top: Vec<(TokenId, f32)>,
}

/// A generated text.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) tokens: Vec<TokenId>,
    pub(super) finish: Option<FinishReason>,
    pub(super) logprobs: Vec<Logprob>,
    pub(super) speed: Speed,
}

/// The name of a reason in JSON.
pub(super) fn finish_name(finish: Option<FinishReason>) -> &'static str {
    match finish {
        Some(FinishReason::StopToken(_)) => "end",
        Some(FinishReason::StopString(_)) => "stop",
        Some(FinishReason::MaxTokens) => "length",
        Some(FinishReason::ContextFull) => "context",
        _ => "interrupted",
    }
}

/// Generates a text and shows it token by token, after `before`. Shows nothing if the prompt or an option is rejected. Ctrl-C ends
/// the text and keeps the tokens generated so far.
pub(super) fn stream(
    session: &mut Session,
    prompt: &[TokenId],
    options: GenerationOptions,
    before: &str,
    show: impl Fn(&GeneratedToken) -> Result<(), Failure>,
) -> Result<Text, Failure> {
    let gpu_memory_bytes = Speed::memory(session);
    let common = session.tokens().iter().zip(prompt).take_while(|(own, new)| own == new).count();
    let cached_tokens = common.min(prompt.len().saturating_sub(1));
    let prompt_tokens = prompt.len() - cached_tokens;
    let mut text = Text {
        text: String::new(),
        tokens: Vec::new(),
        finish: None,
        logprobs: Vec::new(),
        speed: Speed { prompt_tokens, cached_tokens, gpu_memory_bytes, ..Speed::default() },
    };
    let mut generation = session.generate(prompt, options)?;
    terminal::print_text(before)?;
    let mut first = true;
    loop {
        let start = Instant::now();
        let token = block_on(generation.next())?;
        text.speed.add(std::mem::take(&mut first), start.elapsed());
        let Some(token) = token else { break };
        text.text += &token.text;
        show(&token)?;
        if let Some(logprob) = token.logprob {
            text.logprobs.push(Logprob { token: token.token, logprob, top: token.top_logprobs });
        }
        if interrupts::interrupted() {
            break;
        }
    }
    text.tokens = generation.generated().to_vec();
    text.finish = generation.finish();
    text.speed.generated_tokens = text.tokens.len();
    if let Some((prompt, generated)) = generation.gpu_seconds() {
        (text.speed.gpu_prompt_seconds, text.speed.gpu_generation_seconds) = (Some(prompt), Some(generated));
    }
    Ok(text)
}

/// Returns the prompt: the argument, a file, standard input, or the bundled model's own.
fn prompt(args: &Run) -> Result<String, Failure> {
    match (&args.prompt, &args.file) {
        (Some(prompt), _) if prompt != "-" => Ok(prompt.clone()),
        (None, Some(path)) => {
            let bytes = files::read_or_stream(path, LARGEST_PROMPT)?;
            String::from_utf8(bytes).map_err(|_| Failure::file(path, Reason::NotText))
        }
        (None, None) => {
            let text = if std::io::stdin().is_terminal() { String::new() } else { piped()? };
            match (text.is_empty(), &args.model.model) {
                (false, _) => Ok(text),
                (true, None) => Ok(DEFAULT_PROMPT.to_owned()),
                (true, Some(_)) => Err(Failure::NoPrompt),
            }
        }
        _ => piped(),
    }
}

fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().take(LARGEST_PROMPT + 1).read_to_string(&mut text).map_err(Failure::Input)?;
    if text.len() as u64 > LARGEST_PROMPT {
        return Err(Failure::LongInput { most: LARGEST_PROMPT });
    }
    Ok(text)
}
