//! What can be typed behind `pteron bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pteron::StateDtype;

use super::check;
use super::length_sweep::LengthRange;

use crate::cli::GpuArgs;

const EXAMPLES: &str = "\
Prefill (pp) runs a prompt of so many tokens from an empty cache. Decode (tg) generates so many tokens, each the likeliest, one \
after the other, behind a cache filled to a depth. Tokens of prompts are random, and the same every time.

Examples:
  pteron bench                                            the model in the box
  pteron bench --model llama.pte --adapter nvidia         a model of yours, on a GPU of your choice
  pteron bench --synthetic llama-3.2-1b                   random weights of a shape that people know
  pteron bench --pp 512 --tg 64 --depth 0,1024            other lengths
  pteron bench --pp 0 --tg 128 --repeat 20                decoding alone, more often
  pteron bench --json | jq '.tests[] | .tokens_per_second'
  pteron bench --plot speed.svg --runs benches/runs       a picture, and the raw figures
  pteron bench --check                                    whether the answers are right
  pteron bench --synthetic llama-3.2-1b --smooth 1..512   whether every length is as fast as those around it
  pteron bench --pp 128 --tg 32 --depth 0 --against unfused   what fusions are worth here";

/// Another way to load the program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Against {
    /// Without fusions: each operator of the file by itself
    Unfused,
}

impl Against {
    /// As it is typed and told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unfused => "unfused",
        }
    }
}

/// Which program is measured.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// A language model; no tokenizer is needed [default: the small one in the box]
    #[arg(long, value_name = "MODEL.pte")]
    pub(crate) model: Option<PathBuf>,

    /// Makes up a model of this shape instead, as `pteron convert --synthetic` does; its context fits what is measured
    #[arg(long, value_name = "SHAPE", conflicts_with = "model")]
    pub(crate) synthetic: Option<String>,

    /// External constants of the program; may be given again
    #[arg(long, value_name = "FILE.ptd", requires = "model")]
    pub(crate) data: Vec<PathBuf>,

    /// How many tokens the context has, where the program does not say
    #[arg(long, value_name = "N")]
    pub(crate) context_length: Option<u32>,

    /// Takes the program to keep a KV cache, where it does not say
    #[arg(long)]
    pub(crate) kv_cache: bool,
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Keeps keys and values as 16-bit floats where the GPU can: half the memory
    #[arg(long)]
    pub(crate) half_cache: bool,

    /// Lengths of prompts; 0 for none [default: 128,512,2048; none with --check or --smooth]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) pp: Option<Vec<u32>>,

    /// How many tokens are generated at each depth; 0 for none [default: 128; none with --check or --smooth]
    #[arg(long, value_name = "N")]
    pub(crate) tg: Option<u32>,

    /// How many tokens the cache holds before any is generated [default: 0,2048,8192]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) depth: Option<Vec<u32>>,

    /// How often each of them is measured, behind a run that is not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints one JSON object with every run instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Draws the speeds
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// Keeps the JSON object as DIR/DATE-ADAPTER-PROGRAM.json; DIR is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) runs: Option<PathBuf>,

    /// Compares logits with those of the exact path first, and fails where less than 99 % of the likeliest tokens agree; without
    /// a model, those of the one in the box and of a made-up one
    #[arg(long)]
    pub(crate) check: bool,

    /// Times a prompt of every length, and fails where one takes more than 1.25 times the median of those up to 16 tokens shorter
    /// or longer
    #[arg(long, value_name = "FIRST..LAST", num_args = 0..=1, default_missing_value = "1..512")]
    pub(crate) smooth: Option<LengthRange>,

    /// Measures the program in turns with itself loaded otherwise, and fails where the other way takes less than 0.97 of the time,
    /// in the median
    #[arg(long, value_name = "WAY")]
    pub(crate) against: Option<Against>,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What is measured of speed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) pp: Vec<u32>,
    pub(super) tg: u32,
    pub(super) depth: Vec<u32>,
}

