//! Other runtimes, measured in turns with this one: the `llama-bench` programs in a folder.
//!
//! Every round runs each of our cases once and then each peer once on the same cases, so that drift affects all alike. A peer's model
//! has the same shape as ours only if the user takes care of it; the report names both files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::cases::Case;
use super::stats::Summary;
use crate::failure::{Failure, Reason};

/// The start of a peer's file name.
const PROGRAM: &str = "llama-bench";
/// Options of every run: all layers on the GPU, flash attention, one timed run after a warm-up.
const OPTIONS: [&str; 8] = ["-ngl", "99", "-fa", "1", "-r", "1", "-o", "json"];

/// A program to compare with, and its figures so far.
#[derive(Debug, Serialize)]
pub(super) struct Peer {
    /// The folder or the file it is named by.
    pub(super) name: String,
    #[serde(skip)]
    program: PathBuf,
    /// The name of the model's file, and what the peer says about itself.
    pub(super) model: String,
    pub(super) build: Option<String>,
    pub(super) backends: Option<String>,
    pub(super) gpu: Option<String>,
    pub(super) tests: Vec<PeerTest>,
}

/// Speeds of a peer in one case.
#[derive(Debug, Serialize)]
pub(super) struct PeerTest {
    #[serde(flatten)]
    pub(super) case: CaseName,
    /// Of each run.
    pub(super) tokens_per_second: Vec<f64>,
}

/// A case as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CaseName {
    test: &'static str,
    tokens: u32,
    depth: u32,
}

impl CaseName {
    pub(super) fn new(case: Case) -> Self {
        let test = if matches!(case, Case::Prefill { .. }) { "prefill" } else { "decode" };
        Self { test, tokens: case.tokens(), depth: case.depth() }
    }
}

/// A row of what `llama-bench -o json` prints; it has more fields.
#[derive(Debug, Deserialize)]
struct Row {
    n_prompt: u32,
    n_gen: u32,
    #[serde(default)]
    n_depth: u32,
    avg_ts: f64,
    build_commit: Option<String>,
    build_number: Option<u64>,
    backends: Option<String>,
    gpu_info: Option<String>,
}

impl Row {
    fn case(&self) -> Option<CaseName> {
        match (self.n_prompt, self.n_gen) {
            (tokens, 0) => Some(CaseName { test: "prefill", tokens, depth: self.n_depth }),
            (0, tokens) => Some(CaseName { test: "decode", tokens, depth: self.n_depth }),
            _ => None,
        }
    }
}

/// Finds the peers in a folder and its subfolders, by name, and the model they run: the given one, or the only GGUF file there.
pub(super) fn find(folder: &Path, model: Option<&Path>) -> Result<(Vec<Peer>, PathBuf), Failure> {
    let files = files_below(folder)?;
    let models = || files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    let model = match (model, models().collect::<Vec<_>>().as_slice()) {
        (Some(model), _) => model.to_owned(),
        (None, [only]) => (*only).clone(),
        (None, found) => return Err(Failure::file(folder, Reason::PeerModel { found: found.len() })),
    };
    let named = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(PROGRAM));
    let executable = |path: &&PathBuf| path.extension().is_none_or(|extension| extension == "exe" || extension == "sh");
    let programs: Vec<&PathBuf> = files.iter().filter(named).filter(executable).collect();
    if programs.is_empty() {
        return Err(Failure::file(folder, Reason::NoPeer));
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let peer = |program: &&PathBuf| {
        let inside = program.parent().filter(|parent| *parent != folder);
        Peer {
            name: inside.map_or_else(|| name(program), name),
            program: (*program).clone(),
            model: name(&model),
            build: None,
            backends: None,
            gpu: None,
            tests: Vec::new(),
        }
    };
    Ok((programs.iter().map(peer).collect(), model))
}

