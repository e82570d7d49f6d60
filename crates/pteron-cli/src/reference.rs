//! `pteron completions` and `pteron man`: the command line as shells and `man` read it. Both are written from the same definitions as
//! `--help`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::{Failure, Reason};
use crate::{files, terminal};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pteron completions bash > ~/.local/share/bash-completion/completions/pteron
  pteron completions zsh > \"${fpath[1]}/_pteron\"
  pteron completions fish > ~/.config/fish/completions/pteron.fish
  pteron completions powershell >> $PROFILE")]
pub(crate) struct Completions {
    /// The shell that will read the script
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pteron man ~/.local/share/man/man1
  man pteron-run")]
pub(crate) struct Manual {
    /// The folder that the pages are written to; created if absent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `pteron completions`.
pub(crate) fn completions(args: &Completions) -> ExitCode {
    ended(terminal::print(&script(args.shell)))
}

/// Runs `pteron man`.
pub(crate) fn manual(args: &Manual) -> ExitCode {
    ended(write_pages(&args.folder))
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

/// The completions of a shell.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pteron", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn write_pages(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, Reason::Unwritten(error)))?;
    for page in pages() {
        let path = folder.join(page.get_filename());
        files::write(&path, |file| page.render(file).and_then(|()| file.flush()))?;
    }
    Ok(())
}

/// One page for the program and one per command: `pteron.1`, `pteron-run.1`, `pteron-models-remove.1`.
fn pages() -> Vec<Man> {
    let mut root = Cli::command().disable_help_subcommand(true);
    // Gives commands their full names.
    root.build();
    let mut found = Vec::new();
    collect(root, &mut found);
    found
}

fn collect(command: Command, found: &mut Vec<Man>) {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner.clone(), found);
    }
    found.push(Man::new(command));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: &Man) -> String {
        let mut page_text = Vec::new();
        page.render(&mut page_text).unwrap();
        String::from_utf8(page_text).unwrap()
    }

    #[test]
    fn every_visible_command_has_a_page() {
        let names: Vec<String> = pages().iter().map(Man::get_filename).collect();
        for command in Cli::command().get_subcommands() {
            let page = format!("pteron-{}.1", command.get_name());
            assert_eq!(names.contains(&page), !command.is_hide_set(), "{page} in {names:?}");
        }
        assert!(names.contains(&"pteron.1".to_owned()) && names.contains(&"pteron-models-remove.1".to_owned()), "{names:?}");
    }

    #[test]
    fn pages_have_options_examples_and_no_styles() {
        let pages = pages();
        let page = pages.iter().find(|page| page.get_filename() == "pteron-exec.1").unwrap();
        let page = text(page);
        assert!(page.contains(".TH pteron\\-exec 1") || page.contains(".TH pteron-exec 1"), "{page}");
        assert!(page.contains("adapter") && page.contains("Examples:"), "{page}");
        for page in &pages {
            assert!(!text(page).contains('\u{1b}'), "{} has escape sequences", page.get_filename());
        }
    }

    #[test]
    fn scripts_complete_commands_and_options() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let script = script(shell);
            for word in ["pteron", "inspect", "completions", "adapter"] {
                assert!(script.contains(word), "{word} is not in the script for {shell}");
            }
        }
    }
}
