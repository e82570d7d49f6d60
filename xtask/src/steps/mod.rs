//! The one table of checks. A new check is a new row.

mod actions;
mod invocation;
mod python;
mod site;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

pub(crate) use actions::{SWIFTSHADER, conform, programs};
pub(crate) use invocation::{Invocation, Job, built, has_target, stdout_of};
pub(crate) use python::python_with_package;
pub(crate) use site::find_mdbook;

/// One row: name, reason and action of a check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    pub(crate) action: Action,
}

/// How a step is carried out. [`Action::job`] turns it into commands for this workspace and machine.
pub(crate) enum Action {
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    /// `cargo test` with these arguments; its tests are counted.
    Tests(&'static [&'static str]),
    /// Rustdoc over the workspace, warnings denied.
    Docs,
    /// Clippy, which includes `cargo check`, over every library crate for other targets.
    Targets(&'static [&'static str]),
    /// `cargo check` of every crate that is not a tool with the oldest supported Rust.
    MinimumRust,
    /// `cargo deny check` with these arguments.
    Deny(&'static [&'static str]),
    /// The same, after its database has been fetched.
    Advisories,
    /// The structural rules in [`crate::rules`].
    Rules,
    /// Every fixture against PyTorch's outputs.
    Conform(Adapter),
    /// `cargo test` with these arguments on SwiftShader.
    SwiftShader(&'static [&'static str]),
    /// Every kernel through Tint, Chromium's WGSL compiler.
    Tint,
    /// The wasm, the npm package and the page, in a real browser.
    Web,
    /// The server with other people's clients, its description, and the manifests that deploy it.
    Clients,
    /// Linter and formatter for the Python of the crates, `deploy/`, `export/` and `models/`.
    Ruff,
    /// The tests of `export/`, where its Python environment is installed.
    Python,
    /// The wheel of the Python package, installed into an environment of its own, and its tests.
    PythonPackage,
    /// The documentation site, its links, and the code blocks of its pages.
    Site,
    /// Every shell script.
    ShellCheck,
}

/// The adapter that a step computes on.
#[derive(Clone, Copy)]
pub(crate) enum Adapter {
    /// The default; on machines without a GPU that is Mesa's lavapipe.
    Default,
    /// SwiftShader as a Vulkan driver: other subgroup sizes than lavapipe, no 16-bit floats.
    SwiftShader,
}

pub(crate) static STEPS: &[Step] = &[
    Step { name: "fmt", why: "rustfmt has nothing to change", action: Action::Cargo(&["fmt", "--all", "--check"]) },
    Step { name: "rules", why: "the project's rules about its own files hold", action: Action::Rules },
    Step { name: "shellcheck", why: "shellcheck has no finding in any script", action: Action::ShellCheck },
    Step { name: "ruff", why: "ruff has no finding in the Python code, and nothing to format", action: Action::Ruff },
    Step {
        name: "clippy",
        why: "no warning in any target",
        action: Action::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    Step {
        name: "package",
        why: "every package is complete, small enough for crates.io and compiles by itself",
        action: Action::Cargo(&["xtask", "package"]),
    },
    Step { name: "doc", why: "the documentation builds without a warning", action: Action::Docs },
    Step {
        name: "features",
        why: "every crate compiles with no, each single and all features that its code mentions",
        action: Action::Cargo(&["xtask", "features"]),
    },
    Step {
        name: "targets",
        why: "the libraries compile for browsers, Windows and Apple silicon",
        action: Action::Targets(&["wasm32-unknown-unknown", "x86_64-pc-windows-msvc", "aarch64-apple-darwin"]),
    },
    Step { name: "minimum-rust", why: "every crate compiles with the promised rust-version", action: Action::MinimumRust },
    Step {
        name: "test",
        why: "unit, integration and documentation tests pass",
        action: Action::Tests(&["test", "--workspace", "--no-fail-fast"]),
    },
    Step {
        name: "examples",
        why: "every example runs with the bundled model",
        action: Action::Cargo(&["xtask", "examples"]),
    },
    Step { name: "conform", why: "exported programs give PyTorch's outputs", action: Action::Conform(Adapter::Default) },
    Step {
        name: "conform-swift",
        why: "the same on a second driver, SwiftShader",
        action: Action::Conform(Adapter::SwiftShader),
    },
    Step {
        name: "ops-swift",
        why: "operators agree with their references on SwiftShader, too",
        // Not every GPU test: 65,000 workgroups with barriers take SwiftShader minutes.
        action: Action::SwiftShader(&["test", "--workspace", "--lib", "--", "ops::", "tests::resize"]),
    },
    Step { name: "tint", why: "Chromium's WGSL compiler accepts every kernel", action: Action::Tint },
    Step { name: "web", why: "the page and the npm package work in Chromium", action: Action::Web },
    Step {
        name: "clients",
        why: "other people's clients work with pteron serve, it answers as its description says, and its manifests fit it",
        action: Action::Clients,
    },
    Step { name: "python", why: "the exporter's own tests pass", action: Action::Python },
    Step {
        name: "python-package",
        why: "the Python package installs from its wheel and gives PyTorch's outputs",
        action: Action::PythonPackage,
    },
    Step {
        name: "site",
        why: "the documentation site builds without a broken link, and its code blocks do what they say",
        action: Action::Site,
    },
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

/// Returns the rows with these names, in the table's order; all of them when none is named.
pub(crate) fn select(only: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step {unknown:?}; the steps are: {}", names.join(", "));
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect())
}

/// Returns name, reason and commands of each step as text.
pub(crate) fn list(steps: &[&Step], workspace: &Workspace) -> String {
    let mut text = String::new();
    for step in steps {
        text += &format!("{:<14} {}\n", step.name, step.why);
        let how = match step.action.job(workspace) {
            Ok(Job::Run(invocations)) => invocations.iter().map(|run| format!("$ {}", run.display())).collect(),
            Ok(Job::Rules) => vec!["(in xtask itself)".to_owned()],
            Ok(Job::Skip(reason)) => vec![format!("skipped here: {reason}")],
            Err(error) => vec![format!("would fail: {error:#}")],
        };
        for line in how {
            text += &format!("{:<14}   {line}\n", "");
        }
    }
    text
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
    fn selected_steps_keep_the_order_of_the_table() {
        let chosen = select(&["test".to_owned(), "fmt".to_owned()]).unwrap();
        assert_eq!(chosen.iter().map(|step| step.name).collect::<Vec<_>>(), ["fmt", "test"]);
        assert_eq!(select(&[]).unwrap().len(), STEPS.len());
    }

    #[test]
    fn error_for_an_unknown_step_lists_the_known_ones() {
        let error = select(&["fnt".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"fnt\"") && error.contains("fmt, "), "{error}");
    }
}
