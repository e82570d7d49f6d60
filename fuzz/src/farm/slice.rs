//! One slice: a libFuzzer process of a target for some seconds.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{child, dictionary};
use crate::target::Target;

/// An input that takes this many seconds ends its process.
const TIMEOUT: u32 = 30;
/// Memory of a process that ends it, in MiB.
const MEMORY: u32 = 2048;
/// How long a process may take to end after its time is over.
const GRACE: Duration = Duration::from_secs(45);
/// How long a process may take to end after Ctrl-C.
const IMPATIENCE: Duration = Duration::from_secs(3);

/// The folders of a run.
pub(super) struct Folders {
    /// Everything is below this.
    pub(super) out: PathBuf,
    /// Seeds, with a folder for each target.
    pub(super) seeds: Option<PathBuf>,
}

impl Folders {
    pub(super) fn corpus(&self, target: &Target) -> PathBuf {
        self.out.join("corpus").join(target.name)
    }

    pub(super) fn findings(&self, target: &Target) -> PathBuf {
        self.out.join("findings").join(target.name)
    }

    fn log(&self, target: &Target, worker: usize) -> PathBuf {
        self.out.join("logs").join(format!("{}-{worker}.log", target.name))
    }

    fn dictionary(&self, target: &Target) -> PathBuf {
        self.out.join("dictionaries").join(target.name)
    }

    fn seeds(&self, target: &Target) -> Option<PathBuf> {
        self.seeds.as_ref().map(|seeds| seeds.join(target.name)).filter(|folder| folder.is_dir())
    }

    /// Makes the folders of a target and writes its dictionary.
    pub(super) fn prepare(&self, target: &Target) -> Result<(), String> {
        let (logs, dictionaries) = (self.out.join("logs"), self.out.join("dictionaries"));
        for folder in [self.corpus(target), self.findings(target), logs, dictionaries] {
            std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let path = self.dictionary(target);
        std::fs::write(&path, dictionary::text(target.dictionary)).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Result of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    pub(super) executions: u64,
    pub(super) seconds: f64,
    pub(super) edges: u64,
    /// Whether the process ended by itself, without a fault.
    pub(super) clean: bool,
}

/// Runs a target for some seconds.
pub(super) fn run(
    target: &Target,
    folders: &Folders,
    worker: usize,
    seconds: f64,
    stop: &AtomicBool,
) -> Result<Done, String> {
    let mut command = process(target, folders)?;
    command.arg(folders.corpus(target)).arg(format!("-max_total_time={}", seconds.ceil().max(1.0))).args([
        "-print_final_stats=1",
        "-reload=1",
        "-len_control=20",
    ]);
    if !target.dictionary.is_empty() {
        command.arg(format!("-dict={}", folders.dictionary(target).display()));
    }
    logged(command, &folders.log(target, worker), Duration::from_secs_f64(seconds.ceil()) + GRACE, stop)
}

/// Replaces the corpus by the inputs of it that cover something new. The first time, of the seeds, too.
pub(super) fn merge(target: &Target, folders: &Folders, worker: usize, stop: &AtomicBool) -> Result<(), String> {
    let corpus = folders.corpus(target);
    let merged = corpus.with_extension("merged");
    let fault = |error: std::io::Error| format!("{}: {error}", corpus.display());
    let _ = std::fs::remove_dir_all(&merged);
    std::fs::create_dir_all(&merged).map_err(fault)?;
    let mut command = process(target, folders)?;
    command.arg("-merge=1").arg(&merged).arg(&corpus).args(folders.seeds(target).filter(|_| is_empty(&corpus)));
    let done = logged(command, &folders.log(target, worker), Duration::from_secs(300), stop)?;
    if done.clean && !is_empty(&merged) {
        std::fs::remove_dir_all(&corpus).and_then(|()| std::fs::rename(&merged, &corpus)).map_err(fault)
    } else {
        std::fs::remove_dir_all(&merged).map_err(fault)
    }
}

/// Whether a folder has no files.
pub(super) fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn process(target: &Target, folders: &Folders) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| format!("the farm's own program: {error}"))?;
    let mut command = Command::new(program);
    command.env(child::TARGET, target.name).env(child::FINDINGS, folders.findings(target)).args([
        format!("-max_len={}", target.max_len),
        format!("-timeout={TIMEOUT}"),
        format!("-rss_limit_mb={MEMORY}"),
        format!("-artifact_prefix={}/", folders.findings(target).display()),
    ]);
    Ok(command)
}

/// Runs a process, its output in a file, and reads its statistics.
fn logged(mut command: Command, log: &Path, limit: Duration, stop: &AtomicBool) -> Result<Done, String> {
    let fault = |error: std::io::Error| format!("{}: {error}", log.display());
    let output = File::create(log).map_err(fault)?;
    let start = Instant::now();
    let mut process = command
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(fault)?)
        .stderr(output)
        .spawn()
        .map_err(|error| format!("a process could not be started: {error}"))?;
    let mut stopped: Option<Instant> = None;
    let status = loop {
        if let Some(status) = process.try_wait().map_err(fault)? {
            break Some(status);
        }
        if stop.load(Ordering::Relaxed) {
            // A terminal tells all processes of Ctrl-C.
            stopped.get_or_insert_with(Instant::now);
        }
        if start.elapsed() > limit || stopped.is_some_and(|since| since.elapsed() > IMPATIENCE) {
            let _ = process.kill();
            let _ = process.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&std::fs::read(log).map_err(fault)?).into_owned();
    let (executions, edges) = parse(&text);
    Ok(Done { executions, seconds, edges, clean: status.is_some_and(|status| status.success()) })
}

/// Executions and covered edges, as libFuzzer prints them.
fn parse(text: &str) -> (u64, u64) {
    let number = |word: &str| word.parse::<u64>().ok();
    let (mut executions, mut edges, mut total) = (0, 0, None);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("stat::number_of_executed_units:") => total = words.next().and_then(number),
            Some(first) => {
                if let Some(count) = first.strip_prefix('#').and_then(number) {
                    executions = executions.max(count);
                    let covered = words.skip_while(|word| *word != "cov:").nth(1).and_then(number);
                    edges = edges.max(covered.unwrap_or(0));
                }
            }
            None => {}
        }
    }
    (total.unwrap_or(executions), edges)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn figures_are_read_from_libfuzzers_lines() {
        let cut = "INFO: seed\n#2\tINITED cov: 31 ft: 32 corp: 1/1b\n#512\tNEW    cov: 40 ft: 50 corp: 2/9b\n#1024\tpulse  cov: 41 ft: 50";
        assert_eq!(parse(cut), (1024, 41));
        let whole = format!("{cut}\n#2000\tDONE   cov: 44 ft: 55\nstat::number_of_executed_units: 2001\n");
        assert_eq!(parse(&whole), (2001, 44));
        assert_eq!(parse(""), (0, 0));
    }
}
