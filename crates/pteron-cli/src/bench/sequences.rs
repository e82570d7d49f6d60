//! `pteron bench --sequences`: the speed of many texts at once, through the engine that serves them.
//!
//! For each number of sequences, that many prompts of different random tokens are submitted at once. Decode is timed from the moment
//! when each has its first token: so all of them decode, and no prompt is computed, as in llama.cpp's llama-batched-bench.

use std::time::{Duration, Instant, SystemTime};

use pteron::block_on;
use pteron_llm::batch::{BLOCK_POSITIONS, DraftSource, blocks_for};
use pteron_llm::{
    Engine, EngineOptions, EngineRequest, EngineStatistics, GenerationOptions, ModelAssets, ModelOptions, TokenStream,
};
use serde::Serialize;

use super::args::Bench;
use super::cases;
use super::report::{self, Adapter};
use super::spinner::Spinner;
use super::stats::Summary;
use super::target;
use crate::failure::Failure;
use crate::loading::LoadingBar;
use crate::table::{Cell, Table};
use crate::terminal::clean;
use crate::units::{count, time};
use crate::{calendar, devices, interrupts, terminal, tune};

/// How often the engine's counters are read.
const INTERVAL: Duration = Duration::from_micros(200);
/// Rows of a step, as by default on a GPU; more for more sequences.
const ROWS: u32 = 512;
/// Steps that the first sequences decode while the last ones' prompts are computed, beyond those that their rows need.
const SLACK: u32 = 16;

/// A measurement.
#[derive(Debug, Serialize)]
struct Report {
    report_version: u32,
    version: &'static str,
    optimised: bool,
    date: String,
    adapter: Adapter,
    program: String,
    context_length: u32,
    prompt_length: u32,
    /// Tokens that each sequence generates while it is timed.
    generated_length: u32,
    /// Blocks of the KV cache, and positions of each.
    blocks: usize,
    block_positions: u32,
    tests: Vec<Test>,
}

/// The runs of one number of sequences.
#[derive(Debug, Serialize)]
struct Test {
    sequences: u32,
    /// Medians of the runs.
    decode_tokens_per_second: f64,
    prompt_tokens_per_second: f64,
    runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    /// From the submission to the first token of the last sequence.
    prompt_seconds: f64,
    /// From there until all sequences have generated their tokens.
    decode_seconds: f64,
    decode_tokens: u64,
    decode_steps: u64,
    /// GPU time of the decode steps; 0 where the adapter has no timestamps.
    decode_gpu_seconds: f64,
}

impl Run {
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    fn decode_speed(&self) -> f64 {
        self.decode_tokens as f64 / self.decode_seconds
    }
}

/// The lengths of a measurement.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    prompt: u32,
    generated: u32,
}

impl Lengths {
    /// Positions of a sequence: its prompt, what it generates while the others' prompts are computed in the rows of a step that decode
    /// leaves, and what is timed.
    fn positions(self, sequences: u32, rows: u32) -> u32 {
        let head_start = sequences.saturating_mul(self.prompt).div_ceil(rows.saturating_sub(sequences).max(1));
        self.prompt.saturating_add(head_start).saturating_add(SLACK).saturating_add(self.generated)
    }
}

/// Runs the measurement.
pub(super) fn run(args: &Bench, sequences: &[u32]) -> Result<(), Failure> {
    let lengths = Lengths { prompt: args.prompt_length(), generated: args.tg.unwrap_or(128).max(1) };
    let most = sequences.iter().copied().max().unwrap_or(1);
    let quiet = args.quiet || args.json;
    let target = target::open(&args.target, lengths.positions(most, ROWS.max(most.saturating_mul(2))).saturating_add(1))?;
    let gpu = devices::open(&args.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &target.program, quiet).unwrap_or_default();
    let bar = LoadingBar::new(&format!("loading {} on {}", target.name, gpu.adapter().name), quiet);
    let model = ModelOptions::default()
        .with_metadata(target.metadata.clone())
        .with_progress(bar.listener())
        .with_kv_dtype(args.cache())
        .with_tuning(tuning);
    let options =
        EngineOptions::default().with_model(model).with_max_sequences(most).with_max_rows(ROWS.max(most.saturating_mul(2)));
    let engine = block_on(Engine::load(&gpu, &target.program, ModelAssets::ids_only(), options));
    drop(bar);
    let engine = engine?;
    check_room(&engine, sequences, lengths)?;
    let blocks = engine.statistics().blocks_total;
    let mut report = Report {
        report_version: report::VERSION,
        version: env!("CARGO_PKG_VERSION"),
        optimised: !cfg!(debug_assertions),
        date: calendar::iso(SystemTime::now()),
        adapter: Adapter::new(gpu.adapter()),
        program: target.name.clone(),
        context_length: engine.context_length(),
        prompt_length: lengths.prompt,
        generated_length: lengths.generated,
        blocks,
        block_positions: BLOCK_POSITIONS,
        tests: Vec::new(),
    };
    interrupts::defer_first_interrupt();
    let finished = measure(&engine, sequences, lengths, args.repeat, quiet, &mut report.tests);
    show(args, &report)?;
    finished
}

