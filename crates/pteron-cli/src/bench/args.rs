//! The options of `pteron bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pteron::StateDtype;

use super::check;
use super::length_sweep::LengthRange;

use crate::cli::{GpuArgs, KvArgs};

const EXAMPLES: &str = "\
Prefill (pp N) runs a prompt of N tokens from an empty KV cache. Decode (tg N) generates N tokens greedily, after a KV cache \
filled to a depth. Prompts are random tokens, the same in every run.

Examples:
  pteron bench                                            the bundled model
  pteron bench --model llama.pte --adapter nvidia         a model of yours, on a GPU of your choice
  pteron bench --synthetic llama-3.2-1b                   synthetic weights of a known shape
  pteron bench --pp 512 --tg 64 --depth 0,1024            other lengths
  pteron bench --pp 0 --tg 128 --repeat 20                only decode, more runs
  pteron bench --json | jq '.tests[] | .tokens_per_second'
  pteron bench --plot speed.svg --runs benches/runs       a plot, and the raw figures
  pteron bench --check                                    whether the logits are right
  pteron bench --synthetic llama-3.2-1b --length-sweep 1..512
                                                          whether every prompt length is as fast as its neighbours
  pteron bench --model llama.pte --rows --first-token     GPU time by rows of a call, and the time to the first token
  pteron bench --model llama.pte --peers llama.cpp/build/bin --peer-model llama.gguf
                                                          in turns with llama.cpp
  pteron bench --pp 128 --tg 32 --depth 0 --against unfused   A/B comparison: the speed-up of fusions
  pteron bench --synthetic llama-3.2-1b --sequences 1,8,32,64,128
                                                          decode speed of many texts at once, through the engine that serves them";

/// The baseline of an A/B comparison: another way to load the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Against {
    /// Without fusions: one operator at a time
    Unfused,
}

impl Against {
    /// Its name on the command line and in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unfused => "unfused",
        }
    }
}

