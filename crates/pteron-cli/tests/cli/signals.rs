//! Signals end commands with the right status and leave no files.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Scratch, quiet, root};

/// The timeout; software adapters on busy machines are slow.
const LONGEST: Duration = Duration::from_secs(240);

fn command(args: &[&str]) -> Command {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    command.args(args).current_dir(root());
    command
}

/// The same, with signals as a terminal leaves them, even if these tests were started with `nohup`.
#[cfg(target_os = "linux")]
fn command_with_default_signals(args: &[&str]) -> Command {
    let mut command = quiet(Command::new("env"));
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_pteron")]).args(args).current_dir(root());
    command
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// A process that is killed if the test ends before it does.
struct Process(Child);

impl Process {
    fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Child) -> bool) {
        let start = Instant::now();
        while !is_so(&mut self.0) {
            assert!(start.elapsed() < LONGEST, "{what} does not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the program handles signals itself: then they are blocked in its first thread.
    fn wait_until_installed(&mut self) {
        let file = format!("/proc/{}/status", self.0.id());
        self.wait_until("the signal handlers", |_| {
            let status = std::fs::read_to_string(&file).unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(blocked.trim(), 16).unwrap() & 0b10 != 0
        });
    }

    fn end(mut self) -> ExitStatus {
        let mut status = None;
        self.wait_until("its end", |child| {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_second_ctrl_c_ends_a_command_that_waits_for_input() {
    let mut chat = Process::start(command(&["chat", "--no-history", "-n", "1"]));
    let stderr = BufReader::new(chat.0.stderr.take().unwrap());
    // From here on the first one only asks the command to stop, and it waits for a line that does not come.
    assert!(stderr.lines().map_while(Result::ok).any(|line| line.contains("/help lists the commands")));
    send(chat.0.id(), Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(chat.0.try_wait().unwrap(), None, "the first one ends nothing");
    send(chat.0.id(), Signal::INT);
    assert_eq!(chat.end().code(), Some(130));
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_ctrl_c_ends_a_command_that_cannot_stop_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // The prompt is read from a pipe that stays open.
        let mut run = Process::start(command_with_default_signals(&["run"]));
        run.wait_until_installed();
        send(run.0.id(), signal);
        let status = run.end();
        assert_eq!((status.code(), status.signal()), (Some(128 + signal.as_raw()), None));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn who_was_started_with_nohup_goes_on() {
    let mut nohup = quiet(Command::new("nohup"));
    nohup.args([env!("CARGO_BIN_EXE_pteron"), "run"]).current_dir(root());
    let mut run = Process::start(nohup);
    run.wait_until_installed();
    send(run.0.id(), Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(run.0.try_wait().unwrap(), None);
    send(run.0.id(), Signal::TERM);
    assert_eq!(run.end().code(), Some(143));
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a process has a file of a folder open, with a name or without.
#[cfg(target_os = "linux")]
fn writes_below(child: &Child, folder: &Path) -> bool {
    let Ok(handles) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
    handles.filter_map(|handle| std::fs::read_link(handle.ok()?.path()).ok()).any(|path| path.starts_with(folder))
}

/// A file that has a name before it is finished is removed; one that has none needs no care, not even against what no program can
/// catch.
#[cfg(target_os = "linux")]
#[test]
fn a_conversion_that_is_ended_leaves_nothing() {
    for (signal, named) in [(Signal::TERM, true), (Signal::HUP, true), (Signal::TERM, false), (Signal::KILL, false)] {
        let scratch = Scratch::new("ended");
        let out = scratch.0.join("model.pte").to_string_lossy().into_owned();
        let mut convert = command_with_default_signals(&["convert", "--synthetic", "llama-3.2-1b", "-o", &out]);
        if named {
            convert.env("PTERON_NAMED_FILES", "1");
        }
        let mut convert = Process::start(convert);
        convert.wait_until("a file", |child| writes_below(child, &scratch.0));
        assert_eq!(names(&scratch.0).len(), usize::from(named));
        send(convert.0.id(), signal);
        let status = convert.end();
        let expected = if signal == Signal::KILL { (None, Some(9)) } else { (Some(128 + signal.as_raw()), None) };
        assert_eq!((status.code(), status.signal()), expected);
        assert_eq!(names(&scratch.0), Vec::<String>::new());
    }
}

/// Ctrl-C is a wish here: the conversion ends in order, with a sentence.
#[cfg(target_os = "linux")]
#[test]
fn one_ctrl_c_stops_a_conversion_in_order() {
    let scratch = Scratch::new("stopped-conversion");
    let out = scratch.0.join("model.pte").to_string_lossy().into_owned();
    let mut convert = Process::start(command(&["convert", "--synthetic", "llama-3.2-1b", "-o", &out]));
    convert.wait_until("a file", |child| writes_below(child, &scratch.0));
    send(convert.0.id(), Signal::INT);
    let stderr = BufReader::new(convert.0.stderr.take().unwrap());
    assert_eq!(convert.end().code(), Some(1));
    let text: Vec<String> = stderr.lines().map_while(Result::ok).collect();
    assert!(text.iter().any(|line| line.starts_with("error: ")), "{text:?}");
    assert_eq!(names(&scratch.0), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn a_benchmark_of_synthetic_weights_that_is_ended_leaves_nothing() {
    let scratch = Scratch::new("ended-bench");
    let mut bench = command(&["bench", "--synthetic", "llama-3.2-1b", "--quiet"]);
    bench.env("TMPDIR", &scratch.0);
    let mut bench = Process::start(bench);
    bench.wait_until("a file", |child| writes_below(child, &scratch.0));
    send(bench.0.id(), Signal::TERM);
    assert_eq!(bench.end().code(), Some(143));
    assert_eq!(names(&scratch.0), Vec::<String>::new());
}

/// A file that may not grow further: the system's own limit, which would end a program that does not expect it.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let scratch = Scratch::new("full");
    let out = scratch.file("model.pte", b"old");
    let mut sh = quiet(Command::new("sh"));
    sh.args(["-c", "ulimit -f 64; exec \"$0\" convert --synthetic smollm2-135m -o \"$1\""]);
    sh.args([env!("CARGO_BIN_EXE_pteron"), &out]).current_dir(root());
    let output = sh.stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with(&format!("error: cannot write {out}: ")), "{err}");
    assert_eq!((names(&scratch.0), std::fs::read(&out).unwrap()), (vec!["model.pte".to_owned()], b"old".to_vec()));
}

/// Two processes use one cache folder at once, and some are killed in the midst: the rest work, and the files are whole.
#[cfg(target_os = "linux")]
#[test]
fn processes_share_a_cache_folder() {
    let scratch = Scratch::new("shared-cache");
    let folder = scratch.0.join("pteron").join("pipelines");
    let start = || {
        let mut run = command(&["run", "-n", "1", "--quiet", "One"]);
        Process::start({
            run.env("XDG_CACHE_HOME", &scratch.0);
            run
        })
    };
    for round in 0..3u64 {
        let (mut victim, other) = (start(), start());
        victim.wait_until_installed();
        std::thread::sleep(Duration::from_millis(150 + 200 * round));
        send(victim.0.id(), Signal::KILL);
        assert_eq!(other.end().code(), Some(0), "round {round}");
    }
    assert_eq!(start().end().code(), Some(0));
    if folder.exists() {
        let found = names(&folder);
        assert!(found.iter().all(|name| name.ends_with(".bin")), "{found:?}");
        for name in found {
            assert!(std::fs::read(folder.join(name)).unwrap().starts_with(b"pteron pipelines"));
        }
    }
}

#[test]
fn ctrl_c_ends_a_file_of_prompts_after_the_results_that_are_there() {
    let scratch = Scratch::new("interrupted-prompts");
    let first = "{\"prompt\": \"a\", \"max_tokens\": 1}\n";
    let file = scratch.file("prompts.jsonl", (first.to_owned() + &"{\"prompt\": \"b\"}\n".repeat(20)).as_bytes());
    let mut run = Process::start(command(&["run", "--file", &file, "-t", "0", "--quiet"]));
    let mut stdout = BufReader::new(run.0.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"index\":0,"), "{line}");
    send(run.0.id(), Signal::INT);
    let mut stderr = BufReader::new(run.0.stderr.take().unwrap());
    assert_eq!(run.end().code(), Some(1));
    line.clear();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("interrupted after ") && line.contains(" of 21 prompts"), "{line}");
}