/// Checks that all sequences fit the context and the KV cache at once: preemption would be measured otherwise.
fn check_room(engine: &Engine, sequences: &[u32], lengths: Lengths) -> Result<(), Failure> {
    let total = engine.statistics().blocks_total;
    let rows = engine.metadata().max_prefill;
    for &sequences in sequences {
        if sequences >= rows {
            return Err(Failure::FewRows { sequences, rows });
        }
        let positions = lengths.positions(sequences, rows);
        if positions > engine.context_length() {
            return Err(Failure::LongSequences { positions, context: engine.context_length() });
        }
        let each = blocks_for(usize::try_from(positions).unwrap_or(usize::MAX));
        let needed = each.saturating_mul(usize::try_from(sequences).unwrap_or(usize::MAX));
        if needed > total {
            return Err(Failure::SmallPool { sequences, positions, needed, total });
        }
    }
    Ok(())
}

fn measure(
    engine: &Engine,
    sequences: &[u32],
    lengths: Lengths,
    repeat: u32,
    quiet: bool,
    tests: &mut Vec<Test>,
) -> Result<(), Failure> {
    let progress = Spinner::new(quiet);
    let mut seed = 1;
    for &sequences in sequences {
        progress.say(format!("{sequences} sequences: warming up"));
        let short = Lengths { generated: lengths.generated.min(8), ..lengths };
        once(engine, sequences, short, &mut seed)?;
        let mut runs = Vec::new();
        for number in 1..=repeat {
            progress.say(format!("{sequences} sequences: {number} of {repeat}"));
            runs.push(once(engine, sequences, lengths, &mut seed)?);
        }
        let median = |values: Vec<f64>| Summary::of(values).map_or(0.0, |summary| summary.median);
        let prompts = f64::from(sequences) * f64::from(lengths.prompt);
        tests.push(Test {
            sequences,
            decode_tokens_per_second: median(runs.iter().map(Run::decode_speed).collect()),
            prompt_tokens_per_second: median(runs.iter().map(|run| prompts / run.prompt_seconds).collect()),
            runs,
        });
    }
    Ok(())
}

/// Runs some sequences at once.
fn once(engine: &Engine, sequences: u32, lengths: Lengths, seed: &mut u64) -> Result<Run, Failure> {
    let options = GenerationOptions::default().with_ignore_eos(true);
    let before = engine.statistics();
    let start = Instant::now();
    let submit = |_| {
        // Other tokens each time, so that no prefix is cached.
        *seed += 1;
        let prompt = cases::tokens(lengths.prompt, engine.vocab_size(), *seed);
        let request = EngineRequest::new(prompt).with_options(options.clone()).with_draft(DraftSource::None);
        engine.submit(request).map_err(Failure::Engine)
    };
    let streams: Vec<TokenStream> = (0..sequences).map(submit).collect::<Result<_, _>>()?;
    let first_tokens = before.time_to_first_token.count() + u64::from(sequences);
    let (started, at_start) = wait_until(engine, &before, |now| now.time_to_first_token.count() >= first_tokens)?;
    let wanted = at_start.generated_tokens + u64::from(sequences) * u64::from(lengths.generated);
    let (ended, at_end) = wait_until(engine, &before, |now| now.generated_tokens >= wanted)?;
    drop(streams);
    // Steps in flight run to their end; the next run starts without them.
    while !engine.wait_idle(Duration::from_secs(1)) {}
    Ok(Run {
        prompt_seconds: (started - start).as_secs_f64(),
        decode_seconds: (ended - started).as_secs_f64(),
        decode_tokens: at_end.generated_tokens - at_start.generated_tokens,
        decode_steps: at_end.steps - at_start.steps,
        decode_gpu_seconds: at_end.gpu_seconds - at_start.gpu_seconds,
    })
}

