//! What can be typed.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Says what is in a program: methods, operators, constants, caches, memory
    Inspect(Inspect),
    /// Calls a method with arrays from .npz files and writes what it answers
    Exec(Exec),
    /// Lists the GPUs there are, and says which one is used
    Devices(Devices),
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

    /// Part of the name, driver or backend of the GPU to use [default: the best there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,

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
