//! The options of `pteron tune`.

use clap::Args;

use crate::bench::TargetArgs;
use crate::cli::GpuArgs;

const HELP: &str = "\
Where several kernels can run the same operator, the fastest one depends on the GPU. Tuning tries one setting after another: without \
subgroups, cooperative matrices or 8-bit dot products, and with a quarter or four times as many workgroups, in all grids (fill), in \
matrix-vector products (GEMV), tiles, and among those that share k (split-K) or the context (split-KV). Each alternative is compared with \
the best so far, in turns: prefill of 128 tokens (split-K: 16) and decode of 32, from an empty context (split-KV: after 2,048 tokens). It \
wins if it is at least 1.03 times as fast in the geometric mean of the two and at least 0.97 times in each. The winners are measured \
together against the defaults, and stored if they still win in one of these tests and lose in none. \
`pteron run`, `chat` and `bench` then use them on the same adapter, driver and backend, for programs whose constants are about as large.

The result is stored in pteron/tuning.json below $XDG_CACHE_HOME (default ~/.cache; %LOCALAPPDATA% on Windows, ~/Library/Caches on \
macOS), which can be removed at any time.

Examples:
  pteron tune                                     for the bundled model
  pteron tune --model llama.pte --adapter nvidia  for a model of yours, on a GPU of your choice
  pteron tune --synthetic llama-3.2-1b            for all models of about this size
  pteron tune --model llama.pte --forget          back to the defaults";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Timed runs per alternative, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Removes the stored tuning for this adapter and such programs, and measures nothing
    #[arg(long)]
    pub(crate) forget: bool,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
