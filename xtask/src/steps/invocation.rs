//! Commands of a step, and questions about the machine they run on.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::workspace::Workspace;

/// The work of a step on this machine.
pub(crate) enum Job {
    /// Runs these commands one after the other; the first that fails fails the step.
    Run(Vec<Invocation>),
    /// Checks the rules in [`crate::rules`].
    Rules,
    /// Does nothing, for a reason that a person can act on.
    Skip(String),
}

/// A command in the workspace's root.
pub(crate) struct Invocation {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) counts_tests: bool,
    /// If this command fails, the step is skipped for this reason instead of failing.
    pub(crate) skip_on_failure: Option<&'static str>,
    /// Parts of the check that this command leaves out here, each with its reason.
    pub(crate) left_out: Vec<(String, String)>,
}

impl Invocation {
    pub(crate) fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: &[],
            counts_tests: false,
            skip_on_failure: None,
            left_out: Vec::new(),
        }
    }

    pub(super) fn cargo(args: &[&str]) -> Self {
        Self::new("cargo", args.iter().copied())
    }

    /// Returns the command as one would type it.
    pub(crate) fn display(&self) -> String {
        let program = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let env = self.env.iter().map(|(key, value)| format!("{key}={value:?}"));
        env.chain([program]).chain(self.args.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the command for a program that [`super::programs`] has built.
pub(crate) fn built(workspace: &Workspace, program: &str, args: &[&str]) -> Invocation {
    let path = workspace.target.join("debug").join(program).with_extension(std::env::consts::EXE_EXTENSION);
    Invocation::new(path, args.iter().copied())
}

/// Whether the toolchain in use has the target's standard library.
pub(crate) fn has_target(target: &str) -> bool {
    stdout_of(Command::new("rustc").args(["--print", "target-libdir", "--target", target])).is_some_and(|dir| {
        let entries = std::fs::read_dir(dir.trim());
        entries.is_ok_and(|mut entries| entries.next().is_some())
    })
}

/// Returns the first of these programs that answers to `--version`: one on PATH, or one that `./test` installed below `target/tools`.
pub(super) fn find_tool(workspace: &Workspace, name: &str, installed: &str) -> Option<PathBuf> {
    [PathBuf::from(name), workspace.root.join("target/tools").join(installed)]
        .into_iter()
        .find(|program| stdout_of(Command::new(program).arg("--version")).is_some())
}

/// Returns a command's standard output, if it can be started and succeeds.
pub(crate) fn stdout_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_command_starts_with_its_environment() {
        let env = &[("RUSTDOCFLAGS", "-D warnings")];
        let run = Invocation { env, ..Invocation::cargo(&["doc", "--workspace"]) };
        assert_eq!(run.display(), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace");
    }
}
