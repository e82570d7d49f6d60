//! `cargo xtask examples`: builds every example as the tests are built, and runs it.
//!
//! Examples that need a feature are benchmarks; `cargo xtask features` compiles them.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::{built, programs};
use crate::workspace::Workspace;

/// Arguments of the examples that are not run without any.
static ARGUMENTS: &[(&str, &[&str])] = &[("bandwidth", &["--megabytes", "1"]), ("kernels", &["target/kernels", "fixtures"])];

/// Standard input of the examples that read it. They must reply.
static INPUT: &[(&str, &str)] = &[("chat_in_ten_lines", "A thread is\nA lifetime is\n")];

/// Builds and runs every example; reports all failures.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let build = programs();
    let status = Command::new(&build.program).args(&build.args).current_dir(&workspace.root).status();
    if !status.context("cargo could not be started")?.success() {
        bail!("the examples could not be built");
    }
    let names: Vec<&str> = workspace.crates.iter().flat_map(|krate| &krate.examples).map(String::as_str).collect();
    let mut listed = ARGUMENTS.iter().map(|(example, _)| example).chain(INPUT.iter().map(|(example, _)| example));
    if let Some(gone) = listed.find(|example| !names.contains(*example)) {
        bail!("xtask/src/examples.rs lists {gone}, which is no example");
    }
    let mut failed = Vec::new();
    for name in names {
        let args = ARGUMENTS.iter().find(|(example, _)| *example == name).map_or(&[][..], |(_, args)| args);
        let example = built(workspace, &format!("examples/{name}"), args);
        println!("   $ {}", example.display());
        let mut command = Command::new(&example.program);
        command.args(args).current_dir(&workspace.root);
        let input = INPUT.iter().find(|(example, _)| *example == name).map(|(_, input)| *input);
        let mut run = || match input {
            None => Ok(command.stdin(Stdio::null()).status()?.success()),
            Some(input) => replies(&mut command, input),
        };
        if !run().with_context(|| format!("{} could not be run", example.program.display()))? {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("these failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs a program on an input. Whether it succeeds and prints at least a line per line of it.
fn replies(command: &mut Command, input: &str) -> Result<bool> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("it has no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    Ok(output.status.success() && lines >= input.lines().count())
}