impl Bench {
    /// What is typed, and what is usual for the rest. Who only asks for a check need not wait for speeds.
    pub(super) fn sizes(&self) -> Sizes {
        let typed = self.pp.is_some() || self.tg.is_some() || self.depth.is_some();
        if !typed && (self.check || self.smooth.is_some()) {
            return Sizes::default();
        }
        let or = |typed: &Option<Vec<u32>>, usual: [u32; 3]| typed.clone().unwrap_or_else(|| usual.to_vec());
        Sizes { pp: or(&self.pp, [128, 512, 2048]), tg: self.tg.unwrap_or(128), depth: or(&self.depth, [0, 2048, 8192]) }
    }

    /// How keys and values are kept.
    pub(super) fn cache(&self) -> StateDtype {
        if self.half_cache { StateDtype::F16 } else { StateDtype::F32 }
    }

    /// The longest context that is asked for, with room for a token behind every prompt: programs take no prompt in one call that
    /// leaves none.
    pub(super) fn longest(&self) -> u32 {
        let Sizes { pp, tg, depth } = self.sizes();
        let decode = depth.into_iter().map(|depth| depth.saturating_add(tg));
        let smooth = self.smooth.map(|lengths| lengths.last);
        let check = self.check.then_some(check::ROOM);
        pp.into_iter().chain(decode).chain(smooth).chain(check).max().unwrap_or(1).saturating_add(1).max(2)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    use super::*;

    fn parse(args: &[&str]) -> Result<Bench, clap::Error> {
        let cli = Cli::try_parse_from(["pteron", "bench"].iter().chain(args))?;
        match cli.command {
            Command::Bench(bench) => Ok(bench),
            other => panic!("{other:?} is not what was typed"),
        }
    }

    fn sizes(pp: &[u32], tg: u32, depth: &[u32]) -> Sizes {
        Sizes { pp: pp.to_vec(), tg, depth: depth.to_vec() }
    }

    #[test]
    fn lengths_come_in_lists_with_defaults() {
        let usual = sizes(&[128, 512, 2048], 128, &[0, 2048, 8192]);
        let plain = parse(&[]).unwrap();
        assert_eq!((plain.sizes(), plain.repeat, plain.longest()), (usual, 5, 8192 + 128 + 1));
        let asked = parse(&["--pp", "8,16", "--tg", "4", "--depth", "7", "--repeat", "1", "--check"]).unwrap();
        assert_eq!((asked.sizes(), asked.repeat), (sizes(&[8, 16], 4, &[7]), 1));
        assert!(asked.check && !asked.json);
        assert_eq!((asked.cache(), parse(&["--half-cache"]).unwrap().cache()), (StateDtype::F32, StateDtype::F16));
        assert_eq!(parse(&["--pp", "8,16", "--tg", "4", "--depth", "7"]).unwrap().longest(), 17);
        assert_eq!(parse(&["--pp", "8", "--tg", "4", "--depth", "7,9"]).unwrap().longest(), 14);
    }

    #[test]
    fn who_asks_for_a_check_gets_speeds_if_they_say_which() {
        for alone in [&["--check"][..], &["--smooth"], &["--smooth", "1..64", "--check"]] {
            assert_eq!(parse(alone).unwrap().sizes(), Sizes::default(), "{alone:?}");
        }
        assert_eq!(parse(&["--check", "--tg", "4"]).unwrap().sizes(), sizes(&[128, 512, 2048], 4, &[0, 2048, 8192]));
        assert_eq!(parse(&["--check"]).unwrap().longest(), check::ROOM + 1);
        assert_eq!(parse(&["--smooth", "5..700"]).unwrap().longest(), 701);
        assert_eq!(parse(&["--smooth"]).unwrap().smooth, Some(LengthRange { first: 1, last: 512 }));
    }

    #[test]
    fn what_is_compared_is_named_as_it_is_typed() {
        let against = parse(&["--against", "unfused"]).unwrap().against.unwrap();
        assert_eq!((against, against.name()), (Against::Unfused, "unfused"));
        assert_eq!(parse(&["--pp", "8", "--against", "unfused"]).unwrap().sizes().pp, [8]);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            &["--pp", "8,x"][..],
            &["--tg", "-1"],
            &["--repeat", "0"],
            &["--data", "a.ptd"],
            &["--depth", ""],
            &["--smooth", "8"],
            &["--smooth", "9..8"],
            &["--smooth", "0..8"],
            &["--against", "itself"],
        ] {
            assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }
}
