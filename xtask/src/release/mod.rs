//! `cargo xtask release`: builds everything that is published, checks it, installs each artefact in a scratch folder and runs it.
//!
//! Nothing is uploaded by this program: with `--dry-run` it ends with the artefacts, without it also with the commands that publish them.

mod binary;
mod bundle;
mod checksums;
mod container;
mod crates;
mod dependencies;
mod installer;
mod licences;
mod npm;
mod progress;
mod publish;
mod python;
mod sbom;
mod scratch;
mod server;
mod symbols;
mod tools;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use dependencies::Linked;
use licences::Notices;
use progress::Progress;
use tools::Tools;

/// Where the artefacts are, below the target folder.
const FOLDER: &str = "release-artifacts";

#[derive(Args)]
pub(crate) struct Options {
    /// Build and check only. Without it, the changelog and the repository must be ready, and the commands that publish are printed
    #[arg(long)]
    dry_run: bool,
    /// Only say whether changelog, address, working tree and tag are ready for a release
    #[arg(long, conflicts_with = "dry_run")]
    ready: bool,
    /// Build this part alone, and keep the artefacts of others; may be given more than once
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
}

/// What is published in one place, and how it is proved.
struct Part {
    name: &'static str,
    what: &'static str,
    build: fn(&Release<'_>) -> Result<()>,
    /// Installs and runs what was built; returns what is to be known of it.
    check: fn(&Release<'_>) -> Result<Vec<String>>,
}

/// Those that compile alike follow each other; installer and container take the archive of `binary`.
static PARTS: &[Part] = &[
    Part { name: "binary", what: "the command for this system", build: binary::build, check: binary::check },
    Part { name: "installer", what: "install.sh", build: installer::build, check: installer::check },
    Part { name: "container", what: "the container file", build: container::build, check: container::check },
    Part { name: "python", what: "wheel and source distribution", build: python::build, check: python::check },
    Part { name: "crates", what: "packages for crates.io", build: crates::build, check: crates::check },
    Part { name: "npm", what: "the npm package", build: npm::build, check: npm::check },
];

/// A release that is being built.
struct Release<'a> {
    workspace: &'a Workspace,
    version: String,
    /// The target that is compiled for, which is this machine's.
    target: String,
    /// When the last commit was made: archives and bills have this time, so that the same commit gives the same bytes.
    time: CommitTime,
    /// The artefacts.
    out: PathBuf,
    tools: OnceCell<Tools>,
    progress: Progress,
}

struct CommitTime {
    seconds: String,
    iso: String,
}

impl<'a> Release<'a> {
    fn new(workspace: &'a Workspace) -> Result<Self> {
        let version = workspace.crates.first().context("there are no crates")?.version.clone();
        let git = |format: &str| {
            let text = progress::read(
                Command::new("git").args(["-c", "safe.directory=*", "log", "-1", format]).current_dir(&workspace.root),
            )?;
            anyhow::Ok(text.trim().to_owned())
        };
        let time = CommitTime { seconds: git("--format=%ct")?, iso: git("--format=%cI")? };
        let rustc = progress::read(Command::new("rustc").arg("-vV"))?;
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?.to_owned();
        let out = workspace.target.join(FOLDER);
        Ok(Self { workspace, version, target, time, out, tools: OnceCell::new(), progress: Progress::new() })
    }

    fn root(&self) -> &Path {
        &self.workspace.root
    }

    /// Cargo in the repository.
    fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(self.root());
        cargo
    }

    /// The tools from `PyPI`, installed when the first of them is asked for.
    fn tools(&self) -> Result<&Tools> {
        if self.tools.get().is_none() {
            let tools = self.progress.stage("tools from PyPI", || Tools::install(self.workspace))?;
            let _ = self.tools.set(tools);
        }
        self.tools.get().context("the tools are installed")
    }

