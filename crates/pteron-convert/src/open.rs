//! Detects the kind of a checkpoint and opens it.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::hf::HuggingFace;
use crate::source::Source;

/// A kind of checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// A folder with `config.json` and safetensors.
    HuggingFace,
    /// A GGUF file.
    Gguf,
}

/// Opens a checkpoint of any kind.
///
/// # Errors
/// A path that is not a checkpoint, or a checkpoint that cannot be read.
pub fn open_checkpoint(path: &Path) -> Result<Box<dyn Source>> {
    match detect(path)? {
        CheckpointKind::HuggingFace => Ok(Box::new(HuggingFace::open(path)?)),
        CheckpointKind::Gguf => Ok(Box::new(Gguf::open(path)?)),
    }
}

/// Detects the kind of a checkpoint from its first bytes or file names.
///
/// # Errors
/// A path that does not exist or is not a checkpoint. The message says what to pass instead.
pub fn detect(path: &Path) -> Result<CheckpointKind> {
    let unreadable = |error| Error::Read { path: path.to_owned(), error };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return detect_folder(path);
    }
    if !metadata.is_file() {
        return Err(instead(path, "it is neither a file nor a folder".to_owned()));
    }
    let mut start = Vec::new();
    let (file, _) = pteron_files::open(path).map_err(|error| unreadable(error.into()))?;
    file.take(LONGEST_MAGIC).read_to_end(&mut start).map_err(unreadable)?;
    detect_file(path, &start)
}

fn detect_folder(folder: &Path) -> Result<CheckpointKind> {
    if folder.join("config.json").is_file() {
        return Ok(CheckpointKind::HuggingFace);
    }
    let has = |extension| first_file(folder, &[extension]);
    Err(if folder.join("adapter_config.json").is_file() {
        instead(folder, "it is an adapter, not a model: merge it into its base model and give the folder of that".to_owned())
    } else if let Some(name) = has("gguf") {
        instead(folder, format!("it is a folder: give the GGUF file in it, {}", folder.join(name).display()))
    } else if let Some(name) = has("safetensors") {
        instead(folder, format!("it has {name}, but no config.json: put the model's beside it"))
    } else if let Some(name) = first_file(folder, &PYTORCH) {
        pytorch(folder, &name)
    } else {
        instead(folder, "it has no config.json: give a folder with config.json and safetensors, or a GGUF file".to_owned())
    })
}

/// The start of the file that a clone without Git LFS has instead of a large file.
pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs";
pub(crate) const LFS_ADVICE: &str = "it is a Git LFS pointer, not the file itself: fetch that with `git lfs pull`";

/// The most bytes that detection needs.
const LONGEST_MAGIC: u64 = 32;

fn detect_file(path: &Path, start: &[u8]) -> Result<CheckpointKind> {
    let at = |offset: usize, magic: &[u8]| start.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if at(0, b"GGUF") {
        return Ok(CheckpointKind::Gguf);
    }
    let problem = if at(4, b"ET") || extension == "pte" {
        "it is an ExecuTorch program already: give it to `pteron run`"
    } else if at(0, LFS_POINTER) {
        LFS_ADVICE
    } else if extension == "safetensors" || at(8, b"{\"") {
        "safetensors hold weights alone: give the folder that has this file and config.json"
    } else if extension == "json" {
        "give the folder that this file is in"
    } else if at(0, b"PK\x03\x04") || PYTORCH.contains(&extension.as_str()) {
        PYTORCH_ADVICE
    } else {
        "it is no checkpoint: give a folder with config.json and safetensors, or a GGUF file"
    };
    Err(instead(path, problem.to_owned()))
}

/// Extensions of files that `torch.save` writes.
const PYTORCH: [&str; 3] = ["bin", "pth", "pt"];

const PYTORCH_ADVICE: &str = "PyTorch's own files can run code when they are read: save the model as safetensors, with \
                              `save_pretrained` of transformers, and give that folder";

fn pytorch(folder: &Path, name: &str) -> Error {
    instead(folder, format!("it has {name}, but no safetensors; {PYTORCH_ADVICE}"))
}

/// A folder with `config.json` that lacks its weights.
pub(crate) fn no_safetensors(folder: &Path, wanted: &str) -> Error {
    match first_file(folder, &PYTORCH) {
        Some(name) => pytorch(folder, &name),
        None => instead(folder, format!("it has no {wanted}: download the weights, too")),
    }
}

/// Returns the first file, by name, with one of these extensions.
fn first_file(folder: &Path, extensions: &[&str]) -> Option<String> {
    let paths = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let matching = paths.filter(|path| {
        path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension)) && path.is_file()
    });
    matching.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).min()
}

