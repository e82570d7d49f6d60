//! Bad input: exit status 1 and one sentence that names the file, the place and the reason.

use std::io::Read;
use std::process::{Command, Stdio};

use super::reports::external_data;
use super::{Scratch, pteron, read, root};

const GOOD: &str = "fixtures/ops/linear_bias/program.pte";

/// Runs `inspect` and gives its one sentence, the file's path replaced.
fn sentence(path: &str, more: &[&str]) -> String {
    let run = pteron(["inspect", path].iter().chain(more));
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "one sentence: {}", run.err);
    let (start, text) = (format!("error: {path}: "), run.err.trim_end());
    text.strip_prefix(&start).unwrap_or_else(|| panic!("{text} does not start with {start}")).to_owned()
}

#[test]
fn files_that_are_not_there() {
    assert_eq!(sentence("no/such.pte", &[]), "there is no such file");
    assert_eq!(sentence("crates", &[]), "it is a directory; name a file in it");
    let directory = "fixtures/ops/linear_bias";
    assert_eq!(
        sentence(directory, &[]),
        format!("it is a directory; name a file in it, such as {directory}/program.pte")
            .replace('/', std::path::MAIN_SEPARATOR_STR)
    );
}

#[test]
fn files_that_are_something_else() {
    let scratch = Scratch::new("foreign");
    let program = "not an ExecuTorch program (.pte);";
    let export = "export the model to .pte with ExecuTorch and its Vulkan partitioner";
    for (name, bytes, expected) in [
        ("a.gguf", &b"GGUF\x03\0\0\0\0\0"[..], format!("it is a GGUF checkpoint, {program} {export}")),
        ("a.safetensors", b"\x02\0\0\0\0\0\0\0{}", format!("it is a safetensors checkpoint, {program} {export}")),
        (
            "a.pth",
            b"PK\x03\x04\0\0\0\0",
            format!(
                "it is a zip archive, perhaps a PyTorch checkpoint (.pt, .pth) or an exported program (.pt2), {program} {export}"
            ),
        ),
        ("a.pt", b"\x80\x02\x8a\x0al\xfc\x9c", format!("it is a Python pickle, perhaps an old PyTorch checkpoint, {program} {export}")),
        ("a.tflite", b"\x1c\0\0\0TFL3\0\0", format!("it is a TensorFlow Lite model, {program} {export}")),
        ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0", format!("it is compressed with gzip, {program} unpack it first")),
        (
            "lfs.pte",
            b"version https://git-lfs.github.com/spec/v1\n",
            format!("it is a Git LFS pointer, {program} fetch the real file with `git lfs pull`"),
        ),
        ("page.pte", b"<!DOCTYPE html>", format!("it is a web page, {program} the download went wrong, so fetch it again")),
        (
            "new.pte",
            b"\x20\0\0\0ET13eh00",
            format!(
                "it is an ExecuTorch program of another version, {program} export the model again with a version of ExecuTorch that writes ET12"
            ),
        ),
        (
            "text.pte",
            b"hello, world",
            "header, byte 4: the file identifier is \"o, w\", expected \"ET12\"; this is not such a file, or it is damaged"
                .to_owned(),
        ),
        (
            "empty.pte",
            b"",
            "the file is empty; an ExecuTorch program (.pte) has at least a header, so it may not have been written or downloaded to the end"
                .to_owned(),
        ),
    ] {
        assert_eq!(sentence(&scratch.file(name, bytes), &[]), expected, "{name}");
    }
    let data = &external_data()[0];
    assert_eq!(
        sentence(data, &[]),
        format!("it is external data (.ptd), {program} inspect the program it belongs to and pass this file with --data")
    );
}

#[test]
fn truncated_files_say_so() {
    let scratch = Scratch::new("truncated");
    let bytes = read(GOOD);
    for len in [4, 20, 100, bytes.len() / 2, bytes.len() - 1] {
        let text = sentence(&scratch.file("cut.pte", &bytes[..len]), &["--verify"]);
        assert!(text.starts_with("header") && text.ends_with("it may be cut off"), "{len} bytes: {text}");
    }
}

#[test]
fn damage_is_placed() {
    let scratch = Scratch::new("damaged");
    let mut bytes = read(GOOD);
    let blob = bytes.windows(4).position(|bytes| bytes == b"VH00").unwrap();
    bytes[blob] = b'X';
    assert_eq!(
        sentence(&scratch.file("damaged.pte", &bytes), &[]),
        "method \"forward\", graph of delegate 0, byte 4: the delegate header's magic is \"XH00\", expected \"VH00\"; \
         this is not such a file, or it is damaged"
    );
}

/// The last constant of a file, changed in its last byte: only a deep look sees it.
#[test]
fn a_changed_constant_is_found() {
    let scratch = Scratch::new("changed");
    let mut bytes = read(GOOD);
    *bytes.last_mut().unwrap() ^= 1;
    let path = scratch.file("changed.pte", &bytes);
    assert_eq!(pteron(["inspect", &path, "--verify"]).code, Some(0), "nothing but the data is wrong");
    let text = sentence(&path, &["--verify", "--deep"]);
    let (place, rest) = text.split_once(": the SHA-256 of its bytes is ").expect(&text);
    assert!(place.starts_with("method \"forward\", graph of delegate 0, constant "), "{text}");
    assert!(rest.ends_with("\"; the file is damaged") && rest.contains(", but its key is \""), "{text}");
}

