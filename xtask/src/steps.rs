//! The one table of checks. A new check is a new row.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::web;
use crate::workspace::Workspace;

/// One row: what is checked, why, and how.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    pub(crate) action: Action,
}

/// How a step is carried out. What depends on the workspace or the machine is decided in [`Action::plan`].
pub(crate) enum Action {
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    /// `cargo test` with these arguments, its tests counted.
    Tests(&'static [&'static str]),
    /// Rustdoc over the workspace, warnings denied.
    Docs,
    /// Clippy, which is `cargo check` and more, over every library crate for another target.
    Target(&'static str),
    /// `cargo check` of everything below `crates/` with the oldest supported Rust.
    MinimumRust,
    /// `cargo deny check` with these arguments.
    Deny(&'static [&'static str]),
    /// The same, after its database has been fetched.
    Advisories,
    /// The structural rules in [`crate::rules`].
    Rules,
    /// Every fixture against PyTorch's answers.
    Conform(Adapter),
    /// The tests of a crate that computes, on SwiftShader.
    SwiftShader(&'static [&'static str]),
    /// Every kernel through Tint, the compiler of Chromium.
    Tint,
    /// The wasm, the npm package and the page, in a real browser.
    Web,
}

/// What computes.
#[derive(Clone, Copy)]
pub(crate) enum Adapter {
    /// The best there is; on machines without a GPU that is Mesa's lavapipe.
    Best,
    /// SwiftShader as a Vulkan driver: other subgroups than lavapipe's, and no 16-bit floats.
    SwiftShader,
}

pub(crate) static STEPS: &[Step] = &[
    Step { name: "fmt", why: "rustfmt has nothing to change", action: Action::Cargo(&["fmt", "--all", "--check"]) },
    Step { name: "rules", why: "the project's own rules about its files hold", action: Action::Rules },
    Step {
        name: "clippy",
        why: "no warning in any target",
        action: Action::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    Step {
        name: "test",
        why: "unit, integration and documentation tests pass",
        action: Action::Tests(&["test", "--workspace", "--no-fail-fast"]),
    },
    Step { name: "conform", why: "exported programs give PyTorch's answers", action: Action::Conform(Adapter::Best) },
    Step {
        name: "conform-swift",
        why: "the same on a second driver, SwiftShader",
        action: Action::Conform(Adapter::SwiftShader),
    },
    Step {
        name: "ops-swift",
        why: "operators agree with their references on SwiftShader, too",
        // Not all that computes: sixty-five thousand workgroups with barriers take SwiftShader minutes.
        action: Action::SwiftShader(&["test", "--workspace", "--lib", "--", "ops::", "tests::resize"]),
    },
    Step { name: "tint", why: "the compiler of browsers accepts every kernel", action: Action::Tint },
    Step { name: "web", why: "the page and the npm package work in Chromium", action: Action::Web },
    Step { name: "doc", why: "the documentation builds without a warning", action: Action::Docs },
    Step { name: "wasm", why: "the libraries build for browsers", action: Action::Target("wasm32-unknown-unknown") },
    Step { name: "windows", why: "the libraries build for Windows", action: Action::Target("x86_64-pc-windows-msvc") },
    Step { name: "macos", why: "the libraries build for Apple silicon", action: Action::Target("aarch64-apple-darwin") },
    Step { name: "minimum-rust", why: "the promised rust-version is true", action: Action::MinimumRust },
    Step {
        name: "deny",
        why: "licences, sources and duplicate versions are as deny.toml says",
        action: Action::Deny(&["bans", "licenses", "sources"]),
    },
    Step { name: "advisories", why: "no dependency has a known vulnerability", action: Action::Advisories },
    Step {
        name: "fuzz",
        why: "the fuzz targets survive their corpus and a short run",
        action: Action::Cargo(&["run", "--profile", "smoke", "--manifest-path", "fuzz/Cargo.toml", "--bin", "smoke"]),
    },
];

/// The rows with these names, in the table's order; all of them when none is named.
pub(crate) fn select(only: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step {unknown:?}; the steps are: {}", names.join(", "));
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect())
}

/// Name, reason and command of each step.
pub(crate) fn list(steps: &[&Step], workspace: &Workspace) -> String {
    let mut text = String::new();
    for step in steps {
        text += &format!("{:<13} {}\n", step.name, step.why);
        let how = match step.action.plan(workspace) {
            Ok(Plan::Run(invocations)) => invocations.iter().map(|run| format!("$ {}", run.display())).collect(),
            Ok(Plan::Rules) => vec!["(in xtask itself)".to_owned()],
            Ok(Plan::Skip(reason)) => vec![format!("skipped here: {reason}")],
            Err(error) => vec![format!("would fail: {error:#}")],
        };
        for line in how {
            text += &format!("{:<13}   {line}\n", "");
        }
    }
    text
}

/// What a step does on this machine.
pub(crate) enum Plan {
    /// These commands one after the other; the first that fails fails the step.
    Run(Vec<Invocation>),
    Rules,
    /// Not here, for a reason that a person can act on.
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
}

