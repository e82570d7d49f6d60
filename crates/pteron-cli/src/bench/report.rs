//! The report of a measurement, and the figures derived from it.

use pteron::{AdapterSummary, Allocated, Counts};
use serde::Serialize;

use super::agreement::Agreement;
use super::cases::Case;
use super::first_token::FirstToken;
use super::length_sweep::LengthSweep;
use super::peers::{CaseName, Peer};
use super::runner::Run;
use super::stats::Summary;
use crate::failure::Failure;

/// The least time of the baseline of an A/B comparison, relative to the measured variant.
const LEAST_RATIO: f64 = 0.97;

/// The version of the JSON fields; raised when one changes its meaning.
pub(super) const VERSION: u32 = 2;

/// A measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) report_version: u32,
    /// The version of this program, and whether its compiler optimised it.
    pub(super) version: &'static str,
    pub(super) optimised: bool,
    /// When it began, in UTC.
    pub(super) date: String,
    pub(super) adapter: Adapter,
    pub(super) program: Program,
    pub(super) memory: Memory,
    pub(super) loading: Loading,
    /// How the stored tuning differs from the defaults, where there is one.
    pub(super) tuning: Option<String>,
    /// Memory bandwidth, where it could be measured.
    pub(super) reading: Option<Reading>,
    pub(super) repeat: u32,
    /// Agreement with the exact path, with `--check`.
    pub(super) checks: Vec<Agreement>,
    /// Times of every prompt length, with `--length-sweep`.
    pub(super) length_sweep: Option<LengthSweep>,
    /// The baseline of the A/B comparison, with `--against`.
    pub(super) against: Option<&'static str>,
    /// Loads in new processes, with `--first-token`.
    pub(super) first_token: Option<FirstToken>,
    /// Other programs on the same cases, with `--peers`.
    pub(super) peers: Vec<Peer>,
    #[serde(skip)]
    pub(super) tests: Vec<Test>,
}

#[derive(Debug, Serialize)]
pub(super) struct Adapter {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) backend: String,
    pub(super) software: bool,
}

impl Adapter {
    pub(super) fn new(summary: &AdapterSummary) -> Self {
        let AdapterSummary { name, driver, backend, software, .. } = summary;
        Self { name: name.clone(), driver: driver.clone(), backend: backend.clone(), software: *software }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) context_length: u32,
    /// The most tokens of one call.
    pub(super) call_tokens: u32,
    pub(super) vocab_size: u32,
    /// Bytes of constants a token must read, and of KV cache per position before it.
    pub(super) constant_bytes_per_token: u64,
    pub(super) cache_bytes_per_position: u64,
}

/// Bytes on the GPU.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// Buffers of the program, and of one state.
    pub(super) program_bytes: u64,
    pub(super) state_bytes: u64,
    /// Constants, state and activations as the file plans them.
    pub(super) planned_bytes: u64,
    /// The allocator's report: memory in use, and memory reserved.
    pub(super) allocated_bytes: Option<u64>,
    pub(super) reserved_bytes: Option<u64>,
    /// Memory reserved, or in use where the allocator does not report, relative to the plan.
    pub(super) ratio: f64,
}

impl Memory {
    pub(super) fn new(program_bytes: u64, state_bytes: u64, planned_bytes: u64, allocated: Option<Allocated>) -> Self {
        let kept = allocated.map_or(program_bytes + state_bytes, |allocated| allocated.reserved_bytes);
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let ratio = kept as f64 / planned_bytes.max(1) as f64;
        let (allocated_bytes, reserved_bytes) = (allocated.map(|it| it.used_bytes), allocated.map(|it| it.reserved_bytes));
        Self { program_bytes, state_bytes, planned_bytes, allocated_bytes, reserved_bytes, ratio }
    }
}

/// Seconds from the start of a load to the first token, of the first load on the device and of the second.
#[derive(Debug, Serialize)]
pub(super) struct Loading {
    pub(super) cold_seconds: f64,
    pub(super) warm_seconds: f64,
}

/// Bandwidth of a kernel that only reads a buffer.
#[derive(Debug, Serialize)]
pub(super) struct Reading {
    pub(super) buffer_bytes: u64,
    pub(super) bytes_per_second: f64,
}

