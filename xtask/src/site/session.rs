//! A shell and a Python that run the blocks of a page one after the other.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Longer than any block takes on a slow machine, shorter than one waits for a check.
const LIMIT: Duration = Duration::from_secs(240);
/// Begins the line that ends the output of a block. No block prints it.
const END: &str = "\u{1e}end ";

const PYTHON_DRIVER: &str = include_str!("run_blocks.py");

/// A process that runs blocks and prints the end of each.
pub(super) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    frame: fn(&str) -> String,
}

impl Session {
    /// A shell. Directories and variables last from block to block.
    pub(super) fn shell(command: Command) -> Result<Self> {
        Self::start(command, |block| format!("{{\n{block}\n}} </dev/null 2>&1\nprintf '\\n\\036end %s\\n' \"$?\"\n"))
    }

    /// A Python interpreter. Names last from block to block.
    pub(super) fn python(mut command: Command) -> Result<Self> {
        command.args(["-u", "-X", "utf8", "-c", PYTHON_DRIVER]);
        Self::start(command, |block| format!("{}\n", serde_json::Value::from(block)))
    }

    fn start(mut command: Command, frame: fn(&str) -> String) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("{program} could not be started"))?;
        let stdout = child.stdout.take().context("its output is not a pipe")?;
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let input = child.stdin.take();
        Ok(Self { child, input, output, frame })
    }

    /// Runs a block; whether it succeeded, and what it printed.
    pub(super) fn run(&mut self, block: &str) -> Result<(bool, String)> {
        let input = self.input.as_mut().context("the session has ended")?;
        input.write_all((self.frame)(block).as_bytes())?;
        input.flush()?;
        let mut printed = String::new();
        loop {
            match self.output.recv_timeout(LIMIT) {
                Ok(line) => match line.strip_prefix(END) {
                    Some(status) => {
                        // The newline before the end is not the block's.
                        printed.pop();
                        return Ok((status.trim() == "0", printed));
                    }
                    None => printed += &line,
                },
                Err(RecvTimeoutError::Timeout) => bail!("nothing was printed for {} s, after\n{printed}", LIMIT.as_secs()),
                Err(RecvTimeoutError::Disconnected) => bail!("the process ended, after\n{printed}"),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Both end at the end of their input.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// The command `program` in a folder, with a home that is not the user's.
pub(super) fn isolated(program: &Path, folder: &Path, home: &Path, path: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("PATH", path).env("HOME", home);
    command.env("XDG_CACHE_HOME", home.join("cache")).env("XDG_STATE_HOME", home.join("state"));
    command.env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1").env_remove("PTERON_MODELS").env_remove("HF_HOME");
    command
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_keeps_its_state_and_reports_failures() {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]);
        let mut shell = Session::shell(command).unwrap();
        assert_eq!(shell.run("x=1; printf 'no newline'").unwrap(), (true, "no newline".to_owned()));
        assert_eq!(shell.run("echo $x >&2; cat").unwrap(), (true, "1\n".to_owned()));
        assert_eq!(shell.run("false").unwrap(), (false, String::new()));
        assert_eq!(shell.run("cat <<E\ntwo\nlines\nE").unwrap(), (true, "two\nlines\n".to_owned()));
        assert!(shell.run("exit 3").is_err());
    }
}
