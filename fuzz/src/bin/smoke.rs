//! A bounded, repeatable run of all fuzz bodies on stable Rust. See `fuzz/README.md`.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use pteron_fuzz::check::{Outcome, heap_limit};
use pteron_fuzz::corpus::{Corpus, Seed};
use pteron_fuzz::{Kind, any, mutate};

/// Runs every fuzz body over real files, kept finds and mutations of both.
#[derive(Parser)]
#[command(name = "smoke")]
struct Args {
    /// Executions, beyond one of each seed
    #[arg(long, default_value_t = 1_000_000)]
    execs: u64,
    /// Stop after this many seconds, whatever is left
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Threads [default: one a core]
    #[arg(long)]
    jobs: Option<usize>,
    /// The same seed gives the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start from the real files below this directory, too
    #[arg(long, value_name = "DIRECTORY")]
    seeds: Vec<PathBuf>,
    /// Run this execution alone
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Write all seeds into this directory, for libFuzzer, and do nothing else
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "only")]
    export: Option<PathBuf>,
    /// Run this file alone
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    input: Option<PathBuf>,
}

/// An execution of an input below a mebibyte takes less than this.
const SLOW: Duration = Duration::from_secs(1);
/// What takes this long is measured again: another program may have had the core.
const LONG: Duration = Duration::from_millis(20);
/// Larger inputs may take longer.
const SLOW_FROM: usize = 1024 * 1024;
/// An execution that takes this long has not stopped by itself.
const HANG: Duration = Duration::from_secs(20);
/// Enough to see what is wrong.
const MAX_FINDS: usize = 10;
/// Executions a thread takes at a time.
const BLOCK: u64 = 256;

/// What has been seen.
#[derive(Default)]
struct Figures {
    execs: u64,
    verdicts: BTreeMap<&'static str, u64>,
    /// The slowest execution and its number; seeds have none.
    slowest: (Duration, Option<u64>),
    /// The most bytes on the heap at one time.
    heap: u64,
    /// The largest part of what an input may have on the heap.
    heap_share: f64,
    finds: usize,
}