/// A case and its outcome.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) case: Case,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Measured {
        runs: Vec<Run>,
        /// Runs of the baseline, one per run; empty without an A/B comparison.
        other_runs: Vec<Run>,
        work: Work,
    },
    Skipped {
        skipped: String,
    },
}

/// Work of the device in the last run of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Work {
    pub(super) calls: u32,
    pub(super) dispatches: u64,
    pub(super) uploaded_bytes: u64,
}

impl Work {
    pub(super) fn between(before: Counts, after: Counts, calls: u32) -> Self {
        Self {
            calls,
            dispatches: after.dispatches - before.dispatches,
            uploaded_bytes: after.written_bytes - before.written_bytes,
        }
    }

    /// The mean per call, rounded.
    pub(super) fn each(&self, total: u64) -> u64 {
        let calls = u64::from(self.calls.max(1));
        (total + calls / 2) / calls
    }
}

/// Figures derived from the runs of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Seconds of a whole run.
    pub(super) wall: Summary,
    /// GPU time of the same, where the adapter has timestamps.
    pub(super) gpu: Option<Summary>,
    pub(super) tokens_per_second: f64,
    pub(super) gpu_tokens_per_second: Option<f64>,
    /// Seconds of one call, in the mean of a run.
    call_seconds: f64,
    gpu_call_seconds: Option<f64>,
    /// Wall time less GPU time of one call, by run: what the host and the driver add.
    pub(super) gap_call_seconds: Option<Summary>,
    /// Decode only: the least bytes a token must read, and their rate by wall time.
    pub(super) read_bytes_per_token: Option<f64>,
    pub(super) read_bytes_per_second: Option<f64>,
    /// The share of the bandwidth of a kernel that only reads.
    pub(super) read_share: Option<f64>,
    pub(super) ratio: Option<Summary>,
}

impl Report {
    /// The figures of a test that was measured.
    pub(super) fn figures(&self, test: &Test) -> Option<Figures> {
        let Outcome::Measured { runs, work, .. } = &test.outcome else { return None };
        let (tokens, calls) = (f64::from(test.case.tokens()), f64::from(work.calls.max(1)));
        let wall = Summary::of(runs.iter().map(|run| run.wall_seconds))?;
        let gpu = runs.iter().map(|run| run.gpu_seconds).collect::<Option<Vec<f64>>>().and_then(Summary::of);
        let read_bytes_per_token = self.read_bytes(test.case);
        let tokens_per_second = tokens / wall.median;
        let read_bytes_per_second = read_bytes_per_token.map(|bytes| bytes * tokens_per_second);
        Some(Figures {
            wall,
            gpu,
            tokens_per_second,
            gpu_tokens_per_second: gpu.map(|gpu| tokens / gpu.median),
            call_seconds: wall.median / calls,
            gpu_call_seconds: gpu.map(|gpu| gpu.median / calls),
            gap_call_seconds: gpu.and_then(|_| Summary::of(runs.iter().filter_map(Run::gap).map(|gap| gap / calls))),
            read_bytes_per_token,
            read_bytes_per_second,
            read_share: read_bytes_per_second.zip(self.reading.as_ref()).map(|(own, best)| own / best.bytes_per_second),
            ratio: test.outcome.ratio(),
        })
    }

    /// Returns an error where a length or the baseline is outside its limit.
    pub(super) fn demand(&self) -> Result<(), Failure> {
        self.length_sweep.as_ref().map_or(Ok(()), LengthSweep::demand)?;
        let ratio = |test: &Test| Some((test.case, self.figures(test)?.ratio?.median));
        let slowest = self.tests.iter().filter_map(ratio).min_by(|one, other| one.1.total_cmp(&other.1));
        match (slowest, self.against) {
            (Some((case, ratio)), Some(against)) if ratio < LEAST_RATIO => {
                Err(Failure::Slower { test: case.name(), depth: case.depth(), against, ratio, least: LEAST_RATIO })
            }
            _ => Ok(()),
        }
    }

    /// The least bytes a token must read, the mean over the tokens of a case; `None` for prefill, whose tokens share reads. A token
    /// reads the KV cache up to its own position.
    fn read_bytes(&self, case: Case) -> Option<f64> {
        let Case::Decode { tokens, depth } = case else { return None };
        let positions = f64::from(depth) + f64::midpoint(f64::from(tokens), 1.0);
        #[allow(clippy::cast_precision_loss, reason = "figures for people")]
        let [constants, cache] =
            [self.program.constant_bytes_per_token, self.program.cache_bytes_per_position].map(|bytes| bytes as f64);
        Some(constants + cache * positions)
    }

