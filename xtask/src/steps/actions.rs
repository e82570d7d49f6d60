//! The commands of each action.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::invocation::{Invocation, Job, built, find_tool, has_target, stdout_of};
use super::{Action, Adapter};
use crate::web;
use crate::workspace::{Crate, Workspace};

impl Action {
    /// Returns the commands of this action in this workspace on this machine.
    pub(crate) fn job(&self, workspace: &Workspace) -> Result<Job> {
        match self {
            Self::Cargo(args) => Ok(Job::Run(vec![Invocation::cargo(args)])),
            Self::Tests(args) => Ok(Job::Run(vec![Invocation { counts_tests: true, ..Invocation::cargo(args) }])),
            Self::Docs => Ok(Job::Run(vec![docs()])),
            Self::Targets(targets) => targets_job(workspace, targets),
            Self::MinimumRust => minimum_rust_job(workspace),
            Self::Deny(checks) => Ok(match find_tool(workspace, "cargo-deny", "bin/cargo-deny") {
                Some(deny) => Job::Run(vec![Invocation::new(deny, [&["check"], *checks].concat())]),
                None => Job::Skip(NO_CARGO_DENY.to_owned()),
            }),
            Self::Advisories => Ok(advisories_job(workspace)),
            Self::Rules => Ok(match not_git(workspace) {
                Some(reason) => Job::Skip(reason.to_owned()),
                None => Job::Rules,
            }),
            Self::Conform(Adapter::Default) => {
                Ok(Job::Run(vec![programs(), built(workspace, "pteron-conform", &["fixtures", "models"])]))
            }
            Self::Conform(Adapter::SwiftShader) => {
                // The option fails where another adapter would be used.
                let run = built(workspace, "pteron-conform", &["--adapter", "swiftshader", "fixtures", "models"]);
                Ok(on_swiftshader(vec![programs(), run]))
            }
            Self::SwiftShader(args) => {
                Ok(on_swiftshader(vec![Invocation { counts_tests: true, ..Invocation::cargo(args) }]))
            }
            Self::Tint => Ok(tint_job(workspace)),
            Self::Web => web_job(workspace),
            Self::Clients => Ok(clients_job(workspace)),
            Self::Ruff => Ok(ruff_job(workspace)),
            Self::Python => Ok(python_job(workspace)),
            Self::PythonPackage => Ok(super::python::package_job(workspace)),
            Self::Site => Ok(super::site::job(workspace)),
            Self::ShellCheck => shellcheck_job(workspace),
        }
    }
}

/// Builds every program and example as the tests are built: for the workspace as a whole, so that dependencies have the same
/// features and are compiled once.
pub(crate) fn programs() -> Invocation {
    Invocation::cargo(&["build", "--quiet", "--workspace", "--profile", "test", "--bins", "--examples"])
}

/// Rustdoc over the workspace, warnings denied.
pub(super) fn docs() -> Invocation {
    Invocation { env: &[("RUSTDOCFLAGS", "-D warnings")], ..Invocation::cargo(&["doc", "--workspace", "--no-deps"]) }
}

/// Compares the programs below some folders with PyTorch's outputs.
pub(crate) fn conform(workspace: &Workspace, args: Vec<std::ffi::OsString>) -> Result<std::process::ExitStatus> {
    let run = |invocation: &Invocation, more: Vec<std::ffi::OsString>| {
        Command::new(&invocation.program).args(&invocation.args).args(more).status().context("cargo could not be started")
    };
    let status = run(&programs(), Vec::new())?;
    if status.success() { run(&built(workspace, "pteron-conform", &[]), args) } else { Ok(status) }
}

/// Debian's chromium package contains SwiftShader as a Vulkan driver.
pub(crate) const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

fn on_swiftshader(invocations: Vec<Invocation>) -> Job {
    if !Path::new(SWIFTSHADER).exists() {
        return Job::Skip("SwiftShader is not installed; where apt is, ./test installs it with chromium".to_owned());
    }
    let env: &[_] = &[("VK_ICD_FILENAMES", SWIFTSHADER), ("PTERON_ADAPTER", "swiftshader")];
    Job::Run(invocations.into_iter().map(|invocation| Invocation { env, ..invocation }).collect())
}

/// Fetches the npm packages of a folder.
fn fetch_packages(folder: &str, or_skipped: &'static str) -> Invocation {
    Invocation { skip_on_failure: Some(or_skipped), ..Invocation::new("npm", web::npm_arguments(folder)) }
}