impl Figures {
    fn merge(&mut self, other: Self) {
        self.execs += other.execs;
        for (verdict, count) in other.verdicts {
            *self.verdicts.entry(verdict).or_default() += count;
        }
        self.slowest = self.slowest.max(other.slowest);
        self.heap = self.heap.max(other.heap);
        self.heap_share = self.heap_share.max(other.heap_share);
        self.finds += other.finds;
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    // A find is reported once, with what reproduces it; the default hook would print between.
    panic::set_hook(Box::new(|_| {}));
    if let Some(path) = &args.input {
        return one_file(path);
    }
    let corpus = match Corpus::load(root, &args.seeds) {
        Ok(corpus) => corpus,
        Err(error) => {
            eprintln!("smoke: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{} seeds from {} real files and {} kept inputs", corpus.seeds.len(), corpus.real, corpus.kept);
    if let Some(directory) = &args.export {
        return export(&corpus, directory);
    }
    let run = Run { args: &args, root, corpus: &corpus, next: AtomicU64::new(0), stop: AtomicBool::new(false) };
    let start = Instant::now();
    let figures = run.everything();
    report(&figures, start.elapsed(), args.seed);
    if figures.finds == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one_file(path: &Path) -> ExitCode {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("smoke: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let kinds = Kind::of(&bytes).map_or(vec![Kind::Program, Kind::Delegate, Kind::External], |kind| vec![kind]);
    for kind in kinds {
        let start = Instant::now();
        match guarded(|| any(kind, &bytes)) {
            Ok(outcome) => {
                println!("{kind:?}: {}, {} bytes of heap, {:?}", outcome.verdict, outcome.heap, start.elapsed());
            }
            Err(message) => {
                println!("{kind:?}: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Writes the seeds, a directory for each kind.
fn export(corpus: &Corpus, directory: &Path) -> ExitCode {
    for (index, seed) in corpus.seeds.iter().enumerate() {
        let directory = directory.join(format!("{:?}", seed.kind).to_lowercase());
        let path = directory.join(format!("{index:05}"));
        if let Err(error) = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, &seed.bytes)) {
            eprintln!("smoke: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs a body; a panic becomes its message.
fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("a panic without a message".to_owned(), |&text| text.to_owned()),
    })
}

struct Run<'a> {
    args: &'a Args,
    root: &'a Path,
    corpus: &'a Corpus,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Run<'_> {
    fn everything(&self) -> Figures {
        let mut figures = Figures::default();
        if let Some(index) = self.args.only {
            self.execution(index, &mut figures);
            if let Ok(input) = guarded(|| mutate::input(self.corpus, self.args.seed, index)) {
                self.keep(index, &input.bytes);
            }
            return figures;
        }
        for seed in &self.corpus.seeds {
            self.seed(seed, &mut figures);
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
                    Err(_) => figures.finds += 1,
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        figures
    }

    /// A seed as it is. What was made from a valid file is valid.
    fn seed(&self, seed: &Seed, figures: &mut Figures) {
        let start = Instant::now();
        let result = guarded(|| any(seed.kind, &seed.bytes)).and_then(|outcome| {
            if seed.made && seed.typed.is_none() { Err(format!("refused: {}", outcome.verdict)) } else { Ok(outcome) }
        });
        if let Err(message) = note(figures, None, &seed.bytes, start.elapsed(), result) {
            figures.finds += 1;
            println!("FIND in {}: {message:.400}", seed.name);
        }
    }

    fn worker(&self, watch: &Watch) -> Figures {
        let deadline = Instant::now() + Duration::from_secs(self.args.seconds);
        let mut figures = Figures::default();
        loop {
            let block = self.next.fetch_add(BLOCK, Ordering::Relaxed);
            if block >= self.args.execs || Instant::now() > deadline || self.stop.load(Ordering::Relaxed) {
                return figures;
            }
            for index in block..(block + BLOCK).min(self.args.execs) {
                watch.set(Some(index));
                self.execution(index, &mut figures);
            }
            watch.set(None);
            if figures.finds >= MAX_FINDS {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn execution(&self, index: u64, figures: &mut Figures) {
        let made = guarded(|| mutate::input(self.corpus, self.args.seed, index));
        let (bytes, how, result, time) = match made {
            Err(message) => (Vec::new(), "typed content".to_owned(), Err(message), Duration::ZERO),
            Ok(input) => {
                let body = || guarded(|| any(input.kind, &input.bytes));
                let start = Instant::now();
                let result = body();
                let mut time = start.elapsed();
                for _ in 0..4 {
                    if time >= LONG && result.is_ok() {
                        let start = Instant::now();
                        let _ = body();
                        time = time.min(start.elapsed());
                    }
                }
                (input.bytes, input.how, result, time)
            }
        };
        if let Err(message) = note(figures, Some(index), &bytes, time, result) {
            figures.finds += 1;
            self.find(index, &bytes, &how, &message);
        }
    }

    fn find(&self, index: u64, bytes: &[u8], how: &str, message: &str) {
        let seed = self.args.seed;
        let seeds: String = self.args.seeds.iter().map(|path| format!(" --seeds {}", path.display())).collect();
        println!("FIND in execution {index} of seed {seed} ({how}): {message:.400}");
        println!(
            "  again:  cargo run --release --manifest-path fuzz/Cargo.toml --bin smoke -- --seed {seed} --only {index}{seeds}"
        );
        if !bytes.is_empty() {
            self.keep(index, bytes);
        }
    }

    /// Writes an input where it can be looked at.
    fn keep(&self, index: u64, bytes: &[u8]) {
        let seed = self.args.seed;
        let directory = self.root.join("fuzz/artifacts/smoke");
        let path = directory.join(format!("{seed}-{index}"));
        match std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, bytes)) {
            Ok(()) => println!("  input:  {}", path.display()),
            Err(error) => println!("  the input could not be kept: {error}"),
        }
    }

    /// Ends the program if an execution does not end.
    fn guard(&self, watches: &[Watch], done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
            for watch in watches {
                if let Some(index) = watch.over(HANG) {
                    self.find(index, &[], "unfinished", &format!("no end after {} s", HANG.as_secs()));
                    std::process::exit(1);
                }
            }
        }
    }
}

/// Counts an execution, and says what is wrong with it.
fn note(
    figures: &mut Figures,
    index: Option<u64>,
    bytes: &[u8],
    time: Duration,
    result: Result<Outcome, String>,
) -> Result<(), String> {
    figures.execs += 1;
    figures.slowest = figures.slowest.max((time, index));
    let outcome = result?;
    *figures.verdicts.entry(outcome.verdict).or_default() += 1;
    figures.heap = figures.heap.max(outcome.heap);
    figures.heap_share = figures.heap_share.max(outcome.heap as f64 / heap_limit(bytes.len()) as f64);
    if time >= SLOW && bytes.len() < SLOW_FROM {
        return Err(format!("{time:?} for {} bytes", bytes.len()));
    }
    Ok(())
}

/// What a thread is at, and since when.
#[derive(Default)]
struct Watch(Mutex<Option<(u64, Instant)>>);

impl Watch {
    fn set(&self, index: Option<u64>) {
        if let Ok(mut now) = self.0.lock() {
            *now = index.map(|index| (index, Instant::now()));
        }
    }

    fn over(&self, limit: Duration) -> Option<u64> {
        let now = *self.0.lock().ok()?;
        now.filter(|(_, since)| since.elapsed() > limit).map(|(index, _)| index)
    }
}

fn report(figures: &Figures, time: Duration, seed: u64) {
    for (verdict, count) in &figures.verdicts {
        println!("{verdict:>12} {count:>10}");
    }
    println!(
        "{} executions in {:.1} s with seed {seed}: {} findings, slowest {:.1} ms ({}), most heap {} bytes, at most {:.0} % of what is allowed",
        figures.execs,
        time.as_secs_f64(),
        figures.finds,
        figures.slowest.0.as_secs_f64() * 1e3,
        figures.slowest.1.map_or("a seed".to_owned(), |index| format!("number {index}")),
        figures.heap,
        figures.heap_share * 100.0,
    );
}