    /// The whole as one JSON object, with every run.
    pub(super) fn json(&self) -> serde_json::Result<serde_json::Value> {
        let mut object = serde_json::to_value(self)?;
        // The name of `length_sweep` in reports before this release, kept for scripts for one release.
        object["smoothness"] = object["length_sweep"].clone();
        let tests = self.tests.iter().map(|test| serde_json::to_value(JsonTest::new(self, test)));
        object["tests"] = tests.collect::<serde_json::Result<_>>()?;
        Ok(object)
    }
}

/// A test in JSON.
#[derive(Serialize)]
struct JsonTest<'a> {
    #[serde(flatten)]
    case: CaseName,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<&'a str>,
    #[serde(flatten)]
    figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    runs: &'a [Run],
    #[serde(skip_serializing_if = "<[Run]>::is_empty")]
    other_runs: &'a [Run],
}

impl<'a> JsonTest<'a> {
    fn new(report: &Report, test: &'a Test) -> Self {
        let (runs, other_runs, work, skipped) = match &test.outcome {
            Outcome::Measured { runs, other_runs, work } => (runs.as_slice(), other_runs.as_slice(), Some(*work), None),
            Outcome::Skipped { skipped } => (&[][..], &[][..], None, Some(skipped.as_str())),
        };
        Self { case: CaseName::new(test.case), skipped, figures: report.figures(test), work, runs, other_runs }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report written by hand: a prompt of 100 tokens in 0.5 s, ten tokens in 2 s at a depth, and something too long.
    pub(in crate::bench) fn sample() -> Report {
        let run = |wall_seconds, gpu: f64| Run { wall_seconds, gpu_seconds: Some(gpu) };
        let measured = |runs, work| Outcome::Measured { runs, other_runs: Vec::new(), work };
        let calls = |calls| Work { calls, dispatches: 140 * u64::from(calls) + 1, uploaded_bytes: 60 * u64::from(calls) };
        Report {
            report_version: VERSION,
            version: "0.1.0",
            optimised: true,
            date: "2026-11-15T14:43:35Z".to_owned(),
            adapter: Adapter {
                name: "Wing <3000>".to_owned(),
                driver: "feather 1.2".to_owned(),
                backend: "vulkan".to_owned(),
                software: false,
            },
            program: Program {
                name: "bird & co.pte".to_owned(),
                bytes: 3 << 20,
                context_length: 1024,
                call_tokens: 511,
                vocab_size: 6144,
                constant_bytes_per_token: 2_000_000,
                cache_bytes_per_position: 1000,
            },
            memory: Memory::new(4 << 20, 1 << 20, 4 << 20, None),
            loading: Loading { cold_seconds: 1.5, warm_seconds: 0.25 },
            tuning: None,
            reading: Some(Reading { buffer_bytes: 64 << 20, bytes_per_second: 1e8 }),
            repeat: 3,
            checks: Vec::new(),
            length_sweep: None,
            against: None,
            first_token: None,
            peers: Vec::new(),
            tests: vec![
                Test {
                    case: Case::Prefill { tokens: 100 },
                    outcome: measured(vec![run(0.5, 0.4), run(0.4, 0.3), run(1.0, 0.5)], calls(1)),
                },
                Test {
                    case: Case::Decode { tokens: 9, depth: 495 },
                    outcome: measured(vec![run(1.8, 1.7), run(1.9, 1.6), run(1.75, 1.5)], calls(9)),
                },
                Test {
                    case: Case::Prefill { tokens: 2048 },
                    outcome: Outcome::Skipped { skipped: "needs 2,048 positions, the context has 1,024".to_owned() },
                },
            ],
        }
    }

    #[test]
    fn figures_follow_from_medians() {
        let report = sample();
        let prefill = report.figures(&report.tests[0]).unwrap();
        assert_eq!((prefill.tokens_per_second, prefill.gpu_tokens_per_second), (200.0, Some(250.0)));
        assert_eq!((prefill.read_bytes_per_second, prefill.read_share), (None, None));
        let decode = report.figures(&report.tests[1]).unwrap();
        assert_eq!(decode.tokens_per_second, 5.0);
        let gap = decode.gap_call_seconds.unwrap();
        assert!((gap.median * 9.0 - 0.25).abs() < 1e-9 && (gap.min * 9.0 - 0.1).abs() < 1e-9, "{gap:?}");
        // 495 positions before the first token and one more for each: 500 in the mean.
        assert_eq!(decode.read_bytes_per_token, Some(2_500_000.0));
        assert_eq!((decode.read_bytes_per_second, decode.read_share), (Some(12_500_000.0), Some(0.125)));
        assert_eq!(report.figures(&report.tests[2]), None);
    }

    /// A baseline that takes `ratios` times as long, run by run.
    pub(in crate::bench) fn compared(ratios: [f64; 3]) -> Report {
        let mut report = sample();
        report.against = Some("unfused");
        for test in &mut report.tests {
            if let Outcome::Measured { runs, other_runs, .. } = &mut test.outcome {
                let other = |(run, ratio): (&Run, f64)| Run { wall_seconds: run.wall_seconds * ratio, gpu_seconds: None };
                *other_runs = runs.iter().zip(ratios).map(other).collect();
            }
        }
        report
    }

    #[test]
    fn a_faster_baseline_is_an_error() {
        let report = compared([2.0, 0.5, 1.5]);
        let ratio = report.figures(&report.tests[1]).unwrap().ratio.unwrap();
        assert!((ratio.median - 1.5).abs() < 1e-9 && (ratio.min - 0.5).abs() < 1e-9, "{ratio:?}");
        assert!(report.demand().is_ok() && sample().demand().is_ok());
        let error = compared([0.9, 0.96, 2.0]).demand().unwrap_err().to_string();
        assert_eq!(error, "pp 100 takes 0.96 times as long unfused as measured, in the median; 0.97 or more is expected");
        let mut uneven = sample();
        uneven.length_sweep =
            Some(crate::bench::length_sweep::tests::found(64, |tokens| if tokens == 33 { 0.2 } else { 0.0 }));
        assert!(uneven.demand().is_err());
    }

    #[test]
    fn memory_is_relative_to_the_plan_of_the_file() {
        let own = Memory::new(4 << 20, 1 << 20, 4 << 20, None);
        assert_eq!((own.ratio, own.allocated_bytes), (1.25, None));
        let reported =
            Memory::new(4 << 20, 1 << 20, 4 << 20, Some(Allocated { used_bytes: 6 << 20, reserved_bytes: 8 << 20 }));
        assert_eq!((reported.ratio, reported.allocated_bytes, reported.reserved_bytes), (2.0, Some(6 << 20), Some(8 << 20)));
    }

    #[test]
    fn gpu_times_that_are_incomplete_are_left_out() {
        let mut report = sample();
        let Outcome::Measured { runs, .. } = &mut report.tests[0].outcome else { panic!("it was measured") };
        runs[1].gpu_seconds = None;
        let figures = report.figures(&report.tests[0]).unwrap();
        assert_eq!((figures.gpu, figures.gpu_tokens_per_second, figures.gap_call_seconds), (None, None, None));
    }

    #[test]
    fn json_has_every_run_and_reads_back() {
        let report = sample();
        let text = serde_json::to_string(&report.json().unwrap()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["adapter"]["name"], &json["report_version"]), (&"Wing <3000>".into(), &2.into()));
        let tests = json["tests"].as_array().unwrap();
        assert_eq!(tests[0]["runs"][1], serde_json::json!({ "wall_seconds": 0.4, "gpu_seconds": 0.3 }));
        assert_eq!((&tests[1]["test"], &tests[1]["depth"]), (&"decode".into(), &495.into()));
        assert_eq!((&tests[1]["tokens_per_second"], &tests[1]["work"]["calls"]), (&5.0.into(), &9.into()));
        assert_eq!((&tests[0]["call_seconds"], &tests[1]["call_seconds"]), (&0.5.into(), &0.2.into()));
        assert_eq!(tests[1].get("other_runs"), None);
        assert!(tests[2]["skipped"].as_str().unwrap().starts_with("needs 2,048"), "{}", tests[2]);
        assert_eq!((tests[2].get("wall"), tests[2]["runs"].as_array().unwrap().len()), (None, 0));
    }
}
