//! The options of `pteron inspect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  pteron inspect model.pte                          a report for people
  pteron inspect *.pte --json | jq .memory          one JSON object per line and file
  pteron inspect model.pte --data weights.ptd       with its external constants
  pteron inspect model.pte --graph dot | dot -Tsvg  a drawing of its graph
  pteron inspect model.pte --verify && echo good    only the exit status
  pteron inspect model.pte --verify --deep          every constant against its hash as well";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// Programs to inspect, or OWNER/NAME of models that were pulled
    #[arg(required = true, value_name = "MODEL")]
    pub(crate) files: Vec<PathBuf>,

    /// External constants of the programs, checked against them; repeatable
    #[arg(long, value_name = "FILE.ptd")]
    pub(crate) data: Vec<PathBuf>,

    /// Prints one JSON object per program, one per line
    #[arg(long, conflicts_with_all = ["graph", "verify"])]
    pub(crate) json: bool,

    /// Prints the methods of one program as they run, in a graph language: delegates and kernel calls joined, before operators
    /// are fused, and the steps on the host
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "verify")]
    pub(crate) graph: Option<GraphLanguage>,

    /// Only this method
    #[arg(long, value_name = "NAME", requires = "graph")]
    pub(crate) method: Option<String>,

    /// Verifies the files and prints nothing: the exit status is the result
    #[arg(long)]
    pub(crate) verify: bool,

    /// Also checks every named constant against its SHA-256, which reads all data
    #[arg(long, requires = "verify")]
    pub(crate) deep: bool,

    /// Lists every constant, what --deep checked, and the structure of errors
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
