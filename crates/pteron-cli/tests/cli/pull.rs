//! `pteron pull`, `pteron models` and `--model OWNER/NAME`, with a server on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::{Run, Scratch, quiet, read};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Files with their paths in the repository `o/m`.
type Files = Vec<(&'static str, Vec<u8>)>;

/// Serves the files. Bodies of programs stop after `stalls_after` bytes, and their connections stay open.
fn serve(files: Files, stalls_after: Option<usize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let files = Arc::clone(&files);
            std::thread::spawn(move || answer(stream, &files, stalls_after));
        }
    });
    address
}

fn answer(mut stream: TcpStream, files: &Files, stalls_after: Option<usize>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(path) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned())) else { return };
    let _ = lines.take_while(|line| !line.is_empty()).count();
    let file = |path: &str| files.iter().find(|(name, _)| path == format!("/o/m/resolve/{COMMIT}/{name}"));
    let (status, body) = match file(&path) {
        Some((_, bytes)) => ("200 OK", bytes.clone()),
        None if path == "/api/models/o/m/revision/main?blobs=true" => ("200 OK", listing(files).into_bytes()),
        None => ("404 Not Found\r\nX-Error-Code: RepoNotFound", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let end = stalls_after.filter(|_| path.ends_with(".pte")).unwrap_or(body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..end]));
    if end < body.len() {
        std::thread::park();
    }
}

fn listing(files: &Files) -> String {
    let entries = files.iter().map(|(path, bytes)| {
        let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        format!(r#"{{"rfilename": "{path}", "lfs": {{"sha256": "{sha256}", "size": {}}}}}"#, bytes.len())
    });
    format!(r#"{{"sha": "{COMMIT}", "siblings": [{}]}}"#, entries.collect::<Vec<_>>().join(", "))
}

fn command(endpoint: &str, folder: &Path, args: &[&str]) -> Command {
    let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
    command.args(args).env("HF_ENDPOINT", endpoint).env("PTERON_MODELS", folder).env("HF_HOME", folder);
    for name in ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "SSL_CERT_FILE", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

fn pteron(endpoint: &str, folder: &Path, args: &[&str]) -> Run {
    let output = command(endpoint, folder, args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn model() -> Files {
    // As repositories of several programs have them: the tokenizer is above the program.
    vec![("small/model.pte", read("models/demo/model.pte")), ("tokenizer.json", read("models/demo/tokenizer.json"))]
}

#[test]
fn a_pulled_model_is_listed_used_by_its_name_and_removed() {
    let scratch = Scratch::new("pull");
    let endpoint = serve(model(), None);
    let pteron = |args: &[&str]| pteron(&endpoint, &scratch.0, args);
    let before = pteron(&["run", "--model", "o/m", "Hello"]);
    assert_eq!(before.code, Some(1));
    assert!(
        before.err.ends_with("o/m: there is no such file, and no model o/m was pulled; fetch it with `pteron pull o/m`\n"),
        "{}",
        before.err
    );
    assert!(pteron(&["models"]).err.contains("`pteron pull OWNER/NAME` fetches one"));

    let pulled = pteron(&["pull", "o/m"]);
    assert_eq!((pulled.code, pulled.out.as_str()), (Some(0), ""), "{}", pulled.err);
    assert!(
        pulled.err.contains("fetching small/model.pte\n") && pulled.err.contains("o/m main: 2 files, 10.4 MiB in "),
        "{}",
        pulled.err
    );
    let listed = pteron(&["models"]);
    assert!(listed.out.contains("o/m") && listed.out.contains("main (0123456)"), "{}", listed.out);
    let json: serde_json::Value = serde_json::from_str(&pteron(&["models", "--json"]).out).unwrap();
    assert_eq!(json["models"][0]["commit"], COMMIT);
    assert_eq!(json["models"][0]["files"], serde_json::json!(["small/model.pte", "tokenizer.json"]));

    let run = pteron(&["run", "--model", "o/m", "-n", "4", "--json", "To read a file"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.err));
    assert_eq!(json["tokens"].as_array().unwrap().len(), 4);
    assert!(!json["text"].as_str().unwrap().is_empty(), "the tokenizer above the program is used");
    assert!(pteron(&["inspect", "o/m:small/model.pte"]).out.contains("forward"));
    assert_eq!(pteron(&["inspect", "--verify", "o/m@main"]).code, Some(0));
    let other = pteron(&["inspect", "o/m@v2"]);
    assert!(other.err.contains("no model o/m@v2 was pulled"), "{}", other.err);

    assert_eq!(pteron(&["models", "remove", "o/m"]).code, Some(0));
    assert_eq!(pteron(&["models", "remove", "o/m"]).code, Some(1));
    assert!(pteron(&["models", "--json"]).out.contains(r#""models":[]"#));
}

#[test]
fn errors_of_a_pull_are_sentences() {
    let scratch = Scratch::new("pull-errors");
    let mut files = model();
    files.push(("large/model.pte", b"other".to_vec()));
    let endpoint = serve(files, None);
    let pteron = |args: &[&str]| pteron(&endpoint, &scratch.0, args);
    let several = pteron(&["pull", "o/m"]);
    assert_eq!(several.code, Some(1));
    assert!(
        several.err.contains("choose one with --program, or several with --include: small/model.pte, large/model.pte"),
        "{}",
        several.err
    );
    assert_eq!(pteron(&["pull", "o/m", "--program", "large/*", "-q"]).err, "");
    let missing = pteron(&["pull", "o/other"]);
    assert!(missing.err.contains("has no model o/other"), "{}", missing.err);
    assert_eq!(pteron(&["pull", "../x"]).code, Some(2));
    let json: serde_json::Value =
        serde_json::from_str(&pteron(&["pull", "o/m", "--include", "*.json", "--json"]).out).unwrap();
    assert_eq!(json["files"], serde_json::json!(["large/model.pte", "tokenizer.json"]));
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_has_arrived_and_the_next_pull_continues() {
    use rustix::process::Signal;
    let scratch = Scratch::new("pull-signal");
    let stalled = serve(model(), Some(3 << 20));
    let child = command(&stalled, &scratch.0, &["pull", "o/m"]).stderr(Stdio::piped()).spawn().unwrap();
    let partial = scratch.0.join("o/m/partial");
    let arrived = || std::fs::read_dir(&partial).ok()?.next()?.ok()?.metadata().ok().map(|metadata| metadata.len());
    let start = std::time::Instant::now();
    while arrived() != Some(3 << 20) {
        assert!(start.elapsed().as_secs() < 60, "{:?}", arrived());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    crate::signals::send(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted with 3145728 of "), "{err}");
    assert!(!scratch.0.join("o/m/snapshots").join(COMMIT).join("small/model.pte").exists());
    assert!(pteron(&stalled, &scratch.0, &["models"]).out.contains("incomplete"));
    let whole = serve(model(), None);
    assert_eq!(pteron(&whole, &scratch.0, &["pull", "o/m", "-q"]).code, Some(0));
    assert_eq!(arrived(), None);
}
