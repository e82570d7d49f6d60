//! Runs the blocks of a page: commands in a shell, Python in an interpreter, both in a folder with the page's files.
//!
//! Rust is compiled and run by `cargo test`, and JavaScript by the browser tests; here it is checked that they have the page.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::blocks::{Block, Marker, Page};
use super::compare::{compare, quotes};
use super::reference::free_port;
use super::session::{Session, isolated};

/// What became of a block.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Passed,
    /// A step other than this one runs it, or a compiler alone; which and why.
    Elsewhere(&'static str),
    NotRun(String),
    Failed(String),
    /// Text, with nothing to run.
    Text,
}

/// What blocks are run with.
pub(super) struct Tools {
    pub(super) root: PathBuf,
    /// The built command.
    pub(super) pteron: PathBuf,
    /// The interpreter that has the Python package, where it is installed.
    pub(super) python: Option<PathBuf>,
    /// The pages whose Rust blocks `cargo test` runs.
    pub(super) doctested: Vec<String>,
    /// Folders of the pages are below this one.
    pub(super) scratch: PathBuf,
}

/// The port that pages name; another one is used.
const PORT: &str = "8080";

struct Run<'a> {
    tools: &'a Tools,
    folder: PathBuf,
    port: Option<String>,
    shell: Option<Session>,
    python: Option<Session>,
    /// What the last block printed; none where it was not run here.
    printed: Option<String>,
}

/// Where the programs of all pages keep what they cache.
fn cache(scratch: &Path) -> PathBuf {
    scratch.join("home/cache")
}

