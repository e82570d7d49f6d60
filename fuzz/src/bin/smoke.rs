//! A bounded, repeatable run of all targets on stable Rust. See `fuzz/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use pteron_fuzz::oracle::{Finding, execute};
use pteron_fuzz::seeds::{self, Input};
use pteron_fuzz::{TARGETS, Target, oracle, target};

/// Runs every target over its seeds, kept findings and mutations of both.
#[derive(Parser)]
#[command(name = "smoke")]
struct Args {
    /// Run this target alone; may be given more than once
    #[arg(long, value_name = "TARGET")]
    only: Vec<String>,
    /// Executions per target, beyond one of each seed [default: set by the target]
    #[arg(long)]
    execs: Option<u64>,
    /// Threads [default: one per core]
    #[arg(long)]
    jobs: Option<usize>,
    /// The same seed gives the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this execution of the target alone
    #[arg(long, value_name = "NUMBER", requires = "only")]
    number: Option<u64>,
    /// Run these files, or all files of these folders, alone
    #[arg(long, value_name = "PATH", requires = "only", num_args = 1..)]
    input: Vec<PathBuf>,
    /// Write the seeds of every target into this folder and do nothing else
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
    /// List the targets and do nothing else
    #[arg(long)]
    list: bool,
}

/// An execution that takes this long has not stopped by itself.
const HANG: Duration = Duration::from_secs(60);
/// Findings after which a target is stopped.
const MAX_FINDINGS: usize = 10;
/// Executions a thread takes at a time.
const BLOCK: u64 = 64;

/// The results of some executions.
#[derive(Default)]
struct Figures {
    execs: u64,
    outcomes: BTreeMap<&'static str, u64>,
    slowest: Duration,
    heap: u64,
    findings: usize,
}

impl Figures {
    fn merge(&mut self, other: Self) {
        self.execs += other.execs;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.slowest = self.slowest.max(other.slowest);
        self.heap = self.heap.max(other.heap);
        self.findings += other.findings;
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(findings) => {
            eprintln!("smoke: {findings} findings");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("smoke: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<usize, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let targets = selected(&args.only)?;
    if args.list {
        for target in targets {
            println!("{:<18} {}", target.name, target.attacks);
        }
        return Ok(0);
    }
    if let Some(folder) = &args.export {
        targets.iter().try_for_each(|target| export(target, root, folder))?;
        return Ok(0);
    }
    // A finding is reported once, with what reproduces it; the default hook would print between.
    oracle::catch_panics();
    let (start, mut total) = (Instant::now(), Figures::default());
    for target in targets {
        let began = Instant::now();
        let figures = if args.input.is_empty() {
            Run::new(args, root, target)?.everything()
        } else {
            given_files(target, &args.input)?
        };
        report(target, &figures, began.elapsed());
        total.merge(figures);
    }
    println!("{} executions in {:.1} s: {} findings", total.execs, start.elapsed().as_secs_f64(), total.findings);
    Ok(total.findings)
}

fn selected(only: &[String]) -> Result<Vec<&'static Target>, String> {
    if only.is_empty() {
        return Ok(TARGETS.iter().filter(|target| !target.gpu).collect());
    }
    only.iter().map(|name| target::find(name).ok_or_else(|| format!("there is no target {name:?}; see --list"))).collect()
}

/// Writes the seeds, a folder for each target.
fn export(target: &Target, root: &Path, folder: &Path) -> Result<(), String> {
    let folder = folder.join(target.name);
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(path, bytes))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    for (index, input) in seeds::all(target, root)?.iter().enumerate() {
        write(&folder.join(format!("{index:05}")), &input.bytes)?;
    }
    Ok(())
}

/// Runs files as they are.
fn given_files(target: &Target, paths: &[PathBuf]) -> Result<Figures, String> {
    let mut figures = Figures::default();
    for path in paths {
        for file in if path.is_dir() { seeds::files(path)? } else { vec![path.clone()] } {
            let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            if let Err(finding) = note(&mut figures, target, &bytes) {
                println!("FINDING in {} in {}: {:.400}", target.name, file.display(), finding.message);
            }
        }
    }
    Ok(figures)
}

/// Counts an execution.
fn note(figures: &mut Figures, target: &Target, bytes: &[u8]) -> Result<(), Finding> {
    figures.execs += 1;
    let execution = execute(target, bytes).inspect_err(|_| figures.findings += 1)?;
    *figures.outcomes.entry(execution.outcome).or_default() += 1;
    figures.slowest = figures.slowest.max(execution.time);
    figures.heap = figures.heap.max(execution.heap);
    Ok(())
}

/// The run of one target.
struct Run<'a> {
    args: &'a Args,
    root: &'a Path,
    target: &'static Target,
    inputs: Vec<Input>,
    execs: u64,
    next: AtomicU64,
    stop: AtomicBool,
}