fn tint_job(workspace: &Workspace) -> Job {
    if let Some(reason) = web::without_node() {
        return Job::Skip(reason);
    }
    let written = "target/kernels";
    let write = built(workspace, "examples/kernels", &[written, "fixtures"]);
    let fetch = fetch_packages("web/tint", "npm could not fetch Dawn");
    // Dawn's null backend compiles and checks without a driver.
    Job::Run(vec![fetch, programs(), write, Invocation::new("node", ["web/tint/check.mjs", written])])
}

fn web_job(workspace: &Workspace) -> Result<Job> {
    if let Some(reason) = web::without_node().or_else(web::old_node) {
        return Ok(Job::Skip(reason));
    }
    if !has_target(web::TARGET) {
        return Ok(Job::Skip(no_target(web::TARGET)));
    }
    let Some(browser) = web::find_chromium() else {
        return Ok(Job::Skip("Chromium is not installed; where apt is, ./test installs it".to_owned()));
    };
    let node = |args: Vec<String>| Invocation { counts_tests: true, ..Invocation::new("node", args) };
    let browser_tests = web::browser_tests(&built(workspace, "pteron", &[]).program, &browser);
    // The tests compare with the command on SwiftShader, which is what a browser without a GPU computes with.
    Ok(on_swiftshader(vec![
        fetch_packages("web", "npm could not fetch the page's build tools"),
        // In a new process: an earlier step may have replaced this program's file.
        Invocation::cargo(&["xtask", "web"]),
        Invocation::new("npm", ["run", "--silent", "--prefix", "web", "types"]),
        node(web::unit_tests(&workspace.root)?),
        programs(),
        node(browser_tests),
    ]))
}

const NO_CARGO_DENY: &str = "cargo-deny is not installed; ./test installs it";

fn advisories_job(workspace: &Workspace) -> Job {
    let Some(deny) = find_tool(workspace, "cargo-deny", "bin/cargo-deny") else {
        return Job::Skip(NO_CARGO_DENY.to_owned());
    };
    Job::Run(vec![
        Invocation {
            skip_on_failure: Some("the advisory database could not be fetched"),
            ..Invocation::new(&deny, ["fetch", "db"])
        },
        Invocation::new(&deny, ["check", "--disable-fetch", "advisories"]),
    ])
}

/// Why the tracked files cannot be listed here, if so.
fn not_git(workspace: &Workspace) -> Option<&'static str> {
    if !workspace.root.join(".git").exists() {
        return Some("this is not a git checkout");
    }
    stdout_of(Command::new("git").arg("--version")).is_none().then_some("git is not installed")
}

fn no_target(target: &str) -> String {
    format!("Rust's standard library for {target} is not installed; ./test installs it")
}

/// One command for all targets: the crates of one are compiled while the last ones of another are.
fn targets_job(workspace: &Workspace, targets: &[&str]) -> Result<Job> {
    let (installed, missing): (Vec<&str>, Vec<&str>) = targets.iter().partition(|target| has_target(target));
    if installed.is_empty() {
        return Ok(Job::Skip(format!(
            "Rust's standard library is not installed for {}; ./test installs it",
            missing.join(", ")
        )));
    }
    let (checked, unchecked): (Vec<&Crate>, Vec<&Crate>) =
        workspace.libraries().partition(|krate| krate.only_here.is_none());
    let (with_c, plain): (Vec<&Crate>, Vec<&Crate>) = checked.into_iter().partition(|krate| krate.needs_c.is_some());
    if plain.is_empty() {
        bail!("there is no library crate");
    }
    let clippy = |libraries: &[&Crate], options: &[&'static str]| {
        let targets = installed.iter().flat_map(|target| ["--target".to_owned(), (*target).to_owned()]);
        let packages = libraries.iter().flat_map(|krate| ["--package".to_owned(), krate.name.clone()]);
        let options = options.iter().chain(&["--", "-D", "warnings"]).map(|option| (*option).to_owned());
        Invocation::new("cargo", ["clippy".to_owned()].into_iter().chain(targets).chain(packages).chain(options))
    };
    let missing = missing.iter().map(|target| ((*target).to_owned(), no_target(target)));
    let reduced =
        with_c.iter().filter_map(|krate| Some((format!("{}'s default features", krate.name), krate.needs_c.clone()?)));
    let unchecked = unchecked.iter().filter_map(|krate| Some((krate.name.clone(), krate.only_here.clone()?)));
    let left_out = missing.chain(reduced).chain(unchecked).collect();
    let mut runs = vec![Invocation { left_out, ..clippy(&plain, &[]) }];
    if !with_c.is_empty() {
        runs.push(clippy(&with_c, &["--no-default-features"]));
    }
    Ok(Job::Run(runs))
}