/// Runs the blocks of a page in their order; the outcome of each.
pub(super) fn page(tools: &Tools, page: &Page) -> Result<Vec<Outcome>> {
    let folder = tools.scratch.join(page.path.replace('/', "-").trim_end_matches(".md"));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("{} could not be removed", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    // Mesa creates the last folder of its cache's path alone, and prints that it could not.
    fs::create_dir_all(cache(&tools.scratch))?;
    for (name, path) in &page.files {
        copy(&tools.root.join(path), &folder.join(name)).with_context(|| format!("{}: the file {path}", page.path))?;
    }
    let with_python = page.blocks.iter().any(|block| block.marker == Marker::None && runs_python(block));
    if with_python && tools.python.is_none() && page.not_run.is_none() {
        // Other blocks of the page may read what these write.
        let reason = "the Python package is not built; the step python-package builds it";
        return Ok(page.blocks.iter().map(|_| Outcome::NotRun(reason.to_owned())).collect());
    }
    let serves = page.blocks.iter().any(|block| matches!(block.marker, Marker::Serves(_)));
    let port = if serves { Some(free_port()?.to_string()) } else { None };
    let mut run = Run { tools, folder, port, shell: None, python: None, printed: None };
    let mut outcomes: Vec<Outcome> = page.blocks.iter().map(|block| run.block(page, block)).collect();
    if let Err(problem) = run.stop_servers()
        && let Some(at) = page.blocks.iter().position(|block| matches!(block.marker, Marker::Serves(_)))
    {
        outcomes[at] = Outcome::Failed(problem);
    }
    Ok(outcomes)
}

/// Whether a block is a program in Python, or a command that runs one.
fn runs_python(block: &Block) -> bool {
    block.language == "python" || block.text.lines().any(|line| line.starts_with("$ python "))
}

impl Run<'_> {
    fn block(&mut self, page: &Page, block: &Block) -> Outcome {
        let printed = self.printed.take();
        let result = match &block.marker {
            Marker::NotRun(reason) if reason.is_empty() => Err("it is not run, and no reason is given".to_owned()),
            Marker::NotRun(reason) => Ok(Outcome::NotRun(reason.clone())),
            Marker::Output => printed.map_or(Ok(Outcome::Text), |printed| {
                compare(&self.with_port(&block.text), &printed).map(|()| Outcome::Passed)
            }),
            Marker::From(path) => self.quotation(path, &block.text),
            Marker::Serves(url) => self.serve(url, block),
            Marker::None => match &page.not_run {
                Some(reason) if block.language != "text" => Ok(Outcome::NotRun(reason.clone())),
                _ => self.by_language(page, block),
            },
        };
        result.unwrap_or_else(Outcome::Failed)
    }

    fn by_language(&mut self, page: &Page, block: &Block) -> Result<Outcome, String> {
        let has = |word: &str| block.attributes.iter().any(|attribute| attribute == word);
        match block.language.as_str() {
            "console" => self.console(&block.text),
            "sh" | "bash" => self.command(&block.text, None),
            "python" => self.python(&block.text),
            "rust" if has("ignore") => Err("a block that is ignored needs a comment with the reason".to_owned()),
            "rust" if !self.tools.doctested.contains(&page.path) => {
                Err(format!("{} does not include this page", super::DOCTESTS))
            }
            "rust" if has("no_run") => Ok(Outcome::Elsewhere("compiled by the step test, not run")),
            "rust" => Ok(Outcome::Elsewhere("run by the step test")),
            "js" if page.path.starts_with(super::stage::PAGES) => Ok(Outcome::Elsewhere("run by the step web, in Chromium")),
            "json" => json(&block.text).map(|()| Outcome::Passed),
            "jsonl" => block.text.lines().try_for_each(json).map(|()| Outcome::Passed),
            "text" => Ok(Outcome::Text),
            "" => Err("the block has no language; one with nothing to run is `text`".to_owned()),
            other => Err(format!("blocks of {other} are not run here; say `from` which file it is, or why it is not run")),
        }
    }

    /// Runs the commands of a block, and compares what follows each with what it prints.
    fn console(&mut self, text: &str) -> Result<Outcome, String> {
        let commands = commands(text)?;
        for (command, shown) in &commands {
            self.command(command, (!shown.is_empty()).then_some(shown))?;
        }
        Ok(Outcome::Passed)
    }

    fn command(&mut self, command: &str, shown: Option<&str>) -> Result<Outcome, String> {
        let command = self.with_port(command);
        let (succeeded, printed) =
            self.shell().and_then(|shell| shell.run(&command)).map_err(|error| format!("{error:#}"))?;
        if !succeeded {
            return Err(format!("`{command}` failed and printed\n{printed}"));
        }
        shown
            .map_or(Ok(()), |shown| compare(&self.with_port(shown), &printed))
            .map_err(|problem| format!("`{command}`: {problem}"))?;
        self.printed = Some(printed);
        Ok(Outcome::Passed)
    }

    fn python(&mut self, text: &str) -> Result<Outcome, String> {
        let python = self.tools.python.clone().ok_or("the Python package is not built")?;
        if self.python.is_none() {
            let session = Session::python(isolated(&python, &self.folder, &self.home(), &self.path_variable()));
            self.python = Some(session.map_err(|error| format!("{error:#}"))?);
        }
        let text = self.with_port(text);
        let Some(session) = &mut self.python else { return Err("there is no interpreter".to_owned()) };
        let (succeeded, printed) = session.run(&text).map_err(|error| format!("{error:#}"))?;
        if !succeeded {
            return Err(format!("it failed and printed\n{printed}"));
        }
        self.printed = Some(printed);
        Ok(Outcome::Passed)
    }

    /// Starts a command that runs until the end of the page, and waits until it answers.
    fn serve(&mut self, url: &str, block: &Block) -> Result<Outcome, String> {
        let commands = commands(&block.text)?;
        let [(command, _)] = &commands[..] else { return Err("a block of this kind has one command".to_owned()) };
        // What comes after `exec` gets the signals.
        let start = format!("(exec {command}) >server.log 2>&1 & server=$!");
        self.command(&start, None)?;
        let wait = format!(
            "for _ in $(seq 2000); do curl --silent --fail --output /dev/null {url} && break; kill -0 $server 2>/dev/null || break; \
             sleep 0.1; done; curl --silent --fail --output /dev/null {url} || {{ cat server.log; false; }}"
        );
        self.command(&wait, None)
    }

    /// Ends the page's server as an operator would, and compares its exit status.
    fn stop_servers(&mut self) -> Result<(), String> {
        // A client's connection that is kept would be waited for.
        self.python = None;
        if self.port.is_none() || self.shell.is_none() {
            return Ok(());
        }
        self.command("kill $server && wait $server || { cat server.log; false; }", None).map(|_| ())
    }

    fn quotation(&self, path: &str, text: &str) -> Result<Outcome, String> {
        let file = fs::read_to_string(self.tools.root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        if quotes(text, &file) { Ok(Outcome::Passed) } else { Err(format!("{path} does not contain these lines")) }
    }

    fn with_port(&self, text: &str) -> String {
        self.port.as_ref().map_or_else(|| text.to_owned(), |port| text.replace(PORT, port))
    }

    fn shell(&mut self) -> Result<&mut Session> {
        if self.shell.is_none() {
            let mut command = isolated(Path::new("bash"), &self.folder, &self.home(), &self.path_variable());
            command.args(["--noprofile", "--norc"]);
            self.shell = Some(Session::shell(command)?);
        }
        self.shell.as_mut().context("there is no shell")
    }

    /// One home for all pages, so that kernels are compiled once.
    fn home(&self) -> PathBuf {
        self.tools.scratch.join("home")
    }

    /// The folder of the built command first, then that of the interpreter.
    fn path_variable(&self) -> OsString {
        let own = [Some(&self.tools.pteron), self.tools.python.as_ref()].into_iter().flatten();
        let own = own.filter_map(|program| program.parent().map(Path::to_owned));
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let folders = own.chain(std::env::split_paths(&inherited));
        std::env::join_paths(folders).unwrap_or(inherited)
    }
}

/// Splits a block into commands, which begin with `$ ` and go on with `> `, each with the lines shown after it.
fn commands(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), String::new()));
            continue;
        }
        let (command, shown) = commands.last_mut().ok_or("the block does not begin with a command: `$ …`")?;
        match line.strip_prefix("> ").or((line == ">").then_some("")) {
            Some(more) if shown.is_empty() => *command += &format!("\n{more}"),
            _ => *shown += &format!("{line}\n"),
        }
    }
    if commands.is_empty() { Err("the block is empty".to_owned()) } else { Ok(commands) }
}