/// Reads the counters until they say so, and returns when they did.
fn wait_until(
    engine: &Engine,
    before: &EngineStatistics,
    is_so: impl Fn(&EngineStatistics) -> bool,
) -> Result<(Instant, EngineStatistics), Failure> {
    loop {
        let (now, statistics) = (Instant::now(), engine.statistics());
        if is_so(&statistics) {
            return Ok((now, statistics));
        }
        if interrupts::interrupted() {
            return Err(Failure::Interrupted);
        }
        // Its streams would say why, but nobody reads them.
        if statistics.failed > before.failed || statistics.finished > before.finished {
            return Err(Failure::UnsteadyRun);
        }
        std::thread::sleep(INTERVAL);
    }
}

fn show(args: &Bench, report: &Report) -> Result<(), Failure> {
    if args.json {
        let json = serde_json::to_string(report).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{json}\n"));
    }
    terminal::print(&render(report))
}

fn render(report: &Report) -> String {
    let build = if report.optimised { "" } else { ", debug build" };
    let mut out = format!(
        "**{}** ({}, {}), {}, pteron {}{build}\n\n**{}**: prompts of {} tokens, {} tokens generated, {} blocks of {} positions\n\n",
        clean(&report.adapter.name),
        clean(&report.adapter.driver),
        clean(&report.adapter.backend),
        report.date.replace('T', " ").replace('Z', " UTC"),
        report.version,
        clean(&report.program),
        count(report.prompt_length.into()),
        count(report.generated_length.into()),
        count(report.blocks as u64),
        report.block_positions,
    );
    let mut table = Table::default();
    let heads = ["sequences", "decode tok/s", "min … max", "each", "step", "GPU", "prompt tok/s"];
    table.row(heads.map(|head| Cell::new(head).right()));
    for test in &report.tests {
        table.row(row(test).map(|text| Cell::new(text).right()));
    }
    table.write_markdown(&mut out);
    out.push_str(
        "\ndecode tok/s: tokens of all sequences per second, in the median; each: of one of them; step, GPU: wall and GPU time of a step\n",
    );
    out
}

fn row(test: &Test) -> [String; 7] {
    let speeds = Summary::of(test.runs.iter().map(Run::decode_speed));
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_step = |seconds: fn(&Run) -> f64| {
        Summary::of(test.runs.iter().map(|run| seconds(run) / run.decode_steps.max(1) as f64)).map_or(0.0, |all| all.median)
    };
    let gpu = per_step(|run| run.decode_gpu_seconds);
    [
        count(test.sequences.into()),
        format!("{:.0}", test.decode_tokens_per_second),
        speeds.map_or_else(String::new, |speeds| format!("{:.0} … {:.0}", speeds.min, speeds.max)),
        format!("{:.1}", test.decode_tokens_per_second / f64::from(test.sequences)),
        time(per_step(|run| run.decode_seconds)),
        if gpu > 0.0 { time(gpu) } else { "–".to_owned() },
        format!("{:.0}", test.prompt_tokens_per_second),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_what_is_decoded_before_all_prompts_are_computed() {
        let lengths = Lengths { prompt: 128, generated: 128 };
        assert_eq!(lengths.positions(1, 512), 128 + 1 + 16 + 128);
        // 16,384 rows of prompts, of which a step takes 384 beside 128 decode rows.
        assert_eq!(lengths.positions(128, 512), 128 + 43 + 16 + 128);
        assert!(Lengths { prompt: u32::MAX, generated: 1 }.positions(u32::MAX, 512) == u32::MAX);
    }

    #[test]
    fn the_table_has_a_row_per_number_of_sequences() {
        let run = Run {
            prompt_seconds: 0.5,
            decode_seconds: 2.0,
            decode_tokens: 1024,
            decode_steps: 128,
            decode_gpu_seconds: 0.0,
        };
        let test = Test {
            sequences: 8,
            decode_tokens_per_second: run.decode_speed(),
            prompt_tokens_per_second: 2048.0,
            runs: vec![run],
        };
        assert_eq!(row(&test), ["8", "512", "512 … 512", "64.0", "15.6 ms", "–", "2048"].map(str::to_owned));
    }
}
