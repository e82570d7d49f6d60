//! What can be typed behind `pteron tune`.

use clap::Args;

use crate::bench::TargetArgs;
use crate::cli::GpuArgs;

const HELP: &str = "\
Where two kernels serve the same plan, which of them is better depends on the GPU. A prompt of 128 tokens and 32 tokens of an answer \
are measured with each alternative, in turns with the defaults. What is at least 1.03 times as fast, in the geometric mean of the two, \
and in neither below 0.97, is taken; what is taken is measured together once more, and remembered if it still wins. `pteron run`, \
`chat` and `bench` then use it on the same adapter, driver and backend for programs whose constants are about as large.

It is kept in pteron/tuning.json below $XDG_CACHE_HOME (~/.cache if that is not set; %LOCALAPPDATA% on Windows, ~/Library/Caches on \
macOS), which can be removed at any time.

Examples:
  pteron tune                                     for the model in the box
  pteron tune --model llama.pte --adapter nvidia  for a model of yours, on a GPU of your choice
  pteron tune --synthetic llama-3.2-1b            for all models of about this size
  pteron tune --model llama.pte --forget          back to the defaults";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// How often each alternative is measured, behind a run that is not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Forgets what is remembered for this adapter and such programs, and measures nothing
    #[arg(long)]
    pub(crate) forget: bool,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