fn instead(path: &Path, problem: String) -> Error {
    Error::Malformed { file: path.display().to_string(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Temporary;

    fn with(files: &[(&str, &[u8])]) -> Temporary {
        let folder = Temporary::new();
        files.iter().for_each(|(name, bytes)| folder.write(name, bytes));
        folder
    }

    fn open_error(path: &Path) -> String {
        let text = detect(path).unwrap_err().to_string();
        text.strip_prefix(&format!("{}: ", path.display())).map(str::to_owned).unwrap_or(text)
    }

    #[test]
    fn checkpoints_are_recognised() {
        let folder = with(&[("config.json", b"{}"), ("any.name", b"GGUF\x03\0\0\0")]);
        assert_eq!(detect(folder.path()).unwrap(), CheckpointKind::HuggingFace);
        assert_eq!(detect(&folder.path().join("any.name")).unwrap(), CheckpointKind::Gguf);
    }

    #[test]
    fn a_hugging_face_folder_is_opened_by_its_reader() {
        let folder = with(&[("config.json", b"{}")]);
        assert_eq!(open_checkpoint(folder.path()).err().unwrap().to_string(), "config.json: architectures is missing");
    }

    #[test]
    fn other_files_are_rejected_with_advice() {
        let header = [&2_u64.to_le_bytes()[..], b"{\"\""].concat();
        for (name, bytes, problem) in [
            (
                "model.safetensors",
                &b""[..],
                "safetensors hold weights alone: give the folder that has this file and config.json",
            ),
            ("weights", &header, "safetensors hold weights alone: give the folder that has this file and config.json"),
            ("model.pte", b"", "it is an ExecuTorch program already: give it to `pteron run`"),
            ("program", b"\0\0\0\0ET12", "it is an ExecuTorch program already: give it to `pteron run`"),
            ("config.json", b"{}", "give the folder that this file is in"),
            (
                "model.gguf",
                b"version https://git-lfs.github.com",
                "it is a Git LFS pointer, not the file itself: fetch that with `git lfs pull`",
            ),
            ("pytorch_model.bin", b"\x80\x02", PYTORCH_ADVICE),
            ("consolidated.00.PTH", b"", PYTORCH_ADVICE),
            ("archive", b"PK\x03\x04", PYTORCH_ADVICE),
            ("notes.txt", b"", "it is no checkpoint: give a folder with config.json and safetensors, or a GGUF file"),
        ] {
            let folder = with(&[(name, bytes)]);
            assert_eq!(open_error(&folder.path().join(name)), problem, "{name}");
        }
    }

    #[test]
    fn other_folders_are_rejected_with_advice() {
        for (files, problem) in [
            (&[][..], "it has no config.json: give a folder with config.json and safetensors, or a GGUF file"),
            (
                &["adapter_config.json", "adapter_model.safetensors"],
                "it is an adapter, not a model: merge it into its base model and give the folder of that",
            ),
            (&["model.safetensors"], "it has model.safetensors, but no config.json: put the model's beside it"),
        ] {
            let files: Vec<_> = files.iter().map(|name| (*name, &b""[..])).collect();
            assert_eq!(open_error(with(&files).path()), problem);
        }
        let folder = with(&[("b.gguf", b""), ("a.gguf", b"")]);
        assert_eq!(
            open_error(folder.path()),
            format!("it is a folder: give the GGUF file in it, {}", folder.path().join("a.gguf").display())
        );
        let folder = with(&[("consolidated.00.pth", b""), ("params.json", b"")]);
        assert_eq!(open_error(folder.path()), format!("it has consolidated.00.pth, but no safetensors; {PYTORCH_ADVICE}"));
    }

    #[test]
    fn a_folder_without_weights_names_the_missing_file() {
        let config = br#"{"model_type": "llama"}"#;
        let refused = |folder: &Temporary| HuggingFace::open(folder.path()).err().unwrap().to_string();
        let folder = with(&[("config.json", config)]);
        let start = folder.path().display();
        assert_eq!(refused(&folder), format!("{start}: it has no model.safetensors: download the weights, too"));
        fs::write(folder.path().join("pytorch_model-00001-of-00002.bin"), b"").unwrap();
        let name = "pytorch_model-00001-of-00002.bin";
        assert_eq!(refused(&folder), format!("{start}: it has {name}, but no safetensors; {PYTORCH_ADVICE}"));
    }

    #[test]
    fn a_missing_path_is_an_error() {
        let text = detect(Path::new("no-such-folder")).unwrap_err().to_string();
        assert!(text.starts_with("cannot read no-such-folder: "), "{text}");
    }
}
