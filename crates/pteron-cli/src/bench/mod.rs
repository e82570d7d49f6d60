//! `pteron bench`: measures prefill and decode speed of a language model, and records what the figures depend on.
//!
//! A run goes top down: [`target`] opens the program, [`runner`] loads it (twice, to time a cold and a warm load), [`check`] compares it
//! with the exact path, [`length_sweep`] times prompts of every length, [`measure`] runs every [`cases::Case`]; [`sequences`] measures many
//! texts at once instead. The results are collected
//! in a [`report`], which [`table`], JSON and [`plot`] render.

mod ab;
mod agreement;
mod args;
mod cases;
mod check;
mod first_token;
mod host_memory;
mod length_sweep;
mod measure;
mod peers;
mod plot;
mod plot_length_sweep;
mod report;
mod runner;
mod sequences;
mod spinner;
mod stats;
mod table;
mod target;

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use pteron::{Fusions, Gpu, LoadOptions, block_on};
use pteron_llm::MemoryTraffic;

pub(crate) use ab::{AbComparison, Workload};
use agreement::Agreement;
use args::Against;
pub(crate) use args::{Bench, TargetArgs};
use cases::Case;
use measure::Variants;
use report::{Adapter, Loading, Memory, Program, Reading, Report};
use runner::Runner;
use spinner::Spinner;
pub(crate) use target::Target;

use crate::failure::{Failure, Reason};
use crate::{calendar, devices, files, inspect, interrupts, terminal, tune};

