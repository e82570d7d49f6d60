//! What can be typed.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::Bench;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// ExecuTorch programs (.pte) on any GPU.
#[derive(Debug, Parser)]
#[command(name = "pteron", version, styles = STYLES, propagate_version = true, subcommand_required = true)]
#[command(after_help = "Exit status: 0 all is well, 1 something failed, 2 the command line is wrong.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Goes on from a prompt, with the model in the box or one of yours
    Run(Run),
    /// Holds a conversation at the terminal
    Chat(Chat),
    /// Makes a program of a checkpoint: Hugging Face folders, GGUF files, or weights that are made up
    Convert(crate::convert::Convert),
    /// Says what is in a program: methods, operators, constants, caches, memory
    Inspect(Inspect),
    /// Calls a method with arrays from .npz files and writes what it answers
    Exec(Exec),
    /// Measures how fast a language model reads prompts and writes answers here
    Bench(Bench),
    /// Finds out which kernels are the better ones here, and remembers it
    Tune(crate::tune::Tune),
    /// Lists the GPUs there are, and says which one is used
    Devices(Devices),
}

/// Which GPU, and how it is used.
#[derive(Args, Debug)]
pub(crate) struct GpuArgs {
    /// Part of the name, driver or backend of the GPU to use [default: the best there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,

    /// Neither uses kernels that earlier runs have compiled nor keeps those of this one; `pteron devices` says where they are
    #[arg(long)]
    pub(crate) no_pipeline_cache: bool,
}

/// Which model, and on what.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// A language model [default: the small one in the box]
    #[arg(long, value_name = "MODEL.pte")]
    pub(crate) model: Option<PathBuf>,

    /// Its tokenizer [default: tokenizer.json or tokenizer.model beside it]
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Its chat template [default: the one in the files beside it]
    #[arg(long, value_name = "FILE.jinja")]
    pub(crate) template: Option<PathBuf>,

    /// External constants of the program; may be given again
    #[arg(long, value_name = "FILE.ptd", requires = "model")]
    pub(crate) data: Vec<PathBuf>,

    /// How many tokens the context has, where the program does not say
    #[arg(long, value_name = "N")]
    pub(crate) context_length: Option<u32>,

    /// The token that starts a text, where the program does not say
    #[arg(long, value_name = "ID")]
    pub(crate) bos_id: Option<u32>,

    /// A token that ends a text, where the program does not say; may be given again
    #[arg(long = "eos-id", value_name = "ID")]
    pub(crate) eos_ids: Vec<u32>,

    /// Takes the program to keep a KV cache, where it does not say
    #[arg(long)]
    pub(crate) kv_cache: bool,

    /// Keeps keys and values as 16-bit floats where the GPU can: half the memory
    #[arg(long)]
    pub(crate) half_cache: bool,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
}

/// How a text is generated.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct GenerationArgs {
    /// The most tokens to generate [default: as many as there is room for]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,

    /// How much chance there is: 0 always takes the likeliest token [default: 0; model in the box: 0.8]
    #[arg(short, long, value_name = "T")]
    pub(crate) temperature: Option<f32>,

    /// Draws among this many of the likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) top_k: u32,

    /// Draws among the likeliest tokens that together are this probable
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub(crate) top_p: f32,

    /// Draws among tokens at least this probable, compared with the likeliest [default: 0; model in the box, without -t: 0.1]
    #[arg(long, value_name = "P")]
    pub(crate) min_p: Option<f32>,

    /// Makes tokens that were there before less likely; 1 changes nothing [default: 1; model in the box, without -t: 1.15]
    #[arg(long, value_name = "F")]
    pub(crate) repetition_penalty: Option<f32>,

    /// Subtracted from the logits of tokens that were generated before
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f32,

    /// The same, as often as they were
    #[arg(long, value_name = "F", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f32,

    /// Adds to the logit of a token; may be given again
    #[arg(long = "logit-bias", value_name = "ID=BIAS", value_parser = bias, allow_negative_numbers = true)]
    pub(crate) logit_bias: Vec<(u32, f32)>,

    /// What draws depend on: the same seed, the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Ends the text before this string; may be given again
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,

    /// Chooses tokens on the host even where the GPU could
    #[arg(long)]
    pub(crate) host_sampling: bool,

    /// Goes on when the context is full, dropping the oldest half of the text
    #[arg(long)]
    pub(crate) endless: bool,
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (token, bias) = text.split_once('=').ok_or("it must be a token's id, =, and a number")?;
    let token = token.parse().map_err(|_| format!("{token:?} is no token id"))?;
    Ok((token, bias.parse().map_err(|_| format!("{bias:?} is no number"))?))
}