/// Files of a folder and of its folders, sorted by path.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, Failure> {
        let failed = |error| Failure::file(folder, Reason::Io(error));
        let entries = std::fs::read_dir(folder).map_err(failed)?;
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
    };
    let mut files = Vec::new();
    for path in list(folder)? {
        match path.is_dir() {
            true => files.extend(list(&path)?.into_iter().filter(|path| path.is_file())),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

impl Peer {
    /// Runs the cases once and keeps their speeds.
    pub(super) fn run(&mut self, model: &Path, cases: &[Case]) -> Result<(), Failure> {
        for arguments in arguments(cases) {
            let mut command = Command::new(&self.program);
            command.arg("-m").arg(model).args(OPTIONS).args(arguments).stdin(Stdio::null());
            let output = command.output().map_err(|error| Failure::file(&self.program, Reason::Io(error)))?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                let last = crate::terminal::clean(text.lines().last().unwrap_or_default()).into_owned();
                return Err(Failure::file(&self.program, Reason::PeerFailed { status: output.status, last }));
            }
            self.take(&output.stdout, cases)?;
        }
        Ok(())
    }

    /// Keeps the speeds of the requested cases.
    fn take(&mut self, json: &[u8], cases: &[Case]) -> Result<(), Failure> {
        let rows: Vec<Row> =
            serde_json::from_slice(json).map_err(|error| Failure::file(&self.program, Reason::PeerOutput(error)))?;
        for row in rows {
            let Some(case) = row.case().filter(|case| cases.iter().any(|asked| CaseName::new(*asked) == *case)) else {
                continue;
            };
            self.build = row.build_commit.map(|commit| match row.build_number {
                Some(number) => format!("{number} ({commit})"),
                None => commit,
            });
            (self.backends, self.gpu) = (row.backends, row.gpu_info);
            match self.tests.iter_mut().find(|test| test.case == case) {
                Some(test) => test.tokens_per_second.push(row.avg_ts),
                None => self.tests.push(PeerTest { case, tokens_per_second: vec![row.avg_ts] }),
            }
        }
        Ok(())
    }

    /// Speeds in a case.
    pub(super) fn speed(&self, case: Case) -> Option<Summary> {
        let test = self.tests.iter().find(|test| test.case == CaseName::new(case))?;
        Summary::of(test.tokens_per_second.iter().copied())
    }
}

/// The options for some cases: one run for prompts and one for decode lengths, which a peer would otherwise combine.
fn arguments(cases: &[Case]) -> Vec<Vec<String>> {
    let list = |numbers: Vec<u32>| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let prompts: Vec<u32> = cases.iter().filter(|case| matches!(case, Case::Prefill { .. })).map(Case::tokens).collect();
    let decode = || cases.iter().filter(|case| matches!(case, Case::Decode { .. }));
    let mut all = Vec::new();
    if !prompts.is_empty() {
        all.push(["-p", &list(prompts), "-n", "0"].map(str::to_owned).to_vec());
    }
    if let Some(first) = decode().next() {
        let depths = list(decode().map(Case::depth).collect());
        all.push(["-p", "0", "-n", &first.tokens().to_string(), "-d", &depths].map(str::to_owned).to_vec());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [Case; 4] = [
        Case::Prefill { tokens: 128 },
        Case::Prefill { tokens: 512 },
        Case::Decode { tokens: 32, depth: 0 },
        Case::Decode { tokens: 32, depth: 4096 },
    ];

    fn peer() -> Peer {
        let (name, program, model) = ("cuda".to_owned(), PathBuf::from("llama-bench"), "m.gguf".to_owned());
        Peer { name, program, model, build: None, backends: None, gpu: None, tests: Vec::new() }
    }

    #[test]
    fn prompts_and_decode_are_separate_runs() {
        let all: Vec<String> = arguments(&CASES).iter().map(|list| list.join(" ")).collect();
        assert_eq!(all, ["-p 128,512 -n 0", "-p 0 -n 32 -d 0,4096"]);
        assert_eq!(arguments(&CASES[..1]).len(), 1);
        assert!(arguments(&[]).is_empty());
    }

    #[test]
    fn rows_of_other_cases_are_left_out() {
        let mut peer = peer();
        let rows = r#"[{"build_commit": "abc", "build_number": 7, "backends": "CUDA", "gpu_info": "Wing", "n_prompt": 128, "n_gen": 0,
            "n_depth": 0, "avg_ts": 100.5, "stddev_ts": 0.0, "samples_ts": [100.5]},
            {"n_prompt": 0, "n_gen": 32, "n_depth": 4096, "avg_ts": 20.0},
            {"n_prompt": 64, "n_gen": 32, "n_depth": 0, "avg_ts": 3.0}, {"n_prompt": 64, "n_gen": 0, "avg_ts": 3.0}]"#;
        peer.take(rows.as_bytes(), &CASES).unwrap();
        peer.take(br#"[{"n_prompt": 128, "n_gen": 0, "avg_ts": 99.5, "build_commit": "abc"}]"#, &CASES).unwrap();
        assert_eq!((peer.tests.len(), peer.build.as_deref()), (2, Some("abc")));
        assert_eq!(peer.speed(CASES[0]).unwrap().median, 100.0);
        assert_eq!(peer.speed(CASES[3]).unwrap().median, 20.0);
        assert_eq!(peer.speed(CASES[2]), None);
        let error = peer.take(b"ggml_cuda_init: found 1 device", &CASES).unwrap_err().to_string();
        assert!(error.starts_with("llama-bench: it did not print the JSON of llama-bench: "), "{error}");
    }
}
