//! The options of `pteron run` and `pteron chat`.

use std::path::PathBuf;

use clap::Args;
use pteron_llm::{ContextOverflow, GenerationOptions, SampleOn, Sampling, StopConditions};

use crate::cli::ModelArgs;
use crate::failure::Failure;

/// Sampling and length of the generated text.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct GenerationArgs {
    /// Most tokens to generate [default: up to the end of the context]
    #[arg(short = 'n', long, value_name = "N")]
    max_tokens: Option<usize>,

    /// Sampling temperature; 0 is greedy decoding [default: 0; bundled model: 0.8]
    #[arg(short, long, value_name = "T")]
    temperature: Option<f32>,

    /// Samples among the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,

    /// Samples among the most probable tokens whose probabilities add up to P
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,

    /// Samples among tokens at least P times as probable as the most probable one [default: 0; bundled model, without -t: 0.1]
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,

    /// Makes tokens of the prompt and the text less probable; 1 for none [default: 1; bundled model, without -t: 1.15]
    #[arg(long, value_name = "F")]
    repetition_penalty: Option<f32>,

    /// Subtracted from the logit of every token generated so far
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,

    /// Subtracted from the logit of every token generated so far, once per occurrence
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,

    /// Added to the logit of a token; repeatable
    #[arg(long = "logit-bias", value_name = "ID=BIAS", value_parser = bias, allow_negative_numbers = true)]
    logit_bias: Vec<(u32, f32)>,

    /// Seed of the sampling: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Ends the text before this string; repeatable
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,

    /// Samples on the host even where the GPU could
    #[arg(long)]
    host_sampling: bool,

    /// Continues when the context is full, dropping the oldest half of the text
    #[arg(long)]
    endless: bool,
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (token, bias) = text.split_once('=').ok_or("expected a token id, =, and a number")?;
    let token = token.parse().map_err(|_| format!("{token:?} is not a token id"))?;
    Ok((token, bias.parse().map_err(|_| format!("{bias:?} is not a number"))?))
}

impl GenerationArgs {
    /// Whether a text goes on when the context is full.
    pub(super) fn is_endless(&self) -> bool {
        self.endless
    }

    /// The options of a session, checked. With a temperature on the command line, `defaults` do not apply.
    ///
    /// # Errors
    /// A value outside its range. Nothing is loaded yet, so a typo costs no time.
    pub(super) fn options(&self, defaults: Sampling, logprobs: Option<u32>) -> Result<GenerationOptions, Failure> {
        let defaults = match self.temperature {
            Some(temperature) => Sampling::default().with_temperature(temperature),
            None => defaults,
        };
        let sampling = Sampling::default()
            .with_temperature(defaults.temperature)
            .with_top_k(self.top_k)
            .with_top_p(self.top_p)
            .with_min_p(self.min_p.unwrap_or(defaults.min_p))
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(defaults.repetition_penalty))
            .with_presence_penalty(self.presence_penalty)
            .with_frequency_penalty(self.frequency_penalty)
            .with_logit_bias(self.logit_bias.iter().copied())
            .with_seed(self.seed)
            .with_logprobs(logprobs);
        let options = GenerationOptions::default()
            .with_sampling(sampling)
            .with_stop_strings(self.stop.iter().cloned())
            .with_max_tokens(self.max_tokens)
            .with_sample_on(if self.host_sampling { SampleOn::Host } else { SampleOn::Gpu })
            .with_overflow(match self.endless {
                true => ContextOverflow::DropOldest { keep: 1 },
                false => ContextOverflow::Stop,
            });
        options.sampling.validate().map_err(pteron_llm::Error::from)?;
        StopConditions::new(options.stop_strings.clone(), Vec::new()).map_err(pteron_llm::Error::from)?;
        Ok(options)
    }
}

const RUN_EXAMPLES: &str = "\
Examples:
  pteron run                                        the bundled model, with a prompt of its own
  pteron run \"A thread is\" -n 100 --seed 7          100 tokens; another seed gives another text
  pteron run --file notes.txt --stop \"\\n\\n\"         continues a file to the end of the paragraph
  echo Traits | pteron run --json | jq -r .text     from a pipe, for scripts
  pteron run --model llama.pte \"Hello\"              a model of yours, its tokenizer in the same folder
  pteron run --file prompts.jsonl --output results.jsonl
                                                    many prompts at once

A file of prompts has one JSON object per line: {\"prompt\": \"A thread is\"}, {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]} or \
{\"tokens\": [1, 15043]}. A line may set id, which its result repeats, and max_tokens, temperature, top_k, top_p, min_p, \
repetition_penalty, presence_penalty, frequency_penalty, logit_bias ([[id, bias], …]), seed and stop (a list). Results are JSON \
lines in the order of the file; those of prompts that are refused have an error in place of a text.";

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// The prompt; - reads standard input
    pub(crate) prompt: Option<String>,

    /// Reads the prompt from a file; from a file whose name ends in .jsonl, many prompts, which run at once
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) file: Option<PathBuf>,

    /// Writes the results of a file of prompts to this file, when all are there [default: standard output, one by one]
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) output: Option<PathBuf>,

    /// A smaller program of the same vocabulary that drafts tokens for a file of prompts; the texts are the same
    #[arg(long, value_name = "MODEL", requires = "file")]
    pub(crate) draft: Option<PathBuf>,

    /// Drafts tokens for a file of prompts from repetitions in each prompt and text; the texts are the same
    #[arg(long, requires = "file", conflicts_with = "draft")]
    pub(crate) prompt_lookup: bool,

    /// The tokens of the prompt, in place of a text; without a tokenizer beside the model, generated tokens are printed as ids
    #[arg(long, value_name = "ID,…", value_delimiter = ',', conflicts_with_all = ["prompt", "file", "raw"])]
    pub(crate) token_ids: Vec<u32>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) generation: GenerationArgs,

    /// Passes the prompt to the model unchanged, without its chat template
    #[arg(long)]
    pub(crate) raw: bool,

    /// Adds the log probability of each token, and of the N most probable ones at its position; with --json or a file of prompts
    #[arg(long, value_name = "N")]
    pub(crate) logprobs: Option<u32>,

    /// Prints one JSON object at the end instead of the text
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Prints the structure of an error as well
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const CHAT_HELP: &str = "\
/help lists the commands; Tab completes them. Ctrl-C stops an answer or clears the line, Ctrl-D ends the conversation.

At a terminal, lines are edited as in a shell, and the arrow keys recall earlier ones, including those of earlier \
conversations: the last 1,000 are stored in pteron/chat_history below $XDG_STATE_HOME (default ~/.local/state; \
%LOCALAPPDATA% on Windows). A line that begins with a space is not stored.";

#[derive(Args, Debug)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) generation: GenerationArgs,

    /// The system message
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Neither recalls lines of earlier conversations nor stores those of this one
    #[arg(long)]
    pub(crate) no_history: bool,

    /// Prints only the answers
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Prints the structure of an error as well
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