/// Runs the command.
pub(crate) fn run(args: &Bench) -> ExitCode {
    match bench(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

fn bench(args: &Bench) -> Result<(), Failure> {
    if args.load_once {
        return first_token::load_once(args);
    }
    if !args.sequences.is_empty() {
        return sequences::run(args, &args.sequences);
    }
    let target = target::open(&args.target, args.longest())?;
    let quiet = args.quiet || args.json;
    let gpu = devices::open(&args.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &target.program, quiet);
    let fast = check::fast(args.cache()).with_tuning(tuning.unwrap_or_default());
    let (mut report, runner) = prepare(args, &gpu, &target, &fast, quiet)?;
    report.tuning = tuning.map(tune::describe);
    // From here on the first Ctrl-C ends the measurement and shows the finished tests.
    interrupts::defer_first_interrupt();
    let other = args.against.map(|against| baseline(against, fast));
    let finished = examine(args, &gpu, &target, &runner, other, &mut report);
    // An interrupted measurement is shown but not saved.
    if finished.is_ok() {
        save(args, &report)?;
    }
    show(args, &report)?;
    finished?;
    report.demand()
}

/// Runs the check, the length sweep and the tests. Where the check fails, nothing is measured: speed of wrong results is worth nothing.
fn examine(
    args: &Bench,
    gpu: &Gpu,
    target: &Target,
    runner: &Runner,
    other: Option<LoadOptions>,
    report: &mut Report,
) -> Result<(), Failure> {
    let quiet = args.quiet || args.json;
    if args.check {
        report.checks.push(check::check(gpu, target, runner, quiet)?);
        if args.target.model.is_none() && args.target.synthetic.is_none() {
            let synthetic = target::synthetic(check::SYNTHETIC_SHAPE, args.longest())?;
            let (runner, _) = Runner::load(gpu, &synthetic, check::fast(args.cache()), quiet)?;
            report.checks.push(check::check(gpu, &synthetic, &runner, quiet)?);
        }
        report.checks.iter().try_for_each(Agreement::demand)?;
    }
    let other = match other {
        Some(options) => Some(Runner::load(gpu, target, options, quiet)?.0),
        None => None,
    };
    let progress = Spinner::new(quiet);
    if let Some(lengths) = args.length_sweep {
        report.length_sweep = Some(length_sweep::measure(runner, lengths, args.repeat, &progress)?);
    }
    if let Some(processes) = args.first_token {
        report.first_token = Some(first_token::measure(processes, &progress)?);
    }
    let cases = Case::requested(args);
    let variants = Variants { measured: runner, baseline: other.as_ref() };
    match &args.peers {
        Some(folder) => {
            let (peers, model) = peers::find(folder, args.peer_model.as_deref())?;
            report.peers = peers;
            measure::in_turns(&variants, &cases, args.repeat, (&mut report.peers, &model), &progress, &mut report.tests)
        }
        None => measure::measure(&variants, &cases, args.repeat, &progress, &mut report.tests),
    }
}

/// Load options of the baseline of an A/B comparison.
fn baseline(against: Against, fast: LoadOptions) -> LoadOptions {
    match against {
        Against::Unfused => fast.with_fusions(Fusions::NONE),
    }
}

/// Loads the program twice and fills in the report's parts that do not depend on the tests.
fn prepare(args: &Bench, gpu: &Gpu, target: &Target, fast: &LoadOptions, quiet: bool) -> Result<(Report, Runner), Failure> {
    let date = calendar::iso(SystemTime::now());
    let progress = Spinner::new(quiet);
    // Before the program takes the memory.
    progress.say("measuring memory bandwidth");
    let reading = reading(gpu)?;
    drop(progress);
    let (cold, cold_seconds) = Runner::load(gpu, target, fast.clone(), quiet)?;
    // Frees its memory before the second load.
    drop(cold);
    let (runner, warm_seconds) = Runner::load(gpu, target, fast.clone(), quiet)?;
    let planned_bytes = inspect::planned_bytes(target.program.pte());
    let Runner { method, metadata, .. } = &runner;
    let traffic = MemoryTraffic::of(method, metadata);
    let report = Report {
        report_version: report::VERSION,
        version: env!("CARGO_PKG_VERSION"),
        optimised: !cfg!(debug_assertions),
        date,
        adapter: Adapter::new(gpu.adapter()),
        program: Program {
            name: target.name.clone(),
            bytes: target.bytes,
            context_length: metadata.context_length,
            call_tokens: metadata.max_prefill,
            vocab_size: metadata.vocab_size,
            constant_bytes_per_token: traffic.constant_bytes_per_token,
            cache_bytes_per_position: traffic.cache_bytes_per_position,
        },
        memory: Memory::new(method.memory_bytes(), method.state_bytes(), planned_bytes, gpu.allocated()),
        loading: Loading { cold_seconds, warm_seconds },
        tuning: None,
        reading,
        repeat: args.repeat,
        checks: Vec::new(),
        length_sweep: None,
        against: args.against.map(Against::name),
        first_token: None,
        peers: Vec::new(),
        tests: Vec::new(),
    };
    Ok((report, runner))
}

/// Measures memory bandwidth on a buffer larger than the GPU's caches, as far as the adapter allows one.
fn reading(gpu: &Gpu) -> Result<Option<Reading>, Failure> {
    const MIB: u64 = 1 << 20;
    let adapter = gpu.adapter();
    let wanted = if adapter.software { 64 * MIB } else { 256 * MIB };
    let buffer_bytes = wanted.min(adapter.limits.max_storage_buffer_binding_size / MIB * MIB);
    let bytes_per_second = block_on(gpu.read_bandwidth(buffer_bytes))?;
    // A disturbed run can yield no sensible figure.
    let sensible = bytes_per_second.is_finite() && bytes_per_second > 0.0;
    Ok(sensible.then_some(Reading { buffer_bytes, bytes_per_second }))
}

fn show(args: &Bench, report: &Report) -> Result<(), Failure> {
    if args.json {
        let json = report.json().map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{json}\n"));
    }
    terminal::print(&table::render(report))
}

/// Writes the requested files.
fn save(args: &Bench, report: &Report) -> Result<(), Failure> {
    if let Some(path) = &args.plot {
        files::write(path, |out| out.write_all(plot::svg(report).as_bytes()))?;
    }
    let Some(folder) = &args.runs else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, Reason::Unwritten(error)))?;
    let path = folder.join(file_name(report));
    files::write(&path, |out| {
        serde_json::to_writer_pretty(&mut *out, &report.json()?)?;
        out.write_all(b"\n")
    })
}

/// `2026-11-15T14-43-35Z-nvidia-h200-llama.json`: sorts by date, one file per run.
fn file_name(report: &Report) -> String {
    let program = report.program.name.trim_end_matches(".pte");
    let date = report.date.replace(':', "-");
    [date, slug(&report.adapter.name), slug(program)].join("-") + ".json"
}

/// Lower-case letters and digits of a name, with a dash for everything between them.
fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_date_adapter_and_program() {
        let report = report::tests::sample();
        assert_eq!(file_name(&report), "2026-11-15T14-43-35Z-wing-3000-bird-co.json");
        assert_eq!(slug("llvmpipe (LLVM 15.0.6, 256 bits)"), "llvmpipe-llvm-15-0-6-256-bits");
        assert_eq!(slug("../é/"), "");
        let mut shape = report::tests::sample();
        shape.program.name = "llama-3.2-1b".to_owned();
        assert!(file_name(&shape).ends_with("-wing-3000-llama-3-2-1b.json"));
    }
}
