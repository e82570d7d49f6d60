//! Pipes instead of files, files that are too large, and names with control characters.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Run, Scratch, pteron, quiet, read, root};

const TINY: &str = "fixtures/llama/tiny_4w/program.pte";
/// A command that waits for a pipe would wait forever.
const LONGEST: Duration = Duration::from_secs(240);

/// Runs the command with a cache folder, and fails if it does not end.
fn run(cache: &Path, args: &[&str]) -> Run {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    command.args(args).current_dir(root()).env("XDG_CACHE_HOME", cache);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("{args:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Run { code: output.status.code(), out, err }
}

fn pipe(path: &Path) -> String {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    path.to_string_lossy().into_owned()
}

#[test]
fn a_pipe_as_tuning_file_or_kernel_cache_is_passed_over() {
    let scratch = Scratch::new("pipe-tuning");
    let tuning = pipe(&scratch.0.join("pteron/tuning.json"));
    let exec = ["run", "-n", "1", "One"];
    let text = run(&scratch.0, &exec);
    assert_eq!(text.code, Some(0), "{}", text.err);
    let warning = format!("warning: {tuning}: it is not a regular file, so no tuning is used");
    assert!(text.err.contains(&warning), "{}", text.err);
    // Replaces the cache files of this adapter by pipes.
    let folder = scratch.0.join("pteron/pipelines");
    let Ok(kept) = std::fs::read_dir(&folder) else {
        return pteron_files::testing::skip("this driver hands out no compiled kernels");
    };
    for entry in kept {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        pipe(&path);
    }
    assert_eq!(run(&scratch.0, &exec).code, Some(0));
}

#[test]
fn pipes_and_devices_are_refused_wherever_a_file_is_read() {
    let scratch = Scratch::new("pipes");
    let pipe = pipe(&scratch.0.join("pipe"));
    let link = scratch.0.join("link.npz").to_string_lossy().into_owned();
    symlink(&pipe, &link).unwrap();
    let tokenizer = "models/demo/tokenizer.json";
    for file in [&pipe, &link, "/dev/zero"] {
        for args in [
            &["inspect", file][..],
            &["inspect", TINY, "--data", file],
            &["run", "--model", file, "One"],
            &["run", "--model", TINY, "--tokenizer", file, "One"],
            &["run", "--model", TINY, "--tokenizer", tokenizer, "--template", file, "One"],
            &["run", "--file", file],
            &["exec", TINY, "--in", file, "--out", "unused"],
        ] {
            let run = run(&scratch.0, args);
            assert_eq!(run.code, Some(1), "{args:?}: {}", run.err);
            let expected = format!("error: {file}: it is not a regular file; save its content to one first\n");
            assert_eq!(run.err, expected, "{args:?}");
        }
        let run = run(&scratch.0, &["convert", file, "-o", "unused"]);
        assert_eq!(run.err, format!("error: {file}: it is neither a file nor a folder\n"));
    }
}

#[test]
fn files_that_are_too_large_are_refused_by_their_size() {
    let scratch = Scratch::new("large");
    let path = scratch.file("tokenizer.json", b"");
    // Takes no place on the disk.
    let len: u64 = 100 << 30;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    for args in [
        &["run", "--model", TINY, "--tokenizer", &path, "One"][..],
        &["run", "--model", TINY, "--tokenizer", "models/demo/tokenizer.json", "--template", &path, "One"],
        &["run", "--file", &path],
    ] {
        let run = run(&scratch.0, args);
        assert_eq!(run.code, Some(1), "{args:?}: {}", run.err);
        assert!(run.err.starts_with(&format!("error: {path}: it has {len} bytes, more than the ")), "{}", run.err);
    }
}

/// A name of a megabyte with what would clear the screen.
#[test]
fn names_neither_fill_the_screen_nor_drive_it() {
    let scratch = Scratch::new("long-names");
    let bytes = read(TINY);
    let pte = pteron_format::Pte::read(bytes.as_slice()).unwrap();
    let mut program = pte.with_data();
    let long = format!("\u{1b}[2J{}", "x".repeat(1 << 20));
    program.plans[0].name = long.clone();
    let path = scratch.file("long.pte", &pteron_format::write(&program).unwrap());
    for args in [
        &["inspect", &path][..],
        &["inspect", &path, "--graph", "dot"],
        &["inspect", &path, "--graph", "mermaid"],
        &["inspect", &path, "--graph", "dot", "--method", "none"],
        &["exec", &path, "--in", "fixtures/none.npz", "--out", "unused"],
        &["exec", &path, "--method", "none", "--out", "unused"],
        &["run", "--model", &path, "--tokenizer", "models/demo/tokenizer.json", "One"],
    ] {
        let run = pteron(args);
        let shown = run.out + &run.err;
        assert!(!shown.contains('\u{1b}') && !shown.contains(&"x".repeat(2_100)), "{args:?}");
        assert!(shown.len() < 100_000, "{args:?}: {} bytes", shown.len());
    }
    let verbose = pteron(["run", "--model", &path, "--tokenizer", "models/demo/tokenizer.json", "One", "--verbose"]).err;
    assert!(verbose.len() < 100_000 && !verbose.contains('\u{1b}'), "{} bytes", verbose.len());
    // JSON is for programs: whole, and escaped.
    let json = pteron(["inspect", &path, "--json"]).out;
    assert!(json.contains("\\u001b[2Jxxx") && json.len() > 1 << 20);
}

#[test]
fn an_output_that_is_full_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return pteron_files::testing::skip("the system has no /dev/full");
    }
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    for args in [&["inspect", TINY][..], &["inspect", TINY, "--json"], &["run", "-n", "1", "--quiet", "One"]] {
        let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
        let output = command.args(args).current_dir(root()).stdin(Stdio::null()).stdout(full()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.starts_with("error: the output could not be written: "), "{args:?}: {err}");
    }
}
