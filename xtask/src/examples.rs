//! `cargo xtask examples`: builds every example as the tests are built, and runs it.
//!
//! Examples that need a feature are benchmarks; `cargo xtask features` compiles them.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::{built, programs};
use crate::workspace::Workspace;

/// Arguments of the examples that are not run without any.
static ARGUMENTS: &[(&str, &[&str])] = &[("bandwidth", &["--megabytes", "1"]), ("kernels", &["target/kernels", "fixtures"])];

/// Builds and runs every example; reports all failures.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let build = programs();
    let status = Command::new(&build.program).args(&build.args).current_dir(&workspace.root).status();
    if !status.context("cargo could not be started")?.success() {
        bail!("the examples could not be built");
    }
    let names: Vec<&str> = workspace.crates.iter().flat_map(|krate| &krate.examples).map(String::as_str).collect();
    if let Some((gone, _)) = ARGUMENTS.iter().find(|(example, _)| !names.contains(example)) {
        bail!("xtask/src/examples.rs lists {gone}, which is no example");
    }
    let mut failed = Vec::new();
    for name in names {
        let args = ARGUMENTS.iter().find(|(example, _)| *example == name).map_or(&[][..], |(_, args)| args);
        let example = built(workspace, &format!("examples/{name}"), args);
        println!("   $ {}", example.display());
        let program = &example.program;
        let status = Command::new(program).args(args).current_dir(&workspace.root).stdin(Stdio::null()).status();
        if !status.with_context(|| format!("{} could not be started", program.display()))?.success() {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("these failed: {}", failed.join(", "));
    }
    Ok(())
}
