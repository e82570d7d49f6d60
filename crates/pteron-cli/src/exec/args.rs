//! The options of `pteron exec`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pteron::media::Layout;

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
                                                          also a trace for ui.perfetto.dev
  pteron exec net.pte --random-constants 1 --random-inputs 1 --out o --fast --repeat 20
                                                          speed without weights and inputs
  pteron exec mobilenet.pte --image cat.jpg --crop --resize 256 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --top 5 --labels imagenet.txt
  pteron exec superres.pte --image small.png --out-image large.png
  pteron exec vocoder.pte --in mel.npz --out-audio speech.wav --rate 22050
  pteron exec pitch.pte --audio voice.wav --rate 16000 --out o";

#[derive(Args, Debug)]
#[command(after_help = EXEC_EXAMPLES)]
pub(crate) struct Exec {
    /// The program to run, or OWNER/NAME of a model that was pulled
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,

    /// The inputs of a call; repeated for further calls
    #[arg(long = "in", value_name = "CALL.npz", required_unless_present_any = ["random_inputs", "image", "audio"])]
    pub(crate) inputs: Vec<PathBuf>,

    /// One call with pseudo-random inputs of the largest shapes, from a seed
    #[arg(long, value_name = "SEED", conflicts_with = "inputs")]
    pub(crate) random_inputs: Option<u64>,

    /// Fills the program's constants from a seed, whatever the file has: zeros compress well
    #[arg(long, value_name = "SEED")]
    pub(crate) random_constants: Option<u64>,

    /// Output folder: 0.npz for the first call, 1.npz for the second, …; created if absent
    #[arg(long, value_name = "DIR", required_unless_present_any = ["top", "out_image", "out_audio"])]
    pub(crate) out: Option<PathBuf>,

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

    /// Rounds factors of matrix products and convolutions to 16 bits where that is faster
    #[arg(long, conflicts_with = "exact")]
    pub(crate) fast: bool,

    #[command(flatten)]
    pub(crate) media: MediaArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints the GPU time of each kernel in the last round, and writes a Chrome trace
    #[arg(long, value_name = "TRACE.json", num_args = 0..=1)]
    pub(crate) profile: Option<Option<PathBuf>>,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Pictures and sound as inputs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pictures and sound")]
pub(crate) struct MediaArgs {
    /// A PNG or JPEG picture as input; repeated for further calls. Other inputs come from --in
    #[arg(long, value_name = "PICTURE", conflicts_with_all = ["audio", "random_inputs"])]
    pub(crate) image: Vec<PathBuf>,

    /// A WAV sound as input, mixed to one channel; repeated for further calls. Other inputs come from --in
    #[arg(long, value_name = "SOUND.wav", conflicts_with = "random_inputs")]
    pub(crate) audio: Vec<PathBuf>,

    /// The input that the picture or sound is for [default: the first that --in does not have]
    #[arg(long, value_name = "INDEX")]
    pub(crate) input: Option<usize>,

    /// The picture's size for the model: a side, or height x width [default: the input's; if that may vary, the picture's own]
    #[arg(long, value_name = "N|HxW", value_parser = size, requires = "image")]
    pub(crate) size: Option<Size>,

    /// Keeps proportions: scales until the size is covered, and cuts out the centre
    #[arg(long, requires = "image")]
    pub(crate) crop: bool,

    /// Scales the shorter side to this before the centre is cut out, as torchvision's `Resize` and `CenterCrop`
    #[arg(long, value_name = "N", requires = "crop", value_parser = clap::value_parser!(u32).range(1..=MOST_SIDE))]
    pub(crate) resize: Option<u32>,

    /// Means of red, green and blue, or one for all, of values from 0 to 1: elements are (value - mean) / std
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_negative_numbers = true, requires = "image")]
    pub(crate) mean: Vec<f32>,

    /// Standard deviations of red, green and blue, or one for all
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "image")]
    pub(crate) std: Vec<f32>,

    /// The order of a picture's dimensions, in and out [default: where 1 or 3 channels are found, nchw first]
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutArg>,

    /// Samples per second of the model's sound: other sound is resampled; also the rate of --out-audio [default: the file's]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
}

/// Outputs for people.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pictures and sound")]
pub(crate) struct OutputArgs {
    /// Prints the K largest elements of the first output, with probabilities: of logits by softmax, others as they are
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) top: Option<u32>,

    /// Names of the classes, one per line
    #[arg(long, value_name = "FILE", requires = "top")]
    pub(crate) labels: Option<PathBuf>,

    /// Writes the first output that is a picture as PNG; of further calls as NAME-1.png, NAME-2.png, …
    #[arg(long, value_name = "NAME.png")]
    pub(crate) out_image: Option<PathBuf>,

    /// The values that are black and white in --out-image
    #[arg(long, value_name = "LOW,HIGH", default_value = "0,1", value_parser = range, allow_hyphen_values = true)]
    pub(crate) out_range: Range,

    /// Writes the first output that is a sound as WAV; of further calls as NAME-1.wav, NAME-2.wav, …
    #[arg(long, value_name = "NAME.wav")]
    pub(crate) out_audio: Option<PathBuf>,
}

/// The order of a picture's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// Channels, rows, columns
    Nchw,
    /// Rows, columns, channels
    Nhwc,
}

impl MediaArgs {
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout.map(|layout| match layout {
            LayoutArg::Nchw => Layout::Nchw,
            LayoutArg::Nhwc => Layout::Nhwc,
        })
    }
}

/// The longest side of a picture that may be asked for.
const MOST_SIDE: i64 = 32_768;

/// A picture's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) height: u32,
    pub(crate) width: u32,
}

fn size(text: &str) -> Result<Size, String> {
    let (height, width) = text.split_once(['x', 'X', '×']).unwrap_or((text, text));
    let side = |text: &str| text.parse::<u32>().ok().filter(|&side| side > 0 && i64::from(side) <= MOST_SIDE);
    match (side(height), side(width)) {
        (Some(height), Some(width)) => Ok(Size { height, width }),
        _ => Err(format!("expected a side or HEIGHTxWIDTH, each from 1 to {MOST_SIDE}")),
    }
}

/// The values of black and white.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

fn range(text: &str) -> Result<Range, String> {
    let numbers = text.split_once(',').and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    match numbers {
        Some((low, high)) if low < high && f32::is_finite(high - low) => Ok(Range { low, high }),
        _ => Err("expected two numbers, the lower one first, such as 0,255".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_side_or_two() {
        assert_eq!(size("224"), Ok(Size { height: 224, width: 224 }));
        assert_eq!(size("48x320"), Ok(Size { height: 48, width: 320 }));
        for wrong in ["", "x", "0", "3x", "-1", "2x3x4", "32769", "1.5"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_two_numbers() {
        assert_eq!(range("-1, 1"), Ok(Range { low: -1.0, high: 1.0 }));
        for wrong in ["", "1", "1,0", "0,0", "nan,1", "0,inf", "1,2,3"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
