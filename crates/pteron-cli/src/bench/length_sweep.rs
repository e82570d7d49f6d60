//! Times prompts of every length and compares each with its neighbours: finds lengths at which a kernel's tiles fit badly.

use std::str::FromStr;

use serde::Serialize;

use super::cases;
use super::runner::{Run, Runner};
use super::spinner::Spinner;
use super::stats::Summary;
use crate::failure::Failure;
use crate::units::{count, plural};

/// Neighbours are up to this many tokens shorter or longer.
const REACH: u32 = 16;
/// The longest time of a length, relative to the median of its neighbours and itself.
const LIMIT: f64 = 1.25;
/// The most offenders that the text lists.
const LISTED: usize = 12;

/// Lengths of prompts, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LengthRange {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl FromStr for LengthRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match ends {
            Some((first, last)) if 0 < first && first <= last => Ok(Self { first, last }),
            Some(_) => Err("lengths begin at 1 and grow".to_owned()),
            None => Err("lengths are two numbers, such as 1..512".to_owned()),
        }
    }
}

/// Times of prompts of every length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LengthSweep {
    /// Tokens to either side that count as neighbours, and the longest time relative to their median.
    reach: u32,
    limit: f64,
    /// The length that is slowest relative to its neighbours.
    worst: Option<Worst>,
    /// Lengths beyond the limit.
    offenders: Vec<u32>,
    pub(super) lengths: Vec<Length>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Worst {
    tokens: u32,
    ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Length {
    pub(super) tokens: u32,
    /// Medians of the runs.
    pub(super) wall_seconds: f64,
    gpu_seconds: Option<f64>,
    /// The median of `wall_seconds` over the neighbours, and the time of this length relative to it.
    pub(super) neighbours_seconds: f64,
    ratio: f64,
    runs: Vec<Run>,
}

/// Times every length `repeat` times, in rounds: each round has every length once, in another order, so that drift affects all alike.
/// Each run is preceded by a warm-up.
pub(super) fn measure(runner: &Runner, asked: LengthRange, repeat: u32, progress: &Spinner) -> Result<LengthSweep, Failure> {
    let context = runner.metadata.context_length;
    let last = asked.last.min(context);
    if asked.first > last {
        return Err(Failure::NoSuchLength { tokens: asked.first, context });
    }
    let mut runs: Vec<(u32, Vec<Run>)> = (asked.first..=last).map(|tokens| (tokens, Vec::new())).collect();
    for round in 1..=repeat {
        for (number, index) in (1..).zip(shuffled(runs.len(), round)) {
            let (tokens, runs_of_it) = &mut runs[index];
            progress.say(format!("length sweep: round {round} of {repeat}, {number} of {}", last - asked.first + 1));
            runner.prefill(*tokens)?;
            runs_of_it.push(runner.prefill(*tokens)?);
        }
    }
    Ok(judge(runs))
}

/// Returns the indices of a list in a pseudo-random order that depends on the seed only.
#[expect(clippy::expect_used, reason = "lengths are u32s, so there are no more of them")]
fn shuffled(len: usize, seed: u32) -> Vec<usize> {
    let keys = cases::tokens(u32::try_from(len).expect("there are no more lengths than u32s"), u32::MAX, seed.into());
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&index| keys.get(index));
    order
}

/// Compares each length with its neighbours. Lengths are sorted, and each has at least one run.
fn judge(runs: Vec<(u32, Vec<Run>)>) -> LengthSweep {
    let median = |seconds: Vec<f64>| Summary::of(seconds).map_or(0.0, |summary| summary.median);
    let walls: Vec<(u32, f64)> =
        runs.iter().map(|(tokens, runs)| (*tokens, median(runs.iter().map(|run| run.wall_seconds).collect()))).collect();
    let length = |((tokens, runs), &(_, wall_seconds)): ((u32, Vec<Run>), &(u32, f64))| {
        let near = walls.iter().filter(|(other, _)| other.abs_diff(tokens) <= REACH).map(|(_, seconds)| *seconds);
        let neighbours_seconds = median(near.collect());
        let gpu: Option<Vec<f64>> = runs.iter().map(|run| run.gpu_seconds).collect();
        let ratio = wall_seconds / neighbours_seconds;
        Length { tokens, wall_seconds, gpu_seconds: gpu.map(median), neighbours_seconds, ratio, runs }
    };
    let lengths: Vec<Length> = runs.into_iter().zip(&walls).map(length).collect();
    let worst = lengths.iter().max_by(|one, other| one.ratio.total_cmp(&other.ratio));
    let worst = worst.map(|length| Worst { tokens: length.tokens, ratio: length.ratio });
    let offenders = lengths.iter().filter(|length| length.ratio > LIMIT).map(|length| length.tokens).collect();
    LengthSweep { reach: REACH, limit: LIMIT, worst, offenders, lengths }
}