/// The program to measure.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// A language model: a program, or OWNER/NAME of one that was pulled; no tokenizer is needed [default: the bundled model]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Measures a model of this shape with synthetic weights, as `pteron convert --synthetic` writes it; its context fits the tests
    #[arg(long, value_name = "SHAPE", conflicts_with = "model")]
    pub(crate) synthetic: Option<String>,

    /// External constants of the program; repeatable
    #[arg(long, value_name = "FILE.ptd", requires = "model")]
    pub(crate) data: Vec<PathBuf>,

    /// Context length in tokens, where the program does not declare it
    #[arg(long, value_name = "N")]
    pub(crate) context_length: Option<u32>,

    /// Treats the program as one with a KV cache, where it does not declare it
    #[arg(long)]
    pub(crate) kv_cache: bool,
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    kv: KvArgs,

    /// Prompt lengths; 0 for none [default: 128,512,2048; none with --check, --length-sweep, --rows or --first-token]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) pp: Option<Vec<u32>>,

    /// Tokens to generate at each depth; 0 for none [default: 128; none with --check, --length-sweep, --rows or --first-token]
    #[arg(long, value_name = "N")]
    pub(crate) tg: Option<u32>,

    /// Tokens in the KV cache before the first one is generated [default: 0,2048,8192]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub(crate) depth: Option<Vec<u32>>,

    /// Timed runs per test, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,

    /// Prints one JSON object with every run instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Plots the speeds
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// Saves the JSON object as DIR/DATE-ADAPTER-PROGRAM.json; DIR is created if absent
    #[arg(long, value_name = "DIR")]
    pub(crate) runs: Option<PathBuf>,

    /// Compares logits with those of the exact path first, and fails where the argmax agrees at less than 99 % of positions; without
    /// a model, for the bundled one and for a small one with synthetic weights
    #[arg(long)]
    pub(crate) check: bool,

    /// Times prompts of every length in a range, and fails where one takes more than 1.25 times the median of its neighbours, those
    /// up to 16 tokens shorter or longer
    #[arg(long, alias = "smooth", value_name = "FIRST..LAST", num_args = 0..=1, default_missing_value = "1..512")]
    pub(crate) length_sweep: Option<LengthRange>,

    /// A/B comparison: measures the program in turns with itself loaded another way, and fails where the other way takes less than
    /// 0.97 of the time, in the median
    #[arg(long, value_name = "BASELINE")]
    pub(crate) against: Option<Against>,

    /// Adds prompts of these lengths, each one call: the GPU time by rows [default of a bare --rows: 1,2,4,8,9,16,32,64,128]
    #[arg(long, value_name = "N,…", value_delimiter = ',', num_args = 0..=1, default_missing_value = "1,2,4,8,9,16,32,64,128")]
    pub(crate) rows: Vec<u32>,

    /// Measures the time to the first token in N new processes, and the host memory of a load [default of a bare --first-token: 5]
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "5",
        conflicts_with = "synthetic",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) first_token: Option<u32>,

    /// Loads, generates a token and prints how long it took: a process of --first-token
    #[arg(long, hide = true)]
    pub(crate) load_once: bool,

    /// Runs every llama-bench in a folder and in its folders in turns with this program, and compares the speeds
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

    /// The model that they run [default: the only GGUF file in DIR or its folders]
    #[arg(long, value_name = "FILE.gguf", requires = "peers")]
    pub(crate) peer_model: Option<PathBuf>,

    /// Measures this many texts at once instead: after a prompt each, --tg tokens of all of them
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1024),
        conflicts_with_all = ["pp", "depth", "check", "length_sweep", "against", "rows", "first_token", "peers", "plot", "runs"]
    )]
    pub(crate) sequences: Vec<u32>,

    /// Tokens of each prompt, with --sequences [default: 128]
    #[arg(long, value_name = "N", requires = "sequences", value_parser = clap::value_parser!(u32).range(1..))]
    prompt_length: Option<u32>,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The lengths and depths to measure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) pp: Vec<u32>,
    pub(super) tg: u32,
    pub(super) depth: Vec<u32>,
}

impl Bench {
    /// The lengths and depths on the command line, or the defaults. A check, a sweep, rows or first tokens alone measure no others.
    pub(super) fn sizes(&self) -> Sizes {
        let typed = self.pp.is_some() || self.tg.is_some() || self.depth.is_some();
        let alone = self.check || self.length_sweep.is_some() || !self.rows.is_empty() || self.first_token.is_some();
        if !typed && alone && self.peers.is_none() {
            return Sizes { pp: self.rows.clone(), ..Sizes::default() };
        }
        let or = |typed: &Option<Vec<u32>>, usual: [u32; 3]| typed.clone().unwrap_or_else(|| usual.to_vec());
        let pp = self.rows.iter().copied().chain(or(&self.pp, [128, 512, 2048])).collect();
        Sizes { pp, tg: self.tg.unwrap_or(128), depth: or(&self.depth, [0, 2048, 8192]) }
    }

    pub(super) fn prompt_length(&self) -> u32 {
        self.prompt_length.unwrap_or(128)
    }

    pub(super) fn cache(&self) -> StateDtype {
        self.kv.dtype()
    }