impl GenerationArgs {
    /// The options a session takes. Who names a temperature gets that alone, and `defaults` are for those who do not.
    pub(crate) fn options(&self, defaults: pteron_llm::Sampling) -> pteron_llm::GenerationOptions {
        let defaults = match self.temperature {
            Some(temperature) => pteron_llm::Sampling::default().with_temperature(temperature),
            None => defaults,
        };
        let sampling = pteron_llm::Sampling::default()
            .with_temperature(defaults.temperature)
            .with_top_k(self.top_k)
            .with_top_p(self.top_p)
            .with_min_p(self.min_p.unwrap_or(defaults.min_p))
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(defaults.repetition_penalty))
            .with_presence_penalty(self.presence_penalty)
            .with_frequency_penalty(self.frequency_penalty)
            .with_logit_bias(self.logit_bias.iter().copied())
            .with_seed(self.seed);
        pteron_llm::GenerationOptions::default()
            .with_sampling(sampling)
            .with_stop_strings(self.stop.iter().cloned())
            .with_max_tokens(self.max_tokens)
            .with_sample_on(if self.host_sampling { pteron_llm::SampleOn::Host } else { pteron_llm::SampleOn::Gpu })
            .with_overflow(match self.endless {
                true => pteron_llm::ContextOverflow::DropOldest { keep: 1 },
                false => pteron_llm::ContextOverflow::Stop,
            })
    }
}

const RUN_EXAMPLES: &str = "\
Examples:
  pteron run                                        the model in the box, from a prompt of its own
  pteron run \"A thread is\" -n 100 --seed 7          a hundred tokens; another seed, another text
  pteron run --file notes.txt --stop \"\\n\\n\"         goes on from a file, to the end of the paragraph
  echo Traits | pteron run --json | jq -r .text     from a pipe, for scripts
  pteron run --model llama.pte \"Hello\"              a model of yours, its tokenizer beside it";

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// What the text begins with; - for standard input
    pub(crate) prompt: Option<String>,

    /// Takes the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) generation: GenerationArgs,

    /// Gives the prompt to the model as it is, without its chat template
    #[arg(long)]
    pub(crate) raw: bool,

    /// Also gives the log probability of each token, and of this many others; with --json
    #[arg(long, value_name = "N", requires = "json")]
    pub(crate) logprobs: Option<u32>,

    /// Prints one JSON object at the end instead of the text
    #[arg(long)]
    pub(crate) json: bool,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Says more where something fails
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const CHAT_HELP: &str = "\
/help at the prompt lists what can be typed; Tab completes it. Ctrl-C stops an answer or clears the line, Ctrl-D ends the \
conversation.

At a terminal, lines are edited as in a shell, and the arrow keys bring back earlier ones, also those of earlier \
conversations: the last thousand are kept in pteron/chat_history below $XDG_STATE_HOME (~/.local/state if that is not set; \
%LOCALAPPDATA% on Windows). A line that begins with a space is not kept.";