#[test]
fn changed_external_data_is_found() {
    let scratch = Scratch::new("external");
    let source = &external_data()[0];
    let mut bytes = std::fs::read(source).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let path = scratch.file("changed.ptd", &bytes);
    let run = pteron(["inspect", "fixtures/ops/constants_external/program.pte", "--verify", "--deep", "--data", &path]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert!(run.err.starts_with(&format!("error: {path}: external data: the SHA-256 of its bytes is ")), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1);
}

#[test]
fn data_that_does_not_fit() {
    let path = "fixtures/ops/constants_external/program.pte";
    let other = "fixtures/ops/constants_external_portable/_default_external_constant.ptd";
    let text = sentence(path, &["--data", other]);
    assert!(text.starts_with("external data: no data has the key \""), "{text}");
    assert!(text.ends_with("\"; pass the .ptd file that was exported with this program"), "{text}");
    let run = pteron(["inspect", path, "--data", GOOD]);
    assert_eq!(
        run.err,
        format!(
            "error: {GOOD}: it is an ExecuTorch program (.pte), not external data of an ExecuTorch program (.ptd); \
             give it as a program, without --data\n"
        )
    );
}

#[test]
fn verbose_says_more() {
    let run = pteron(["inspect", "no/such.pte", "-v"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.starts_with("error: no/such.pte: there is no such file\n"), "{}", run.err);
    assert!(run.err.lines().count() > 1 && run.err.contains("Absent"), "{}", run.err);
    let run = pteron(["inspect", GOOD, "--verify", "--deep", "-v"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""));
    assert_eq!(run.err, format!("{GOOD}: 2 named constants checked against a SHA-256 key\n"));
}

/// Names that are no hashes cannot be checked, and hostile ones cannot reach the terminal.
#[test]
fn names_are_only_names() {
    use pteron_format::program::{ExecutionPlan, NamedData, SegmentId};
    let scratch = Scratch::new("names");
    let data = b"some weights".to_vec();
    let empty_hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let name = |key: &str, segment| NamedData { key: key.to_owned(), segment: SegmentId(segment) };
    let program = pteron_format::Program {
        plans: vec![ExecutionPlan { name: "a\u{1b}[2Jb\nc".to_owned(), ..ExecutionPlan::default() }],
        segments: vec![data, Vec::new()],
        named_data: Some(vec![name("weights", 0), name(empty_hash, 1)]),
        ..pteron_format::Program::default()
    };
    let path = scratch.file("names.pte", &pteron_format::write(&program).unwrap());
    let run = pteron(["inspect", &path, "--verify", "--deep", "-v"]);
    let expected = "1 named constant checked against a SHA-256 key, 1 not checkable because the key is no hash";
    assert_eq!((run.code, run.err), (Some(0), format!("{path}: {expected}\n")));
    let run = pteron(["inspect", &path]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("a\\u{1b}[2Jb\\nc"), "{}", run.out);
}

/// Bytes changed at random: the exit status is 0 or 1, never a panic.
#[test]
fn damage_never_ends_in_a_panic() {
    let scratch = Scratch::new("random");
    let good = read("fixtures/ops/sdpa_gqa/program.pte");
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for round in 0..200 {
        let mut bytes = good.clone();
        for _ in 0..=round % 4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [place, value, ..] = state.to_be_bytes().map(usize::from);
            let at = (place * 256 + value) * bytes.len() / 65_536;
            bytes[at] = state.to_be_bytes()[2];
        }
        let path = scratch.file("damaged.pte", &bytes);
        for more in [&["--json"][..], &["--verify", "--deep"], &["--graph", "dot"]] {
            let run = pteron(["inspect", &path].iter().chain(more));
            assert!(matches!(run.code, Some(0 | 1)), "round {round}, {more:?}: {:?} {}", run.code, run.err);
            assert_eq!(run.err.lines().count(), usize::from(run.code == Some(1)), "{}", run.err);
        }
    }
}

#[test]
fn a_wrong_command_line_is_another_failure() {
    for args in [
        &["inspect"][..],
        &["inspect", GOOD, "--deep"],
        &["inspect", GOOD, "--json", "--verify"],
        &["inspect", GOOD, "--method", "forward"],
        &["inspect", GOOD, GOOD, "--graph", "dot"],
        &["inspect", GOOD, "--graph", "png"],
        &["fly"],
    ] {
        let run = pteron(args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.starts_with("error: "), "{args:?}: {}", run.err);
    }
    for args in [&["--help"][..], &["--version"], &["inspect", "--help"]] {
        assert_eq!(pteron(args).code, Some(0), "{args:?}");
    }
    assert!(pteron(["inspect", "--help"]).out.contains("Examples:"));
}

/// As with `pteron inspect ... | head -1`.
#[test]
fn a_reader_may_leave() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pteron"))
        .args(["inspect", "fixtures/llama/tiny_4w/program.pte", "--graph", "dot"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}