    /// The context length that all tests need, with room for a token after every prompt: programs take no prompt in one call that
    /// leaves none.
    pub(super) fn longest(&self) -> u32 {
        let Sizes { pp, tg, depth } = self.sizes();
        let decode = depth.into_iter().map(|depth| depth.saturating_add(tg));
        let sweep = self.length_sweep.map(|lengths| lengths.last);
        let check = self.check.then_some(check::ROOM);
        pp.into_iter().chain(decode).chain(sweep).chain(check).max().unwrap_or(1).saturating_add(1).max(2)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

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
    fn lengths_are_lists_with_defaults() {
        let usual = sizes(&[128, 512, 2048], 128, &[0, 2048, 8192]);
        let plain = parse(&[]).unwrap();
        assert_eq!((plain.sizes(), plain.repeat, plain.longest()), (usual, 5, 8192 + 128 + 1));
        let asked = parse(&["--pp", "8,16", "--tg", "4", "--depth", "7", "--repeat", "1", "--check"]).unwrap();
        assert_eq!((asked.sizes(), asked.repeat), (sizes(&[8, 16], 4, &[7]), 1));
        assert!(asked.check && !asked.json);
        assert_eq!((asked.cache(), parse(&["--kv-dtype", "f32"]).unwrap().cache()), (StateDtype::Auto, StateDtype::F32));
        assert_eq!(parse(&["--pp", "8,16", "--tg", "4", "--depth", "7"]).unwrap().longest(), 17);
        assert_eq!(parse(&["--pp", "8", "--tg", "4", "--depth", "7,9"]).unwrap().longest(), 14);
    }

    #[test]
    fn a_check_alone_measures_no_speeds() {
        for alone in [&["--check"][..], &["--length-sweep"], &["--length-sweep", "1..64", "--check"]] {
            assert_eq!(parse(alone).unwrap().sizes(), Sizes::default(), "{alone:?}");
        }
        assert_eq!(parse(&["--check", "--tg", "4"]).unwrap().sizes(), sizes(&[128, 512, 2048], 4, &[0, 2048, 8192]));
        let rows = parse(&["--rows"]).unwrap();
        assert_eq!((rows.sizes(), rows.longest()), (sizes(&[1, 2, 4, 8, 9, 16, 32, 64, 128], 0, &[]), 129));
        assert_eq!(
            parse(&["--rows", "3,5", "--tg", "4", "--pp", "8", "--depth", "0"]).unwrap().sizes(),
            sizes(&[3, 5, 8], 4, &[0])
        );
        let first = parse(&["--first-token"]).unwrap();
        assert_eq!((first.sizes(), first.first_token), (Sizes::default(), Some(5)));
        assert_eq!(parse(&["--check"]).unwrap().longest(), check::ROOM + 1);
        assert_eq!(parse(&["--length-sweep", "5..700"]).unwrap().longest(), 701);
        assert_eq!(parse(&["--length-sweep"]).unwrap().length_sweep, Some(LengthRange { first: 1, last: 512 }));
    }

    /// Names of flags before 0.2 work for one release, and are not in the help.
    #[test]
    fn old_flags_still_work_and_are_hidden() {
        assert_eq!(parse(&["--smooth", "5..7"]).unwrap().length_sweep, Some(LengthRange { first: 5, last: 7 }));
        assert_eq!(parse(&["--smooth"]).unwrap().length_sweep, parse(&["--length-sweep"]).unwrap().length_sweep);
        assert_eq!(parse(&["--half-cache"]).unwrap().cache(), StateDtype::F16);
        let help = Cli::command().find_subcommand_mut("bench").unwrap().render_long_help().to_string();
        assert!(help.contains("--length-sweep") && !help.contains("--smooth") && !help.contains("--half-cache"), "{help}");
    }

    #[test]
    fn a_baseline_is_named_as_on_the_command_line() {
        let against = parse(&["--against", "unfused"]).unwrap().against.unwrap();
        assert_eq!((against, against.name()), (Against::Unfused, "unfused"));
        assert_eq!(parse(&["--pp", "8", "--against", "unfused"]).unwrap().sizes().pp, [8]);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for args in [
            &["--pp", "8,x"][..],
            &["--tg", "-1"],
            &["--repeat", "0"],
            &["--data", "a.ptd"],
            &["--depth", ""],
            &["--length-sweep", "8"],
            &["--length-sweep", "9..8"],
            &["--length-sweep", "0..8"],
            &["--against", "itself"],
            &["--first-token", "0"],
            &["--first-token", "--synthetic", "llama-3.2-1b"],
            &["--peer-model", "a.gguf"],
            &["--sequences", "0"],
            &["--sequences", "1,2", "--check"],
            &["--prompt-length", "8"],
        ] {
            assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }
}