impl<'a> Run<'a> {
    fn new(args: &'a Args, root: &'a Path, target: &'static Target) -> Result<Self, String> {
        let inputs = seeds::all(target, root)?;
        let execs = args.execs.unwrap_or(target.smoke);
        Ok(Self { args, root, target, inputs, execs, next: AtomicU64::new(0), stop: AtomicBool::new(false) })
    }

    fn everything(&self) -> Figures {
        let mut figures = Figures::default();
        if let Some(number) = self.args.number {
            self.execution(number, &mut figures);
            return figures;
        }
        for input in &self.inputs {
            if let Err(finding) = note(&mut figures, self.target, &input.bytes) {
                println!("FINDING in {} in {}: {:.400}", self.target.name, input.name, finding.message);
            }
        }
        let jobs = self.args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
        let watches: Vec<Watch> = (0..jobs).map(|_| Watch::default()).collect();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = watches.iter().map(|watch| scope.spawn(|| self.worker(watch))).collect();
            scope.spawn(|| self.guard(&watches, &done));
            for worker in workers {
                match worker.join() {
                    Ok(part) => figures.merge(part),
                    Err(_) => figures.findings += 1,
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        figures
    }

    fn worker(&self, watch: &Watch) -> Figures {
        let mut figures = Figures::default();
        loop {
            let block = self.next.fetch_add(BLOCK, Ordering::Relaxed);
            if block >= self.execs || self.stop.load(Ordering::Relaxed) {
                return figures;
            }
            for number in block..(block + BLOCK).min(self.execs) {
                watch.set(Some(number));
                self.execution(number, &mut figures);
            }
            watch.set(None);
            if figures.findings >= MAX_FINDINGS {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The input of an execution: it depends on the numbers and the seeds alone, not on threads or time.
    fn input(&self, number: u64) -> Vec<u8> {
        // An odd factor spreads neighbouring numbers over all of the generator's states.
        let mut rng = Rng::with_seed(self.args.seed ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let other = &self.inputs[rng.usize(..self.inputs.len())].bytes;
        let mut bytes = self.inputs[rng.usize(..self.inputs.len())].bytes.clone();
        for _ in 0..=rng.u8(..3) {
            bytes = (self.target.mutate)(&mut rng, &bytes, other);
        }
        bytes.truncate(4 * self.target.max_len);
        bytes
    }

    fn execution(&self, number: u64, figures: &mut Figures) {
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.input(number)));
        let Ok(bytes) = made else {
            figures.findings += 1;
            return self.report_finding(number, &[], &oracle::last_panic());
        };
        if let Err(finding) = note(figures, self.target, &bytes) {
            self.report_finding(number, &bytes, &finding);
        }
    }

    /// Reports a finding and keeps its input where it can be looked at.
    fn report_finding(&self, number: u64, bytes: &[u8], finding: &Finding) {
        let (name, seed) = (self.target.name, self.args.seed);
        println!("FINDING in {name} in execution {number} of seed {seed}: {:.400}", finding.message);
        println!(
            "  again:  cargo run --profile smoke --manifest-path fuzz/Cargo.toml --bin smoke -- --only {name} --seed {seed} --number {number}"
        );
        let folder = self.root.join("fuzz/artifacts/smoke").join(name);
        let path = folder.join(format!("{seed}-{number}"));
        match std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, bytes)) {
            Ok(()) => println!("  input:  {}", path.display()),
            Err(error) => println!("  the input could not be kept: {error}"),
        }
    }

    /// Ends the program if an execution does not end.
    fn guard(&self, watches: &[Watch], done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
            for watch in watches {
                if let Some(number) = watch.over(HANG) {
                    let finding = Finding { message: format!("no end after {} s", HANG.as_secs()) };
                    self.report_finding(number, &self.input(number), &finding);
                    std::process::exit(1);
                }
            }
        }
    }
}

/// The execution that a thread is at, and since when.
#[derive(Default)]
struct Watch(Mutex<Option<(u64, Instant)>>);

impl Watch {
    fn set(&self, number: Option<u64>) {
        if let Ok(mut now) = self.0.lock() {
            *now = number.map(|number| (number, Instant::now()));
        }
    }

    fn over(&self, limit: Duration) -> Option<u64> {
        let now = *self.0.lock().ok()?;
        now.filter(|(_, since)| since.elapsed() > limit).map(|(number, _)| number)
    }
}

fn report(target: &Target, figures: &Figures, time: Duration) {
    let mut outcomes: Vec<_> = figures.outcomes.iter().collect();
    outcomes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let shown: Vec<_> = outcomes.iter().take(4).map(|(outcome, count)| format!("{outcome} {count}")).collect();
    println!(
        "{:<18} {:>8} executions {:>6.1} s, slowest {:>6.1} ms, heap {:>8} KiB, {} findings; {}",
        target.name,
        figures.execs,
        time.as_secs_f64(),
        figures.slowest.as_secs_f64() * 1e3,
        figures.heap / 1024,
        figures.findings,
        shown.join(", "),
    );
}
