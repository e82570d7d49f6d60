//! What can be typed behind `pteron bench`.

use std::path::PathBuf;

use clap::Args;

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
  pteron bench --pp 0 --tg 0 --check                      only whether the answers are right";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
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

    /// Lengths of prompts; 0 for none
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "128,512,2048")]
    pub(crate) pp: Vec<u32>,

    /// How many tokens are generated at each depth; 0 for none
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) tg: u32,

    /// How many tokens the cache holds before any is generated
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0,2048,8192")]
    pub(crate) depth: Vec<u32>,

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

    /// Compares logits with those of the exact path first, and fails where less than 99 % of the likeliest tokens agree
    #[arg(long)]
    pub(crate) check: bool,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Bench {
    /// The longest context that is asked for.
    pub(super) fn longest(&self) -> u32 {
        let decode = self.depth.iter().map(|depth| depth.saturating_add(self.tg).saturating_add(1));
        self.pp.iter().copied().chain(decode).max().unwrap_or(1).max(2)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    use super::Bench;

    fn parse(args: &[&str]) -> Result<Bench, clap::Error> {
        let cli = Cli::try_parse_from(["pteron", "bench"].iter().chain(args))?;
        match cli.command {
            Command::Bench(bench) => Ok(bench),
            other => panic!("{other:?} is not what was typed"),
        }
    }

    #[test]
    fn lengths_come_in_lists_with_defaults() {
        let plain = parse(&[]).unwrap();
        assert_eq!((plain.pp, plain.tg, plain.depth, plain.repeat), (vec![128, 512, 2048], 128, vec![0, 2048, 8192], 5));
        let asked = parse(&["--pp", "8,16", "--tg", "4", "--depth", "7", "--repeat", "1", "--check"]).unwrap();
        assert_eq!((asked.pp, asked.tg, asked.depth, asked.repeat), (vec![8, 16], 4, vec![7], 1));
        assert!(asked.check && !asked.json);
        assert_eq!(parse(&["--pp", "8,16", "--tg", "4", "--depth", "7"]).unwrap().longest(), 16);
        assert_eq!(parse(&["--pp", "8", "--tg", "4", "--depth", "7,9"]).unwrap().longest(), 14);
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [&["--pp", "8,x"][..], &["--tg", "-1"], &["--repeat", "0"], &["--data", "a.ptd"], &["--depth", ""]] {
            assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }
}
