//! The options of `pteron exec`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::GpuArgs;

const EXEC_EXAMPLES: &str = "\
Inputs are named arr_0, arr_1, … in the method's order, as numpy.savez(\"call.npz\", tokens, position) names them; so are \
outputs. Calls run in order on one state, so the second call finds what the first wrote to a KV cache. Outputs have the \
live shape of their call. A file appears under its name when it is complete.

Examples:
  pteron exec model.pte --in call.npz --out o             writes o/0.npz
  pteron exec llm.pte --in a.npz --in b.npz --out o       two calls on one KV cache
  pteron exec model.pte --method encode --in x.npz --out o
  pteron exec model.pte --data weights.ptd --in x.npz --out o
  pteron exec model.pte --in x.npz --out o --repeat 20    the wall time of each call
  pteron exec model.pte --in x.npz --out o --profile      GPU time by kernel
  pteron exec model.pte --in x.npz --out o --profile trace.json
                                                          also a trace for ui.perfetto.dev";

#[derive(Args, Debug)]
#[command(after_help = EXEC_EXAMPLES)]
pub(crate) struct Exec {
    /// The program to run
    #[arg(value_name = "MODEL.pte")]
    pub(crate) model: PathBuf,

    /// The inputs of a call; repeated for further calls
    #[arg(long = "in", value_name = "CALL.npz", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Output folder: 0.npz for the first call, 1.npz for the second, …; created if absent
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// The method to call [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,

    /// External constants of the program; repeatable
    #[arg(long, value_name = "FILE.ptd")]
    pub(crate) data: Vec<PathBuf>,

    /// Runs all calls N times, each time on a fresh state, and prints wall times; outputs are those of the last round
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Computes without fusions and in f32 throughout: slower, and closest to PyTorch's results
    #[arg(long)]
    pub(crate) exact: bool,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints the GPU time of each kernel in the last round, and writes a Chrome trace
    #[arg(long, value_name = "TRACE.json", num_args = 0..=1)]
    pub(crate) profile: Option<Option<PathBuf>>,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