impl LengthSweep {
    /// The longest time allowed for a length.
    pub(super) fn allowed_seconds(&self, length: &Length) -> f64 {
        self.limit * length.neighbours_seconds
    }

    /// Returns an error where a length is beyond the limit.
    pub(super) fn demand(&self) -> Result<(), Failure> {
        match self.worst {
            Some(Worst { tokens, ratio }) if !self.offenders.is_empty() => {
                let offenders = self.offenders.len();
                Err(Failure::Uneven { offenders, lengths: self.lengths.len(), tokens, ratio, limit: LIMIT })
            }
            _ => Ok(()),
        }
    }

    /// Describes the sweep in two sentences.
    pub(super) fn sentences(&self) -> String {
        let (Some(first), Some(last), Some(worst)) = (self.lengths.first(), self.lengths.last(), self.worst) else {
            return String::new();
        };
        let runs = plural(first.runs.len(), "run");
        let mut out = format!(
            "Length sweep from {} to {}, {runs} each: relative to its neighbours (± {REACH}), {} is slowest, with {:.2} × their \
             median. {} more than {LIMIT} ×",
            count(first.tokens.into()),
            count(last.tokens.into()),
            plural(worst.tokens as usize, "token"),
            worst.ratio,
            match self.offenders.len() {
                0 => "None takes".to_owned(),
                1 => "One takes".to_owned(),
                many => format!("{} take", count(many as u64)),
            },
        );
        if !self.offenders.is_empty() {
            let listed: Vec<String> = self.offenders.iter().take(LISTED).map(u32::to_string).collect();
            let more = if self.offenders.len() > LISTED { ", …" } else { "" };
            out.push_str(&format!(": {}{more}", listed.join(", ")));
        }
        out + ".\n\n"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A second per 100 tokens in three runs, one of them an outlier; `strange` adds to a length.
    pub(in crate::bench) fn found(last: u32, strange: impl Fn(u32) -> f64) -> LengthSweep {
        let run = |wall_seconds| Run { wall_seconds, gpu_seconds: None };
        let of = |tokens: u32| {
            let usual = f64::from(tokens + 20) / 100.0 + strange(tokens);
            (tokens, vec![run(usual), run(9.0 * usual), run(usual)])
        };
        judge((1..=last).map(of).collect())
    }

    #[test]
    fn times_that_grow_with_the_length_pass() {
        let sweep = found(100, |_| 0.0);
        assert_eq!((sweep.lengths.len(), sweep.offenders.as_slice()), (100, [].as_slice()));
        assert!(sweep.demand().is_ok());
        let first = &sweep.lengths[0];
        // The neighbours of 1 are 1 to 17, and 9 is in their middle.
        assert_eq!((first.tokens, first.wall_seconds, first.neighbours_seconds), (1, 0.21, 0.29));
        assert_eq!(sweep.lengths[49].ratio, 1.0);
        let text = sweep.sentences();
        assert!(text.starts_with("Length sweep from 1 to 100, 3 runs each: relative to its neighbours (± 16), "), "{text}");
        assert!(text.ends_with("None takes more than 1.25 ×.\n\n"), "{text}");
    }

    #[test]
    fn a_length_beyond_the_limit_is_named() {
        let uneven = found(64, |tokens| if tokens == 33 { 0.2 } else { 0.0 });
        assert_eq!(uneven.offenders, [33]);
        let text = uneven.sentences();
        assert!(
            text.contains("33 tokens is slowest, with 1.35 × their median. One takes more than 1.25 ×: 33.\n"),
            "{text}"
        );
        assert_eq!(
            uneven.demand().unwrap_err().to_string(),
            "1 of 64 lengths takes more than 1.25 times the median of its neighbours, 33 tokens the most with 1.35"
        );
        let many = found(64, |tokens| if tokens.is_multiple_of(4) { 2.0 } else { 0.0 });
        assert!(many.sentences().contains("16 take more than 1.25 ×: 4, 8, 12, "), "{}", many.sentences());
        assert!(many.sentences().ends_with("48, ….\n\n"), "{}", many.sentences());
    }

    #[test]
    fn every_round_has_every_length_in_another_order() {
        let [one, two] = [1, 2].map(|round| shuffled(200, round));
        assert_ne!(one, two);
        for mut order in [one, two] {
            assert!(order.windows(2).any(|pair| pair[0] > pair[1]), "{order:?}");
            order.sort_unstable();
            assert_eq!(order, (0..200).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lengths_are_two_numbers() {
        assert_eq!("1..512".parse(), Ok(LengthRange { first: 1, last: 512 }));
        assert_eq!("7..7".parse(), Ok(LengthRange { first: 7, last: 7 }));
        for wrong in ["", "512", "1..", "0..4", "5..4", "1..=4", "a..b"] {
            assert!(wrong.parse::<LengthRange>().is_err(), "{wrong}");
        }
    }
}
