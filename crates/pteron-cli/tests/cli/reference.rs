//! `pteron completions` and `pteron man`.

use std::process::{Command, Stdio};

use crate::{Scratch, pteron};

#[test]
fn bash_completes_commands_and_options() {
    let run = pteron(["completions", "bash"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let completed = |line: &str, word: &str, previous: &str| {
        let scratch = Scratch::new("completions");
        let script = scratch.file("pteron.bash", run.out.as_bytes());
        let ask = format!(
            "source '{script}'; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pteron pteron '{word}' '{previous}'; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).stdin(Stdio::null()).output();
        output.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commands) = completed("pteron insp", "insp", "pteron") else {
        return pteron_files::testing::skip("bash is not installed");
    };
    assert_eq!(commands, "inspect");
    assert_eq!(completed("pteron inspect --js", "--js", "inspect").unwrap(), "--json");
    assert_eq!(completed("pteron mod", "mod", "pteron").unwrap(), "models", "the hidden command is not completed");
}

#[test]
fn an_unknown_shell_is_rejected_with_the_known_ones() {
    let run = pteron(["completions", "tcsh"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(run.err.contains(shell), "{}", run.err);
    }
}

#[test]
fn manual_pages_are_written_into_a_new_folder() {
    let scratch = Scratch::new("manual");
    let folder = scratch.0.join("share/man/man1");
    let run = pteron([std::ffi::OsStr::new("man"), folder.as_os_str()]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""));
    let page = std::fs::read_to_string(folder.join("pteron-run.1")).unwrap();
    assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
    assert!(folder.join("pteron.1").is_file() && !folder.join("pteron-man.1").exists());
}

#[test]
fn a_folder_that_is_a_file_is_named() {
    let scratch = Scratch::new("manual-file");
    let file = scratch.file("pages", b"");
    let run = pteron(["man", &file]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert!(run.err.starts_with(&format!("error: {file}: ")), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}
