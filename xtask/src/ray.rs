//! `cargo xtask ray`: the tests of the Ray Serve application, with a local cluster and the bundled model. Some minutes, so no step of
//! `cargo xtask test`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{Invocation, built, programs};
use crate::workspace::Workspace;

/// What the application and its tests need.
const PACKAGES: [&str; 4] = ["aiohttp==3.14.5", "pytest==9.2.0", "ray[serve]==2.60.0", "requests==2.34.2"];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let environment = workspace.target.join("ray");
    let python = environment.join("bin/python");
    let text = |path: &Path| path.display().to_string();
    let pteron = built(workspace, "pteron", &[]).program;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"].iter().chain(&PACKAGES);
    let tests = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-W", "ignore", "deploy/ray/tests", "--pteron"];
    let runs = [
        programs(),
        Invocation::new("python3", ["-m", "venv", &text(&environment)]),
        Invocation::new(&python, install.copied()),
        Invocation::new(&python, tests.into_iter().map(str::to_owned).chain([text(&pteron)])),
    ];
    for run in runs {
        println!("   $ {}", run.display());
        let status = Command::new(&run.program).args(&run.args).current_dir(&workspace.root).status();
        let status = status.with_context(|| format!("{} could not be started", run.program.display()))?;
        if !status.success() {
            bail!("{} failed", run.display());
        }
    }
    Ok(())
}