#[derive(Args, Debug)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) generation: GenerationArgs,

    /// What the model is told before anything else
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Neither brings back lines of earlier conversations nor keeps those of this one
    #[arg(long)]
    pub(crate) no_history: bool,

    /// Prints answers alone
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Says more where something fails
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  pteron inspect model.pte                          what is in it, for people
  pteron inspect *.pte --json | jq .memory          one JSON object a line and file
  pteron inspect model.pte --data weights.ptd       with the constants that lie outside
  pteron inspect model.pte --graph dot | dot -Tsvg  a picture of the delegate's graph
  pteron inspect model.pte --verify && echo good    the exit status alone
  pteron inspect model.pte --verify --deep          every constant against its hash, too";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// Programs to look into
    #[arg(required = true, value_name = "MODEL.pte")]
    pub(crate) files: Vec<PathBuf>,

    /// External constants of the programs, checked against them; may be given again
    #[arg(long, value_name = "FILE.ptd")]
    pub(crate) data: Vec<PathBuf>,

    /// Prints one JSON object a line for each program
    #[arg(long, conflicts_with_all = ["graph", "verify"])]
    pub(crate) json: bool,

    /// Draws the delegates' graphs of one program
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "verify")]
    pub(crate) graph: Option<GraphLanguage>,

    /// Draws the graphs of this method only
    #[arg(long, value_name = "NAME", requires = "graph")]
    pub(crate) method: Option<String>,

    /// Checks the files and prints nothing: the exit status is the answer
    #[arg(long)]
    pub(crate) verify: bool,

    /// Checks every named constant against its SHA-256 as well, which reads all data
    #[arg(long, requires = "verify")]
    pub(crate) deep: bool,

    /// Says more: every constant, what --deep could check, and the details of errors
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXEC_EXAMPLES: &str = "\
Inputs are named arr_0, arr_1, … in the method's order, as numpy.savez(\"call.npz\", tokens, position) names them; so are \
outputs. Calls run in order on one state: what the first leaves in a KV cache, the second finds there. Outputs have the \
shape they have in that call, and a file appears when it is complete.

Examples:
  pteron exec model.pte --in call.npz --out o             writes o/0.npz
  pteron exec llm.pte --in a.npz --in b.npz --out o       two calls on one KV cache
  pteron exec model.pte --method encode --in x.npz --out o
  pteron exec model.pte --data weights.ptd --in x.npz --out o
  pteron exec model.pte --in x.npz --out o --repeat 20    how long each call takes
  pteron exec model.pte --in x.npz --out o --profile      where that time goes
  pteron exec model.pte --in x.npz --out o --profile trace.json
                                                          for ui.perfetto.dev, too";

#[derive(Args, Debug)]
#[command(after_help = EXEC_EXAMPLES)]
pub(crate) struct Exec {
    /// The program to run
    #[arg(value_name = "MODEL.pte")]
    pub(crate) model: PathBuf,

    /// The inputs of a call; given again, of the next call
    #[arg(long = "in", value_name = "CALL.npz", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Where the outputs go: 0.npz of the first call, 1.npz of the second, …; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// The method to call [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,

    /// External constants of the program; may be given again
    #[arg(long, value_name = "FILE.ptd")]
    pub(crate) data: Vec<PathBuf>,

    /// Runs all calls this often, each time on a fresh state, and prints how long each takes; outputs are those of the last
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Computes each operator of the program by itself, in 32-bit floats throughout: slower, the nearest there is to what
    /// PyTorch answers
    #[arg(long)]
    pub(crate) exact: bool,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints how long each kernel takes on the GPU in the last round, and writes a Chrome trace
    #[arg(long, value_name = "TRACE.json", num_args = 0..=1)]
    pub(crate) profile: Option<Option<PathBuf>>,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pteron devices                                 what there is, the one that is used first
  pteron devices --json | jq -r .devices[].name  for scripts")]
pub(crate) struct Devices {
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphLanguage {
    /// For Graphviz
    Dot,
    /// For Markdown pages and mermaid.live
    Mermaid,
}
