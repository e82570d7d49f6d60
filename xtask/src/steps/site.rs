//! The documentation site: built by `cargo xtask site`.

use std::path::PathBuf;
use std::process::Command;

use super::actions::docs;
use super::invocation::{Invocation, Job, find_tool, stdout_of};
use crate::workspace::Workspace;

/// The program that builds the site from Markdown.
pub(crate) fn find_mdbook(workspace: &Workspace) -> Option<PathBuf> {
    find_tool(workspace, "mdbook", "bin/mdbook")
}

pub(super) fn job(workspace: &Workspace) -> Job {
    if find_mdbook(workspace).is_none() {
        return Job::Skip("mdBook is not installed; ./test installs it".to_owned());
    }
    let missing = ["bash", "curl", "python3"].iter().find(|tool| stdout_of(Command::new(tool).arg("--version")).is_none());
    if let Some(tool) = missing {
        return Job::Skip(format!("{tool} is not installed, which runs code blocks"));
    }
    // A part of the site. The step doc has built it already.
    Job::Run(vec![docs(), Invocation { counts_tests: true, ..Invocation::cargo(&["xtask", "site"]) }])
}
