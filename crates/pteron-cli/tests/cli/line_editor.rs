//! `pteron chat` at a terminal, which `script` of util-linux provides.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Scratch, quiet, root};

/// Software adapters on busy machines take their time.
const LONGEST: Duration = Duration::from_secs(240);

/// Escape sequences that the line editor writes before and after it reads a line.
const READS: &str = "\x1b[?2004h";
const HAS_READ: &str = "\x1b[?2004l";
const CTRL_A: &str = "\x01";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_E: &str = "\x05";
const CTRL_U: &str = "\x15";
const CTRL_W: &str = "\x17";
const BACKSPACE: &str = "\x7f";
const UP: &str = "\x1b[A";
const RIGHT: &str = "\x1b[C";
const LEFT: &str = "\x1b[D";
const ENTER: &str = "\r";
const TAB: &str = "\t";

/// A conversation at a terminal.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
    /// How much of the screen has been looked at.
    seen: usize,
}

impl Terminal {
    /// Starts `pteron chat`; its history is kept below `state`. `None`, with the reason, where no terminal can be made.
    fn chat(args: &str, state: &Path) -> Option<Self> {
        Self::run(&format!("exec \"$PTERON\" chat {args}"), state)
    }

    /// Runs a line of the shell at a terminal.
    fn run(line: &str, state: &Path) -> Option<Self> {
        let version = Command::new("script").arg("--version").stdin(Stdio::null()).output();
        if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("util-linux")) {
            pteron_files::testing::skip("no terminal can be made without `script` of util-linux");
            return None;
        }
        let line = format!("stty rows 24 cols 80; {line}");
        let mut script = quiet(Command::new("script"))
            .args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"])
            .env("PTERON", env!("CARGO_BIN_EXE_pteron"))
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env("XDG_STATE_HOME", state)
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (keys, mut out) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..len]));
            }
        });
        Some(Self { script, keys, screen, seen: 0 })
    }

    fn type_keys(&mut self, keys: &[&str]) {
        self.keys.write_all(keys.concat().as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for a text after everything waited for so far; returns the output before it.
    fn wait_for(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let new = self.screen.lock().unwrap()[self.seen..].to_owned();
            if let Some(at) = new.find(text) {
                self.seen += at + text.len();
                return new[..at].to_owned();
            }
            assert!(start.elapsed() < LONGEST, "{text:?} does not follow {new:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a line can be typed.
    fn wait_for_prompt(&mut self) -> String {
        let before = self.wait_for(READS);
        self.wait_for("> ");
        before
    }

    /// The exit status, when the program has ended.
    fn end(mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < LONGEST, "it does not end: {:?}", self.screen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing running; one that passed has nothing left.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn lines_are_edited_and_recalled_in_the_next_conversation() {
    let scratch = Scratch::new("edited");
    let Some(mut terminal) = Terminal::chat("-n 3", &scratch.0) else { return };
    terminal.wait_for_prompt();
    terminal.type_keys(&["Ownershop is", LEFT, LEFT, LEFT, LEFT, BACKSPACE, "i", ENTER]);
    terminal.wait_for("tok/s");
    terminal.wait_for_prompt();
    // A line that is taken back is neither sent nor kept.
    terminal.type_keys(&["never mind", CTRL_C]);
    terminal.wait_for_prompt();
    terminal.type_keys(&["/his", TAB, ENTER]);
    terminal.wait_for("user: Ownership is\r\n");
    let rest = terminal.wait_for_prompt();
    assert!(rest.contains("assistant: ") && !rest.contains("user: "), "{rest}");
    terminal.type_keys(&["no such line", CTRL_U, "hlp x", CTRL_A, "/", RIGHT, "e", CTRL_E, CTRL_W, ENTER]);
    terminal.wait_for("/save FILE");
    terminal.wait_for_prompt();
    // Two lines typed at once are two lines; what begins with a space is not kept.
    terminal.type_keys(&[" /first", ENTER, " /second", ENTER]);
    terminal.wait_for("there is no command /first");
    terminal.wait_for("there is no command /second");
    terminal.wait_for_prompt();
    terminal.type_keys(&[CTRL_D]);
    assert_eq!(terminal.end(), Some(0));
    let history = scratch.0.join("pteron/chat_history");
    let kept = std::fs::read_to_string(&history).unwrap();
    assert_eq!(kept, "Ownership is\n/history\n/help\n");

    let Some(mut terminal) = Terminal::chat("-n 3", &scratch.0) else { return };
    terminal.wait_for_prompt();
    terminal.type_keys(&[UP, UP, UP, " in Rust", ENTER]);
    terminal.wait_for("tok/s");
    terminal.wait_for_prompt();
    terminal.type_keys(&["/history", ENTER]);
    terminal.wait_for("user: Ownership is in Rust\r\n");
    terminal.wait_for_prompt();
    terminal.type_keys(&["/quit", ENTER]);
    assert_eq!(terminal.end(), Some(0));
    let kept = std::fs::read_to_string(&history).unwrap();
    assert_eq!(kept, "Ownership is\n/history\n/help\nOwnership is in Rust\n/history\n/quit\n");
}

#[test]
fn ctrl_c_stops_an_answer_and_not_the_conversation() {
    let scratch = Scratch::new("stopped");
    let Some(mut terminal) = Terminal::chat("--no-history", &scratch.0) else { return };
    terminal.wait_for_prompt();
    terminal.type_keys(&["Traits are", ENTER]);
    terminal.wait_for(HAS_READ);
    // The reply has begun; unless stopped, it would fill the context.
    terminal.wait_for(" ");
    terminal.type_keys(&[CTRL_C]);
    // Shown by the terminal itself, which it does only while no line is edited.
    terminal.wait_for("^C");
    terminal.wait_for(" · ");
    let tokens = terminal.wait_for(" tokens, ");
    assert!(tokens.parse::<u32>().unwrap() < 500, "{tokens} tokens");
    terminal.wait_for_prompt();
    terminal.type_keys(&["/history", ENTER]);
    terminal.wait_for("user: Traits are\r\n");
    terminal.wait_for("assistant: ");
    terminal.wait_for_prompt();
    terminal.type_keys(&[CTRL_D]);
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0, "with --no-history nothing is kept");
}

/// Signals that come from elsewhere while a line is edited: the second Ctrl-C ends the program, SIGTERM at once, and the terminal is
/// as it was.
#[test]
fn signals_give_the_terminal_back() {
    use rustix::process::Signal;
    for (signals, status) in [(&[Signal::INT, Signal::INT][..], "130"), (&[Signal::TERM], "143")] {
        ended_by(signals, status);
    }
}

fn ended_by(signals: &[rustix::process::Signal], status: &str) {
    let scratch = Scratch::new("given-back");
    let line = "sh -c 'echo pid=$$.; exec \"$PTERON\" chat --no-history'; echo status=$?.; stty -a; echo end.";
    let Some(mut terminal) = Terminal::run(line, &scratch.0) else { return };
    terminal.wait_for("pid=");
    let pid = terminal.wait_for(".").parse().unwrap();
    terminal.wait_for_prompt();
    for &signal in signals {
        crate::signals::send(pid, signal);
        std::thread::sleep(Duration::from_millis(500));
    }
    terminal.wait_for("status=");
    assert_eq!(terminal.wait_for("."), status);
    let settings = terminal.wait_for("end.");
    let has = |setting: &str| settings.split_whitespace().any(|found| found == setting);
    assert!(has("icanon") && has("echo") && has("isig"), "{settings}");
    assert_eq!(terminal.end(), Some(0));
}

/// A home that cannot be written to takes the history away, and nothing else.
#[test]
fn a_history_that_cannot_be_kept_does_not_end_the_conversation() {
    let scratch = Scratch::new("unkept");
    let file = scratch.file("file", b"not a folder");
    let Some(mut terminal) = Terminal::chat("--verbose", Path::new(&file)) else { return };
    terminal.wait_for("lines are not stored: ");
    terminal.wait_for_prompt();
    terminal.type_keys(&["/help", ENTER]);
    terminal.wait_for("/save FILE");
    terminal.wait_for_prompt();
    terminal.type_keys(&[UP, ENTER]);
    terminal.wait_for("/save FILE");
    terminal.wait_for_prompt();
    terminal.type_keys(&[CTRL_D]);
    assert_eq!(terminal.end(), Some(0));
}