fn json(text: &str) -> Result<(), String> {
    serde_json::from_str::<serde_json::Value>(text).map(|_| ()).map_err(|error| format!("this is not JSON: {error}"))
}

/// Copies a file or a folder. Commands may change the copy.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Whether an interpreter has the Python package.
pub(super) fn has_package(python: &Path) -> bool {
    crate::steps::stdout_of(Command::new(python).args(["-c", "import pteron, numpy"])).is_some()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::blocks;
    use super::*;

    fn outcomes(name: &str, text: &str) -> Vec<Outcome> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let scratch = std::env::temp_dir().join(format!("pteron-site-{name}-{}", std::process::id()));
        let doctested = vec!["in.md".to_owned()];
        let tools = Tools { root, pteron: "/bin/echo".into(), python: None, doctested, scratch: scratch.clone() };
        let outcomes = page(&tools, &blocks::read("in.md", text).unwrap()).unwrap();
        fs::remove_dir_all(scratch).unwrap();
        outcomes
    }

    fn failure(name: &str, text: &str) -> String {
        match outcomes(name, text).pop() {
            Some(Outcome::Failed(problem)) => problem,
            other => panic!("{other:?} is not a failure"),
        }
    }

    #[test]
    fn commands_run_in_the_folder_of_the_page() {
        let text = "<!-- files: sub/licence=LICENSE-MIT -->\n```console\n$ cd sub\n$ head -c 4 licence\n> echo\nCopy\n```\n\
                    ```sh\npwd\n```\n<!-- output -->\n```text\n.../sub\n```\n";
        let found = outcomes("folder", &text.replace("Copy", "MIT"));
        assert_eq!(found, [Outcome::Passed, Outcome::Passed, Outcome::Passed], "{found:?}");
        assert!(failure("folder-2", "```console\n$ echo a\nb\n```\n").contains("`echo a`: the page shows\n    b\nbut"));
        assert!(failure("folder-3", "```console\n$ echo x; false\n```\n").contains("failed and printed\nx\n"));
    }

    #[test]
    fn each_language_has_its_way() {
        let text = "```rust\n```\n```rust,no_run\n```\n```json\n{\"a\": 1}\n```\n```jsonl\n{}\n[]\n```\n```text\nx\n```\n\
                    <!-- from: clippy.toml -->\n```toml\n...\n```\n<!-- not run: no GPU -->\n```x\n```\n<!-- output -->\n```text\n1\n```\n";
        let found = outcomes("languages", text);
        assert_eq!(found[0], Outcome::Elsewhere("run by the step test"));
        assert_eq!(found[1], Outcome::Elsewhere("compiled by the step test, not run"));
        assert_eq!(found[2..6], [Outcome::Passed, Outcome::Passed, Outcome::Text, Outcome::Passed]);
        assert_eq!(found[6], Outcome::NotRun("no GPU".to_owned()));
        assert_eq!(found[7], Outcome::Text, "there is nothing to compare with");
    }

    #[test]
    fn without_the_package_a_page_with_python_is_not_run() {
        for block in ["```python\nx\n```\n", "```console\n$ python x.py\n```\n"] {
            let found = outcomes("python", &format!("{block}```console\n$ cat written-by-python\n```\n"));
            assert_eq!(found.len(), 2);
            assert!(
                found.iter().all(|outcome| matches!(outcome, Outcome::NotRun(reason) if reason.contains("python-package")))
            );
        }
    }

    #[test]
    fn what_cannot_be_run_is_a_failure() {
        assert!(failure("ignored", "```rust,ignore\n```\n").contains("needs a comment"));
        assert!(failure("toml", "```toml\na = 1\n```\n").contains("blocks of toml are not run here"));
        assert!(failure("none", "```\na\n```\n").contains("has no language"));
        assert!(failure("js", "```js\nx\n```\n").contains("blocks of js are not run here"));
        assert!(failure("json", "```json\n{\n```\n").contains("not JSON"));
        assert!(failure("from", "<!-- from: clippy.toml -->\n```toml\nnot there\n```\n").contains("does not contain"));
        assert!(failure("reason", "<!-- not run:  -->\n```sh\n```\n").contains("no reason"));
        assert!(failure("console", "```console\nls\n```\n").contains("does not begin with a command"));
    }
}
