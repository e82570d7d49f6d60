//! Time to the first token in a new process, and the host memory that a load takes.
//!
//! The command starts itself again with `--load-once`. Such a process opens the device, loads the program, generates one token, and
//! prints one line of JSON; the time from its start to that line is measured by the process that started it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Target;
use super::args::Bench;
use super::check;
use super::host_memory::PeakMemory;
use super::runner::Runner;
use super::spinner::Spinner;
use super::stats::Summary;
use crate::failure::{Failure, Reason};
use crate::units::{bytes, time};
use crate::{devices, interrupts, terminal, tune};

/// The flag of a process that loads once.
const LOAD_ONCE: &str = "--load-once";

/// Loads in new processes.
#[derive(Debug, Serialize)]
pub(super) struct FirstToken {
    /// Seconds from the start of a process to its first token.
    pub(super) seconds: Summary,
    /// The most host memory of a load above what the process had before it, mapped files not counted; `None` where the system does not
    /// report it.
    pub(super) peak_host_bytes: Option<u64>,
    runs: Vec<Process>,
}

/// One process.
#[derive(Debug, Serialize)]
struct Process {
    seconds: f64,
    #[serde(flatten)]
    load: Load,
}

/// The line that a process prints.
#[derive(Debug, Serialize, Deserialize)]
struct Load {
    /// Seconds to open the program, to open the device, and to load the program and generate a token.
    open_seconds: f64,
    device_seconds: f64,
    load_seconds: f64,
    peak_host_bytes: Option<u64>,
}

/// Loads in `repeat` new processes, after one that fills the caches.
pub(super) fn measure(repeat: u32, progress: &Spinner) -> Result<FirstToken, Failure> {
    let mut runs = Vec::new();
    for number in 0..=repeat {
        if interrupts::interrupted() {
            return Err(Failure::Interrupted);
        }
        progress.say(format!("first token in a new process: {number} of {repeat}"));
        let process = start()?;
        if number > 0 {
            runs.push(process);
        }
    }
    FirstToken::of(runs).ok_or(Failure::Interrupted)
}

impl FirstToken {
    fn of(runs: Vec<Process>) -> Option<Self> {
        let seconds = Summary::of(runs.iter().map(|run| run.seconds))?;
        let peak_host_bytes = runs.iter().filter_map(|run| run.load.peak_host_bytes).max();
        Some(Self { seconds, peak_host_bytes, runs })
    }

    /// The figures for people.
    pub(super) fn sentences(&self) -> String {
        let Summary { median, min, max, .. } = self.seconds;
        let memory = self.peak_host_bytes.map(|peak| format!("; a load takes {} of host memory", bytes(peak)));
        let memory = memory.unwrap_or_default();
        format!("First token in a new process: {} ({} … {}){memory}.\n\n", time(median), time(min), time(max))
    }
}

/// Starts this command again, with the same arguments, and waits for its line.
fn start() -> Result<Process, Failure> {
    let path = std::env::current_exe().map_err(Failure::Input)?;
    let failed = |error: std::io::Error| Failure::file(&path, Reason::Io(error));
    let mut command = Command::new(&path);
    command.args(std::env::args_os().skip(1)).arg(LOAD_ONCE).stdin(Stdio::null()).stdout(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    child.wait().map_err(failed)?;
    let load = serde_json::from_str(&line).map_err(|error| failed(error.into()))?;
    Ok(Process { seconds, load })
}

/// The process that loads once: its line says how long each part took.
pub(super) fn load_once(args: &Bench) -> Result<(), Failure> {
    let start = Instant::now();
    let target = super::target::open(&args.target, args.longest())?;
    let opened = start.elapsed().as_secs_f64();
    let gpu = devices::open(&args.gpu, true)?;
    let device = start.elapsed().as_secs_f64() - opened;
    let memory = PeakMemory::start();
    // Dropped after the line is printed: giving back gigabytes takes time, and the token is there.
    let (_runner, load_seconds) = load(args, &gpu, &target)?;
    let peak_host_bytes = memory.map(PeakMemory::finish);
    let load = Load { open_seconds: opened, device_seconds: device, load_seconds, peak_host_bytes };
    let line = serde_json::to_string(&load).map_err(|error| Failure::Output(error.into()))?;
    terminal::print(&format!("{line}\n"))
}

fn load(args: &Bench, gpu: &pteron::Gpu, target: &Target) -> Result<(Runner, f64), Failure> {
    let tuning = tune::remembered(gpu, &target.program, true).unwrap_or_default();
    Runner::load(gpu, target, check::fast(args.cache()).with_tuning(tuning), true)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn sample() -> FirstToken {
        let run = |seconds: f64, peak| Process {
            seconds,
            load: Load { open_seconds: 0.01, device_seconds: 0.1, load_seconds: 0.2, peak_host_bytes: peak },
        };
        FirstToken::of(vec![run(0.5, Some(1 << 20)), run(0.375, Some(3 << 20)), run(0.75, None)]).unwrap()
    }

    #[test]
    fn the_median_time_and_the_largest_peak_are_reported() {
        let text = "First token in a new process: 500 ms (375 ms … 750 ms); a load takes 3.0 MiB of host memory.\n\n";
        assert_eq!(sample().sentences(), text);
        assert!(FirstToken::of(Vec::new()).is_none());
    }

    #[test]
    fn the_line_of_a_process_reads_back() {
        let json = serde_json::to_value(sample()).unwrap();
        assert_eq!((&json["peak_host_bytes"], &json["runs"][2]["peak_host_bytes"]), (&(3 << 20).into(), &().into()));
        let line = r#"{"open_seconds":0.5,"device_seconds":0.25,"load_seconds":1.0,"peak_host_bytes":null}"#;
        let load: Load = serde_json::from_str(line).unwrap();
        assert_eq!((load.device_seconds, load.peak_host_bytes), (0.25, None));
    }
}
