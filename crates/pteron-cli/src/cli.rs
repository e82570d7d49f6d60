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
#[command(after_help = "Exit status: 0 all is well, 1 a file is bad, 2 the command line is.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says what is in a program: methods, operators, constants, caches, memory
    Inspect(Inspect),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphLanguage {
    /// For Graphviz
    Dot,
    /// For Markdown pages and mermaid.live
    Mermaid,
}
