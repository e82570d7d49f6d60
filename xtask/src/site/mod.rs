//! `cargo xtask site`: builds the documentation site with mdBook, checks its links, and runs the code blocks of its pages.
//!
//! Blocks are run as [`blocks`] says. A block that is neither run nor marked with a reason is a failure.

mod blocks;
mod compare;
mod execute;
mod links;
mod markdown;
mod reference;
mod session;
mod stage;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::steps::{built, find_mdbook, programs, python_with_package};
use crate::workspace::Workspace;
use execute::{Outcome, Tools};

/// The file that makes documentation tests of pages.
const DOCTESTS: &str = "crates/pteron-cli/src/site.rs";

/// The public crates, whose documentation is a part of the site.
const CRATES: [&str; 7] =
    ["pteron", "pteron_llm", "pteron_convert", "pteron_format", "pteron_hub", "pteron_server", "pteron_demo_model"];

/// Folders of rustdoc's output that they share.
const SHARED: [&str; 5] = ["search.index", "src", "static.files", "trait.impl", "type.impl"];

/// Builds the site, checks its links and runs its blocks.
pub(crate) fn run(workspace: &Workspace, only: &[String]) -> Result<ExitCode> {
    let build = programs();
    let status = Command::new(&build.program).args(&build.args).current_dir(&workspace.root).status();
    if !status.context("cargo could not be started")?.success() {
        bail!("pteron could not be built");
    }
    let site = workspace.target.join("site");
    let python = python_with_package(workspace);
    let broken = if only.is_empty() { build_site(workspace, &site, python.as_deref())? } else { 0 };
    let tools = Tools {
        root: workspace.root.clone(),
        pteron: built(workspace, "pteron", &[]).program,
        python: python.filter(|python| execute::has_package(python)),
        doctested: doctested(&workspace.root)?,
        scratch: site.join("run"),
    };
    let failed = run_blocks(&tools, only)?;
    Ok(if broken + failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the site into `book`; the number of broken links.
fn build_site(workspace: &Workspace, site: &Path, python: Option<&Path>) -> Result<usize> {
    let mdbook = find_mdbook(workspace).context("mdBook is not installed; ./test installs it")?;
    for folder in ["src", "book"] {
        let folder = site.join(folder);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} could not be removed", folder.display()))?;
        }
    }
    let pteron = built(workspace, "pteron", &[]).program;
    let description = reference::openapi(&pteron)?;
    let python = python.map_or_else(|| PathBuf::from("python3"), Path::to_owned);
    let generated = vec![
        ("reference/commands.md".to_owned(), reference::commands(&pteron)?),
        ("reference/http.md".to_owned(), reference::api(&description)),
        ("reference/openapi.json".to_owned(), format!("{description:#}\n")),
        ("reference/python.md".to_owned(), reference::python(&python, &workspace.root)?),
    ];
    stage::stage(&workspace.root, site, generated)?;
    let status = Command::new(mdbook).arg("build").arg(site).status().context("mdBook could not be started")?;
    if !status.success() {
        bail!("mdBook failed");
    }
    let book = site.join("book");
    copy_rustdoc(&workspace.target.join("doc"), &book.join(stage::RUSTDOC))?;
    let checked = links::check(&book, stage::RUSTDOC)?;
    for link in &checked.broken {
        println!("broken link: {link}");
    }
    println!("site: {} internal and {} external links, {} broken", checked.internal, checked.external, checked.broken.len());
    println!("site: {}", book.join("index.html").display());
    Ok(checked.broken.len())
}

/// Copies the documentation of the public crates, which `cargo doc` has written.
fn copy_rustdoc(from: &Path, to: &Path) -> Result<()> {
    let files =
        fs::read_dir(from).context("the documentation of the crates is not built: `cargo doc --workspace --no-deps`")?;
    for entry in files {
        let entry = entry?;
        let name = entry.file_name();
        if !entry.file_type()?.is_dir() || SHARED.iter().chain(&CRATES).any(|folder| name == *folder) {
            execute::copy(&entry.path(), &to.join(&name))?;
        }
    }
    Ok(())
}

/// The pages whose Rust blocks are documentation tests.
fn doctested(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(DOCTESTS)).with_context(|| format!("{DOCTESTS} could not be read"))?;
    Ok(text.split("\"../../../").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect())
}

/// Every Markdown file whose blocks are run, or marked: pages of the site, and READMEs.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    files.extend(stage::BORROWED.iter().map(|(from, _)| root.join(from)));
    for entry in fs::read_dir(root.join("crates"))? {
        files.push(entry?.path().join("README.md"));
    }
    files.extend(stage::markdown_files(&root.join(stage::PAGES))?);
    files.retain(|file| file.is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Runs the blocks of every page, or of those whose path contains one of these words; the number of failures.
fn run_blocks(tools: &Tools, only: &[String]) -> Result<usize> {
    let (mut passed, mut failed) = (0, 0);
    let mut elsewhere: BTreeMap<&str, usize> = BTreeMap::new();
    let mut not_run: BTreeMap<String, usize> = BTreeMap::new();
    for file in pages(&tools.root)? {
        let path = file.strip_prefix(&tools.root)?.to_string_lossy().replace('\\', "/");
        if !only.is_empty() && !only.iter().any(|word| path.contains(word.as_str())) {
            continue;
        }
        let page = blocks::read(&path, &fs::read_to_string(&file)?)?;
        let start = std::time::Instant::now();
        let outcomes = execute::page(tools, &page)?;
        if start.elapsed().as_secs() > 0 {
            println!("   {path}: {:.1} s", start.elapsed().as_secs_f64());
        }
        for (block, outcome) in page.blocks.iter().zip(outcomes) {
            let place = format!("{path}:{}", block.line);
            match outcome {
                Outcome::Passed => passed += 1,
                Outcome::Text => {}
                Outcome::Elsewhere(how) => *elsewhere.entry(how).or_default() += 1,
                Outcome::NotRun(reason) => {
                    println!("test {place} ... ignored, {reason}");
                    *not_run.entry(reason).or_default() += 1;
                }
                Outcome::Failed(problem) => {
                    failed += 1;
                    println!("FAILED {place}: {problem}");
                }
            }
        }
    }
    for (how, count) in &elsewhere {
        println!("site: {count} blocks are {how}");
    }
    for (reason, count) in &not_run {
        println!("site: {count} blocks are not run: {reason}");
    }
    let not_run: usize = not_run.values().sum();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; {not_run} ignored");
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    #[test]
    fn every_page_can_be_read() {
        let pages = pages(&root()).unwrap();
        assert!(pages.len() > 20, "{pages:?}");
        for page in pages {
            let text = fs::read_to_string(&page).unwrap();
            blocks::read(&page.to_string_lossy(), &text).unwrap();
        }
    }

    #[test]
    fn pages_with_documentation_tests_exist() {
        let pages = doctested(&root()).unwrap();
        assert!(pages.len() > 2, "{pages:?}");
        for page in pages {
            assert!(root().join(&page).is_file(), "{page}");
        }
    }
}
