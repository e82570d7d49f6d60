//! A run of the farm.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::args::Args;
use super::schedule::{self, Candidate};
use super::slice::{self, Folders};
use super::state::{self, State, Totals};
use super::summary;
use crate::target::{self, Target};
use crate::{TARGETS, seeds};

/// The longest slice, in seconds: ending the process returns all of its memory.
const LONGEST: f64 = 60.0;
/// The shortest slice that is worth a process.
const SHORTEST: f64 = 5.0;
/// The slices that each target gets at least, if there is time.
const ROUNDS: f64 = 6.0;

/// Slices of a target in a row that may end at once before it is given up for this run.
const MAX_FAILURES: u32 = 4;

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs the farm. Returns the number of findings that are kept.
pub(super) fn run(args: &Args) -> Result<u64, String> {
    let targets = selected(args)?;
    if args.list {
        for target in targets {
            println!("{:<18} {}", target.name, target.attacks);
        }
        return Ok(0);
    }
    let out = std::path::absolute(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    let mut folders = Folders { seeds: args.seeds.clone(), out };
    targets.iter().try_for_each(|target| folders.prepare(target))?;
    if let Some(root) = &args.repository {
        let made = folders.out.join("seeds");
        targets.iter().try_for_each(|target| export(target, root, &made))?;
        folders.seeds = Some(made);
    }
    // The first press ends the run with a summary. libFuzzer's processes end by themselves.
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)).map_err(|error| format!("Ctrl-C: {error}"))?;
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let state_path = folders.out.join("state.json");
    let farm = Farm {
        targets,
        folders,
        slice: (args.seconds() * jobs as f64 / (ROUNDS * TARGETS.len() as f64)).clamp(SHORTEST, LONGEST),
        end: Instant::now() + Duration::from_secs_f64(args.seconds()),
        inner: Mutex::new(Inner {
            state: state::load(&state_path)?,
            running: HashMap::new(),
            failures: HashMap::new(),
            round: 0,
        }),
    };
    let begun = Instant::now();
    let before = farm.lock().state.clone();
    // Many seeds cover the same: a target starts with those that differ.
    farm.merge(jobs, slice::is_empty)?;
    farm.each_worker(jobs, |worker| farm.work(worker))?;
    if !args.no_merge && !STOP.load(Ordering::Relaxed) {
        farm.merge(jobs, |_| true)?;
    }
    farm.count_files()?;
    let state = farm.lock().state.clone();
    let text = summary::markdown(&before, &state, begun.elapsed(), jobs, &farm.folders.out);
    print!("{text}");
    write(&farm.folders.out.join("summary.md"), text.as_bytes())?;
    let json = format!("{:#}\n", state::to_json(&state));
    write(&farm.folders.out.join("summary.json"), json.as_bytes())?;
    write(&state_path, json.as_bytes())?;
    Ok(state.values().map(|totals| totals.findings).sum())
}

fn selected(args: &Args) -> Result<Vec<&'static Target>, String> {
    if args.only.is_empty() {
        return Ok(TARGETS.iter().filter(|target| args.gpu || !target.gpu).collect());
    }
    args.only
        .iter()
        .map(|name| target::find(name).ok_or_else(|| format!("there is no target {name:?}; see --list")))
        .collect()
}

/// Writes the seeds of a target into its folder.
fn export(target: &Target, root: &Path, folder: &Path) -> Result<(), String> {
    let folder = folder.join(target.name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (index, input) in seeds::all(target, root)?.iter().enumerate() {
        write(&folder.join(format!("{index:05}")), &input.bytes)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

struct Farm {
    targets: Vec<&'static Target>,
    folders: Folders,
    /// The length of a slice, in seconds.
    slice: f64,
    end: Instant,
    inner: Mutex<Inner>,
}

/// State shared by the workers.
struct Inner {
    state: State,
    /// Seconds of the slices that run, by target.
    running: HashMap<&'static str, f64>,
    /// Slices in a row that ended at once, by target.
    failures: HashMap<&'static str, u32>,
    /// Slices so far.
    round: u64,
}

impl Farm {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs `body` on every worker; the first error counts.
    fn each_worker(&self, jobs: usize, body: impl Fn(usize) -> Result<(), String> + Sync) -> Result<(), String> {
        let body = &body;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|worker| scope.spawn(move || body(worker))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
        })
    }

    fn work(&self, worker: usize) -> Result<(), String> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now()).as_secs_f64();
            if left < 1.0 || STOP.load(Ordering::Relaxed) {
                return Ok(());
            }
            // What is left after a slice should be worth one, too.
            let seconds = if left < self.slice + SHORTEST { left } else { self.slice };
            let Some(target) = self.take(seconds) else { return Ok(()) };
            let done = slice::run(target, &self.folders, worker, seconds, &STOP);
            let mut inner = self.lock();
            *inner.running.entry(target.name).or_default() -= seconds;
            let done = done?;
            let failures = inner.failures.entry(target.name).or_default();
            *failures = if done.clean || done.seconds >= SHORTEST { 0 } else { *failures + 1 };
            if *failures == MAX_FAILURES {
                eprintln!("{:<18} is given up: its processes end at once; see {}", target.name, self.folders.out.display());
            }
            let totals = inner.state.entry(target.name.to_owned()).or_default();
            totals.executions += done.executions;
            totals.seconds += done.seconds;
            totals.edges = totals.edges.max(done.edges);
            eprintln!(
                "{:<18} {:>11} executions {:>8.0}/s {:>7} edges{}",
                target.name,
                totals.executions,
                done.executions as f64 / done.seconds.max(0.001),
                totals.edges,
                if done.clean || STOP.load(Ordering::Relaxed) { "" } else { "  ended early" },
            );
            if !done.clean {
                summary::limit_artifacts(&self.folders.findings(target))?;
            }
            let json = format!("{:#}\n", state::to_json(&inner.state));
            write(&self.folders.out.join("state.json"), json.as_bytes())?;
        }
    }

    /// The target that runs next.
    fn take(&self, seconds: f64) -> Option<&'static Target> {
        let mut inner = self.lock();
        let none = Totals::default();
        let candidate = |target: &&'static Target| Candidate {
            target,
            totals: inner.state.get(target.name).unwrap_or(&none),
            running: inner.running.get(target.name).copied().unwrap_or(0.0),
        };
        let failures = |target: &&&Target| inner.failures.get(target.name).copied().unwrap_or(0);
        let candidates: Vec<_> =
            self.targets.iter().filter(|target| failures(target) < MAX_FAILURES).map(candidate).collect();
        let target = candidates[schedule::next(&candidates, inner.round)?].target;
        inner.round += 1;
        *inner.running.entry(target.name).or_default() += seconds;
        Some(target)
    }

    /// Minimises every corpus that is wanted.
    fn merge(&self, jobs: usize, wanted: impl Fn(&Path) -> bool + Sync) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        self.each_worker(jobs, |worker| {
            while let Some(target) = self.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                if wanted(&self.folders.corpus(target)) {
                    slice::merge(target, &self.folders, worker, &STOP)?;
                }
            }
            Ok(())
        })
    }

    /// Counts inputs and findings.
    fn count_files(&self) -> Result<(), String> {
        let mut inner = self.lock();
        for target in &self.targets {
            let totals = inner.state.entry(target.name.to_owned()).or_default();
            let corpus = seeds::files(&self.folders.corpus(target))?;
            totals.corpus = corpus.len() as u64;
            totals.corpus_bytes = corpus.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
            totals.findings = summary::findings(&self.folders.findings(target))?.len() as u64;
        }
        Ok(())
    }
}
