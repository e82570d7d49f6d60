//! The manifests of a conformance folder: programs, calls and expected outputs.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Failure;

/// A program and calls in order; state lives across the calls.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) program: Origin,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) folder: PathBuf,
    /// The folder's path from where the search began.
    pub(crate) below: PathBuf,
    /// The method of calls that name none.
    pub(crate) method: String,
    pub(crate) atol: f64,
    pub(crate) rtol: f64,
    pub(crate) calls: Vec<Call>,
}

/// Where a program comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A file that an exporter wrote.
    File(PathBuf),
    /// A checkpoint that is converted with the options the exporter had.
    Checkpoint(PathBuf, Conversion),
}

/// The options of a conversion. Without a group size, weights stay float32.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Conversion {
    pub(crate) context: u32,
    pub(crate) longest_call: u32,
    pub(crate) linear_group: Option<u32>,
    pub(crate) embedding_group: Option<u32>,
    pub(crate) full_logits: bool,
}

/// One call and its expected outputs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Call {
    #[serde(default)]
    pub(crate) method: Option<String>,
    pub(crate) inputs: Vec<File>,
    pub(crate) goldens: Vec<File>,
    #[serde(default)]
    pub(crate) argmax: Option<usize>,
}

/// A tensor in a file of raw bytes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u32>,
    #[serde(default)]
    pub(crate) output_index: usize,
}

#[derive(Deserialize)]
struct OpCase {
    name: String,
    pte: PathBuf,
    #[serde(default)]
    ptd: Vec<PathBuf>,
    #[serde(default = "forward")]
    method: String,
    atol: f64,
    rtol: f64,
    calls: Vec<Call>,
}

fn forward() -> String {
    "forward".to_owned()
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    program: Option<PathBuf>,
    #[serde(default)]
    checkpoint: Option<PathBuf>,
    /// A [`Conversion`], where there is a checkpoint; otherwise the exporter's own.
    #[serde(default)]
    options: Option<serde_json::Value>,
    #[serde(default)]
    ptd: Vec<PathBuf>,
    #[serde(default = "forward")]
    method: String,
    atol: f64,
    rtol: f64,
    sequences: Vec<Sequence>,
}

#[derive(Clone, Deserialize)]
struct Sequence {
    name: String,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Manifest {
    Cases(Vec<OpCase>),
    Model(Model),
    /// A manifest of files that are read and not run.
    Other {},
}

/// Names of manifests: of exports, and of checkpoints without an export.
const NAMES: [&str; 2] = ["manifest.json", "expected.json"];

/// Finds every case of every manifest below a folder, in order of path.
pub(crate) fn find(root: &Path) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let manifest = NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        if let Some(manifest) = manifest {
            let below = folder.strip_prefix(root).unwrap_or(&folder).to_path_buf();
            read(&manifest, &folder, &below, &mut cases)?;
            continue;
        }
        let entries = std::fs::read_dir(&folder).map_err(|error| Failure::file(&folder, &error))?;
        let mut below: Vec<_> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_dir()).collect();
        below.sort();
        folders.extend(below.into_iter().rev());
    }
    if cases.is_empty() { Err(Failure::Empty(root.to_path_buf())) } else { Ok(cases) }
}

fn read(path: &Path, folder: &Path, below: &Path, cases: &mut Vec<Case>) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    match serde_json::from_str(&text).map_err(|error| Failure::file(path, &error))? {
        Manifest::Cases(list) => cases.extend(list.into_iter().map(|case| Case {
            name: case.name,
            program: Origin::File(folder.join(case.pte)),
            data: case.ptd.iter().map(|path| folder.join(path)).collect(),
            folder: folder.to_path_buf(),
            below: below.to_path_buf(),
            method: case.method,
            atol: case.atol,
            rtol: case.rtol,
            calls: case.calls,
        })),
        Manifest::Model(model) => {
            let model_name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let file = model.program.as_ref().map(|path| (Origin::File(folder.join(path)), ""));
            let options = model.options.and_then(|options| serde_json::from_value(options).ok());
            let checkpoint = model.checkpoint.as_ref().zip(options);
            let converted = checkpoint.map(|(path, wanted)| (Origin::Checkpoint(folder.join(path), wanted), ", converted"));
            for (program, how) in file.into_iter().chain(converted) {
                cases.extend(model.sequences.iter().cloned().map(|sequence| Case {
                    name: format!("{model_name}/{}{how}", sequence.name),
                    program: program.clone(),
                    data: model.ptd.iter().map(|path| folder.join(path)).collect(),
                    folder: folder.to_path_buf(),
                    below: below.to_path_buf(),
                    method: model.method.clone(),
                    atol: model.atol,
                    rtol: model.rtol,
                    calls: sequence.calls,
                }));
            }
        }
        Manifest::Other {} => {}
    }
    Ok(())
}
