//! The Python package: its wheel, an environment to install it into, and its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::invocation::{Invocation, Job, find_tool, stdout_of};
use crate::workspace::Workspace;

/// Folders of this step, below the target folder.
const WHEELS: &str = "python-package/wheels";
const ENVIRONMENT: &str = "python-package/venv";
/// What the tests need. Versions that the oldest supported Python has.
const TEST_PACKAGES: [&str; 2] = ["numpy==2.2.6", "pytest==9.2.0"];
/// The profile of the tests, so that dependencies are compiled once for both. A release is built with `--release`.
const PROFILE: &[(&str, &str)] = &[("CARGO_PROFILE_DEV_OPT_LEVEL", "1")];

/// The interpreter of the environment that [`package_job`] makes, if it is there, or else the one of the tools.
pub(crate) fn python_with_package(workspace: &Workspace) -> Option<PathBuf> {
    let name = if cfg!(windows) { "Scripts/python" } else { "bin/python" };
    let environments = [workspace.target.join(ENVIRONMENT), workspace.root.join("target/tools/python")];
    environments.into_iter().map(|folder| folder.join(name)).find(|python| python.exists())
}

/// Builds the wheel, installs it and runs the tests, offline but for `TEST_PACKAGES`.
pub(super) fn package_job(workspace: &Workspace) -> Job {
    let Some(maturin) = find_tool(workspace, "maturin", "python/bin/maturin") else {
        return Job::Skip("maturin is not installed; where Python is, ./test installs it".to_owned());
    };
    let python = workspace.root.join("target/tools/python/bin/python");
    let python = if python.exists() { python } else { "python3".into() };
    if stdout_of(Command::new(&python).args(["-c", "import sys, venv; assert sys.version_info >= (3, 10)"])).is_none() {
        return Job::Skip("there is no Python 3.10 or later with its module venv".to_owned());
    }
    let (wheels, environment) = (workspace.target.join(WHEELS), workspace.target.join(ENVIRONMENT));
    let installed = environment.join(if cfg!(windows) { "Scripts/python" } else { "bin/python" });
    let text = |path: &Path| path.display().to_string();
    let pip = |arguments: &[&str]| {
        let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"].iter().chain(arguments);
        Invocation::new(&installed, arguments.copied())
    };
    let build = ["build", "--quiet", "--profile", "dev", "--compatibility", "linux", "--manifest-path"];
    let build = build.into_iter().map(str::to_owned);
    let build = build.chain(["crates/pteron-python/Cargo.toml".to_owned(), "--out".to_owned(), text(&wheels)]);
    Job::Run(vec![
        Invocation { env: PROFILE, ..Invocation::new(maturin, build) },
        Invocation::new(python, ["-m", "venv", "--clear", &text(&environment)]),
        pip(&["--no-index", "--no-deps", "--find-links", &text(&wheels), "pteron"]),
        Invocation { skip_on_failure: Some("pip could not fetch numpy and pytest"), ..pip(&TEST_PACKAGES) },
        Invocation { counts_tests: true, ..Invocation::new(&installed, ["-m", "pytest", "crates/pteron-python"]) },
    ])
}