fn minimum_rust_job(workspace: &Workspace) -> Result<Job> {
    let toolchain = workspace.minimum_toolchain()?;
    // `rustup run` and not `cargo +toolchain`: the latter only works where `cargo` is rustup's.
    let installed = stdout_of(Command::new("rustup").args(["run", &toolchain, "cargo", "--version"])).is_some();
    if !installed {
        return Ok(Job::Skip(format!("Rust {toolchain} is not installed; ./test installs it")));
    }
    let packages = workspace.crates.iter().flat_map(|krate| ["--package", &krate.name]);
    let args = ["run", &toolchain, "cargo", "check"].into_iter().chain(packages);
    Ok(Job::Run(vec![Invocation::new("rustup", args)]))
}

/// Clients of the server that its step installs: packages of Python, and of npm.
const PYTHON_CLIENTS: [&str; 5] = [
    "anthropic==2.10.0",
    "kubernetes-validate==1.37.0",
    "langchain-openai==1.7.3",
    "openai==3.51.0",
    "schemathesis==4.32.5",
];
const NPM_CLIENT: &str = "openai@6.49.0";

fn clients_job(workspace: &Workspace) -> Job {
    if stdout_of(Command::new("python3").args(["-c", "import venv"])).is_none() {
        return Job::Skip("Python 3 with venv is not installed".to_owned());
    }
    let folder = workspace.target.join("clients");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let (environment, node) = (folder.join("python"), folder.join("node"));
    let python = environment.join("bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let fetched = |or_skipped| move |run| Invocation { skip_on_failure: Some(or_skipped), ..run };
    let no_pip = fetched("pip could not fetch the clients of OpenAI, Anthropic and LangChain, and schemathesis");
    let mut runs = vec![
        no_pip(Invocation::new("python3", ["-m".to_owned(), "venv".to_owned(), text(environment)])),
        no_pip(Invocation::new(&python, pip.iter().chain(&PYTHON_CLIENTS).copied())),
    ];
    let script = |name: &str| format!("crates/pteron-server/tests/clients/{name}");
    let pteron = text(built(workspace, "pteron", &[]).program);
    let described = [script("description.py"), pteron.clone()];
    let manifests = ["deploy/kubernetes/tests/manifests.py".to_owned(), pteron.clone()];
    let mut args = vec![script("clients.py"), pteron];
    if web::without_node().is_none() {
        let options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", NPM_CLIENT].map(str::to_owned);
        let install = ["install".to_owned(), "--prefix".to_owned(), text(node.clone())].into_iter().chain(options);
        runs.push(fetched("npm could not fetch the client of OpenAI")(Invocation::new("npm", install)));
        args.push(text(node.join("node_modules")));
    }
    let checks = [args, described.into(), manifests.into()];
    runs.push(programs());
    runs.extend(checks.into_iter().map(|args| Invocation::new(&python, args)));
    Job::Run(runs)
}

/// Folders with Python code.
const PYTHON: [&str; 7] =
    ["crates/pteron-python", "crates/pteron-server", "deploy", "examples", "export", "models", "xtask"];

fn ruff_job(workspace: &Workspace) -> Job {
    let Some(ruff) = find_tool(workspace, "ruff", "python/bin/ruff") else {
        return Job::Skip("ruff is not installed; where Python is, ./test installs it".to_owned());
    };
    let run = |args: &[&str]| Invocation::new(&ruff, args.iter().chain(&PYTHON).copied());
    Job::Run(vec![run(&["check"]), run(&["format", "--check"])])
}

fn python_job(workspace: &Workspace) -> Job {
    let installed = workspace.root.join("export/.venv/bin/python");
    let python = std::env::var_os("PTERON_EXPORT_PYTHON").map_or(installed, PathBuf::from);
    if stdout_of(Command::new(&python).args(["-c", "import executorch"])).is_none() {
        return Job::Skip("ExecuTorch is not installed (some GB); `export/make --test` installs it".to_owned());
    }
    Job::Run(vec![Invocation::new("export/make", ["--test"])])
}

fn shellcheck_job(workspace: &Workspace) -> Result<Job> {
    if let Some(reason) = not_git(workspace) {
        return Ok(Job::Skip(reason.to_owned()));
    }
    let Some(shellcheck) = find_tool(workspace, "shellcheck", "python/bin/shellcheck") else {
        return Ok(Job::Skip("shellcheck is not installed; where apt or Python is, ./test installs it".to_owned()));
    };
    let scripts = crate::rules::shell_scripts(&workspace.root)?;
    if scripts.is_empty() {
        bail!("there is no shell script");
    }
    let options = ["--external-sources", "--source-path=SCRIPTDIR"].map(str::to_owned);
    Ok(Job::Run(vec![Invocation::new(shellcheck, options.into_iter().chain(scripts))]))
}