impl Invocation {
    fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: &[],
            counts_tests: false,
            skip_on_failure: None,
        }
    }

    fn cargo(args: &[&str]) -> Self {
        Self::new("cargo", args.iter().copied())
    }

    /// The command as one would type it.
    pub(crate) fn display(&self) -> String {
        let program = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let env = self.env.iter().map(|(key, value)| format!("{key}={value:?}"));
        env.chain([program]).chain(self.args.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

impl Action {
    pub(crate) fn plan(&self, workspace: &Workspace) -> Result<Plan> {
        match self {
            Self::Cargo(args) => Ok(Plan::Run(vec![Invocation::cargo(args)])),
            Self::Tests(args) => Ok(Plan::Run(vec![Invocation { counts_tests: true, ..Invocation::cargo(args) }])),
            Self::Docs => Ok(Plan::Run(vec![Invocation {
                env: &[("RUSTDOCFLAGS", "-D warnings")],
                ..Invocation::cargo(&["doc", "--workspace", "--no-deps"])
            }])),
            Self::Target(target) => plan_target(workspace, target),
            Self::MinimumRust => plan_minimum_rust(workspace),
            Self::Deny(checks) => Ok(match find_cargo_deny(workspace) {
                Some(deny) => Plan::Run(vec![Invocation::new(deny, [&["check"], *checks].concat())]),
                None => Plan::Skip(NO_CARGO_DENY.to_owned()),
            }),
            Self::Advisories => Ok(match find_cargo_deny(workspace) {
                Some(deny) => Plan::Run(vec![
                    Invocation {
                        skip_on_failure: Some("the advisory database could not be fetched"),
                        ..Invocation::new(&deny, ["fetch", "db"])
                    },
                    Invocation::new(&deny, ["check", "--disable-fetch", "advisories"]),
                ]),
                None => Plan::Skip(NO_CARGO_DENY.to_owned()),
            }),
            Self::Rules => Ok(plan_rules(workspace)),
            Self::Conform(Adapter::Best) => {
                Ok(Plan::Run(vec![programs(), built(workspace, "pteron-conform", &["fixtures"])]))
            }
            Self::Conform(Adapter::SwiftShader) => {
                // Naming the adapter makes sure that it is this one.
                let run = built(workspace, "pteron-conform", &["--adapter", "swiftshader", "fixtures"]);
                Ok(on_swiftshader(vec![programs(), run]))
            }
            Self::SwiftShader(args) => {
                Ok(on_swiftshader(vec![Invocation { counts_tests: true, ..Invocation::cargo(args) }]))
            }
            Self::Tint => Ok(plan_tint(workspace)),
            Self::Web => plan_web(workspace),
        }
    }
}

/// Builds every program and example as the tests are built: for the workspace as a whole, so that dependencies have the same
/// features and are compiled once.
fn programs() -> Invocation {
    Invocation::cargo(&["build", "--quiet", "--workspace", "--profile", "test", "--bins", "--examples"])
}

/// A program that [`programs`] has built.
fn built(workspace: &Workspace, program: &str, args: &[&str]) -> Invocation {
    let path = workspace.target.join("debug").join(program).with_extension(std::env::consts::EXE_EXTENSION);
    Invocation::new(path, args.iter().copied())
}

/// Compares the programs below some folders with PyTorch's answers.
pub(crate) fn conform(workspace: &Workspace, args: Vec<std::ffi::OsString>) -> Result<std::process::ExitStatus> {
    let run = |invocation: &Invocation, more: Vec<std::ffi::OsString>| {
        Command::new(&invocation.program).args(&invocation.args).args(more).status().context("cargo could not be started")
    };
    let status = run(&programs(), Vec::new())?;
    if status.success() { run(&built(workspace, "pteron-conform", &[]), args) } else { Ok(status) }
}

/// Debian's chromium brings SwiftShader as a Vulkan driver.
const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

fn on_swiftshader(invocations: Vec<Invocation>) -> Plan {
    if !Path::new(SWIFTSHADER).exists() {
        return Plan::Skip("SwiftShader is not installed; where apt is, ./test installs it with chromium".to_owned());
    }
    let env: &[_] = &[("VK_ICD_FILENAMES", SWIFTSHADER), ("PTERON_ADAPTER", "swiftshader")];
    Plan::Run(invocations.into_iter().map(|invocation| Invocation { env, ..invocation }).collect())
}

/// Fetches the npm packages of a folder.
fn fetch_packages(folder: &str, or_skipped: &'static str) -> Invocation {
    Invocation { skip_on_failure: Some(or_skipped), ..Invocation::new("npm", web::npm_arguments(folder)) }
}

fn plan_tint(workspace: &Workspace) -> Plan {
    if let Some(reason) = web::without_node() {
        return Plan::Skip(reason);
    }
    let written = "target/kernels";
    let write = built(workspace, "examples/kernels", &[written, "fixtures"]);
    let fetch = fetch_packages("web/tint", "npm could not fetch Dawn");
    // Dawn needs no driver to compile and check: it has a backend that computes nothing.
    Plan::Run(vec![fetch, programs(), write, Invocation::new("node", ["web/tint/check.mjs", written])])
}

fn plan_web(workspace: &Workspace) -> Result<Plan> {
    if let Some(reason) = web::without_node().or_else(web::old_node) {
        return Ok(Plan::Skip(reason));
    }
    if !has_target(web::TARGET) {
        return Ok(no_target(web::TARGET));
    }
    let Some(browser) = web::find_chromium() else {
        return Ok(Plan::Skip("Chromium is not installed; where apt is, ./test installs it".to_owned()));
    };
    let node = |args: Vec<String>| Invocation { counts_tests: true, ..Invocation::new("node", args) };
    let browser_tests = web::browser_tests(&built(workspace, "pteron", &[]).program, &browser);
    // They compare with the command on SwiftShader, which is what a browser without a GPU computes with.
    Ok(on_swiftshader(vec![
        fetch_packages("web", "npm could not fetch what builds and drives the page"),
        // Not this program itself: an earlier step may have built it anew, and its file is gone then.
        Invocation::cargo(&["xtask", "web"]),
        Invocation::new("npm", ["run", "--silent", "--prefix", "web", "types"]),
        node(web::unit_tests(&workspace.root)?),
        programs(),
        node(browser_tests),
    ]))
}

const NO_CARGO_DENY: &str = "cargo-deny is not installed; ./test installs it";

/// The rules are about files that git tracks.
fn plan_rules(workspace: &Workspace) -> Plan {
    if !workspace.root.join(".git").exists() {
        return Plan::Skip("this is not a git checkout".to_owned());
    }
    match stdout_of(Command::new("git").arg("--version")) {
        Some(_) => Plan::Rules,
        None => Plan::Skip("git is not installed".to_owned()),
    }
}

fn no_target(target: &str) -> Plan {
    Plan::Skip(format!("Rust's standard library for {target} is not installed; ./test installs it"))
}

fn plan_target(workspace: &Workspace, target: &str) -> Result<Plan> {
    if !has_target(target) {
        return Ok(no_target(target));
    }
    let libraries = workspace.libraries();
    if libraries.is_empty() {
        bail!("there is no library crate below crates/");
    }
    let packages = libraries.iter().flat_map(|name| ["--package", name]);
    let args = ["clippy", "--target", target].into_iter().chain(packages).chain(["--", "-D", "warnings"]);
    Ok(Plan::Run(vec![Invocation::new("cargo", args)]))
}

fn plan_minimum_rust(workspace: &Workspace) -> Result<Plan> {
    let toolchain = workspace.minimum_toolchain()?;
    // `rustup run` and not `cargo +toolchain`: the latter only works where `cargo` is rustup's.
    let installed = stdout_of(Command::new("rustup").args(["run", &toolchain, "cargo", "--version"])).is_some();
    if !installed {
        return Ok(Plan::Skip(format!("Rust {toolchain} is not installed; ./test installs it")));
    }
    let packages = workspace.crates.iter().flat_map(|krate| ["--package", &krate.name]);
    let args = ["run", &toolchain, "cargo", "check"].into_iter().chain(packages);
    Ok(Plan::Run(vec![Invocation::new("rustup", args)]))
}

/// Whether the toolchain in use has the target's standard library.
pub(crate) fn has_target(target: &str) -> bool {
    stdout_of(Command::new("rustc").args(["--print", "target-libdir", "--target", target])).is_some_and(|dir| {
        let entries = std::fs::read_dir(dir.trim());
        entries.is_ok_and(|mut entries| entries.next().is_some())
    })
}

/// `cargo-deny` on PATH, or the one that `./test` has built.
fn find_cargo_deny(workspace: &Workspace) -> Option<PathBuf> {
    let built = workspace.root.join("target/tools/bin/cargo-deny");
    [PathBuf::from("cargo-deny"), built]
        .into_iter()
        .find(|program| stdout_of(Command::new(program).arg("--version")).is_some())
}

/// What a command prints, if it can be started and succeeds.
pub(crate) fn stdout_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_step_has_its_own_name_and_a_reason() {
        let names: HashSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
        assert!(STEPS.iter().all(|step| !step.why.is_empty()));
    }

    #[test]
    fn steps_are_selected_in_the_tables_order() {
        let chosen = select(&["test".to_owned(), "fmt".to_owned()]).unwrap();
        assert_eq!(chosen.iter().map(|step| step.name).collect::<Vec<_>>(), ["fmt", "test"]);
        assert_eq!(select(&[]).unwrap().len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_is_named_together_with_the_known_ones() {
        let error = select(&["fnt".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"fnt\"") && error.contains("fmt, "), "{error}");
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let workspace = Workspace { root: PathBuf::new(), target: PathBuf::new(), crates: Vec::new() };
        let Ok(Plan::Run(commands)) = Action::Docs.plan(&workspace) else { panic!("docs always run") };
        assert_eq!(commands[0].display(), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps");
    }
}