    /// Writes the bill of materials of a crate for a target, and returns the licences that travel with it.
    fn describe(&self, package: &str, target: &str) -> Result<Notices> {
        let linked = Linked::load(self.workspace, package, target)?;
        let bill = self.out.join(format!("{package}-{target}.cdx.json"));
        fs::write(&bill, sbom::text(&linked, &self.time.iso)?).with_context(|| bill.display().to_string())?;
        let apache = fs::read_to_string(self.root().join("LICENSE-APACHE"))?;
        let sysroot = progress::read(Command::new("rustc").args(["--print", "sysroot"]).current_dir(self.root()))?;
        let notices = Notices::collect(&linked, &apache, Path::new(sysroot.trim()))?;
        let (all, others) = (linked.components.len() - 1, linked.third_party().count());
        self.progress.say(&format!("{package} for {target}: {all} components, {others} of others with their licence texts"));
        Ok(notices)
    }
}

/// Builds, checks and reports.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let parts = select(&options.only)?;
    let release = Release::new(workspace)?;
    let demands = publish::demands(&release)?;
    if options.ready || !options.dry_run {
        if !demands.is_empty() {
            bail!("{} cannot be released yet:\n  {}", release.version, demands.join("\n  "));
        }
        if options.ready {
            println!("{} can be released", release.version);
            return Ok(ExitCode::SUCCESS);
        }
    }
    release.progress.say(&format!("pteron {} for {}: {}", release.version, release.target, names(&parts)));
    if options.only.is_empty() {
        // What an earlier run built.
        let _ = fs::remove_dir_all(&release.out);
    }
    fs::create_dir_all(&release.out).with_context(|| release.out.display().to_string())?;

    let mut failures = Vec::new();
    let mut notes = Vec::new();
    for part in parts {
        match prove(&release, part) {
            Ok(found) => notes.extend(found.into_iter().map(|note| format!("{}: {note}", part.name))),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    report(&release, &notes, &failures)?;
    if !failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!("\n{}", publish::ending(&release, options.dry_run, &demands));
    Ok(ExitCode::SUCCESS)
}

/// Builds a part, installs it and runs it; returns what is to be known of it.
fn prove(release: &Release<'_>, part: &Part) -> Result<Vec<String>> {
    release.progress.stage(&format!("{}: build {}", part.name, part.what), || (part.build)(release))?;
    // Of all that is there by now.
    checksums::write(&release.out)?;
    let notes = release.progress.stage(&format!("{}: install and run", part.name), || (part.check)(release))?;
    notes.iter().for_each(|note| release.progress.say(&format!("{}: {note}", part.name)));
    Ok(notes)
}

/// The parts with these names, in the table's order; all of them where none is named.
fn select(only: &[String]) -> Result<Vec<&'static Part>> {
    let all: Vec<&Part> = PARTS.iter().collect();
    if let Some(unknown) = only.iter().find(|name| all.iter().all(|part| part.name != name.as_str())) {
        bail!("there is no part {unknown:?}; the parts are: {}", names(&all));
    }
    Ok(all.into_iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name)).collect())
}

fn names(parts: &[&Part]) -> String {
    parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")
}

/// Prints the artefacts, what was found out about them, and what failed.
fn report(release: &Release<'_>, notes: &[String], failures: &[String]) -> Result<()> {
    println!("\nArtefacts in {}:", release.out.display());
    for path in checksums::files(&release.out)? {
        let bytes = fs::metadata(&path)?.len();
        println!("  {:>12}  {}", bytes, path.file_name().unwrap_or_default().to_string_lossy());
    }
    println!("\nFound:");
    notes.iter().for_each(|note| println!("  {note}"));
    if !failures.is_empty() {
        println!("\nFAILED:");
        failures.iter().for_each(|failure| println!("  {}", failure.replace('\n', "\n    ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_parts_keep_their_order_and_unknown_ones_are_named() {
        let chosen = select(&["npm".to_owned(), "crates".to_owned()]).unwrap();
        assert_eq!(names(&chosen), "crates, npm");
        assert_eq!(select(&[]).unwrap().len(), PARTS.len());
        let error = select(&["nmp".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"nmp\"") && error.contains("binary, installer, container"), "{error}");
    }
}
