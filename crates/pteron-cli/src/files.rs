//! Opening files, and recognising those that are something else.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pteron::FileBytes;
use pteron_format::{Error, Item, Part, Problem, Ptd, Pte};

use crate::failure::{Failure, Reason};

/// What a file should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Program,
    Data,
    Arrays,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "an ExecuTorch program (.pte)",
            Self::Data => "external data of an ExecuTorch program (.ptd)",
            Self::Arrays => "a file of arrays (.npz)",
        })
    }
}

/// Opens and verifies a program. Its constants are mapped, not read.
pub(crate) fn open_program(path: &Path) -> Result<Pte<FileBytes>, Failure> {
    let map = open(path, Wanted::Program)?;
    let foreign = Foreign::recognise(map.beginning());
    Pte::read(map).map_err(|error| explain(path, error, foreign, Wanted::Program))
}

/// Opens and verifies external data. Its blobs are mapped, not read.
pub(crate) fn open_data(path: &Path) -> Result<Ptd<FileBytes>, Failure> {
    let map = open(path, Wanted::Data)?;
    let foreign = Foreign::recognise(map.beginning());
    Ptd::read(map).map_err(|error| explain(path, error, foreign, Wanted::Data))
}

/// Maps a file that is there and not empty.
pub(crate) fn open(path: &Path, wanted: Wanted) -> Result<FileBytes, Failure> {
    let fail = |reason| Failure::file(path, reason);
    // Asked before opening: opening a pipe would wait for somebody to write to it.
    let metadata = fs::metadata(path).map_err(|error| fail(error.into()))?;
    if metadata.is_dir() {
        return Err(fail(Reason::Directory { example: example(path, wanted) }));
    }
    if !metadata.is_file() {
        return Err(fail(Reason::Special));
    }
    let bytes = FileBytes::map(path).map_err(|error| fail(error.into()))?;
    if bytes.beginning().is_empty() {
        return Err(fail(Reason::Empty { wanted }));
    }
    Ok(bytes)
}

/// Writes a file, all or nothing: it appears under its name when it is complete.
pub(crate) fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let whole = || {
        let mut out = BufWriter::new(File::create(&partial)?);
        content(&mut out)?;
        out.flush()?;
        fs::rename(&partial, path)
    };
    whole().map_err(|error| {
        // It may not exist; what failed first is what is worth saying.
        let _ = fs::remove_file(&partial);
        Failure::file(path, Reason::Unwritten(error))
    })
}

/// The first file of the wanted kind in a directory.
fn example(directory: &Path, wanted: Wanted) -> Option<PathBuf> {
    let extension = match wanted {
        Wanted::Program => "pte",
        Wanted::Data => "ptd",
        Wanted::Arrays => "npz",
    };
    let paths = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).min()
}

/// A wrong identifier says little; what the file is instead says what to do.
fn explain(path: &Path, error: Error, foreign: Option<Foreign>, wanted: Wanted) -> Failure {
    let start = matches!(error.place.part, Part::Header | Part::External) && matches!(error.place.item, Item::Byte(_));
    let unlike = matches!(error.problem, Problem::Magic { .. } | Problem::Truncated { .. });
    match foreign {
        Some(found) if start && unlike && !found.is(wanted) => Failure::file(path, Reason::Foreign { found, wanted }),
        _ => Failure::file(path, error),
    }
}

/// A kind of file that people have at hand when they look for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    Program,
    OtherProgram,
    ExternalData,
    Delegate,
    Gguf,
    Safetensors,
    Zip,
    Pickle,
    TfLite,
    Gzip,
    LfsPointer,
    WebPage,
}

impl Foreign {
    fn recognise(bytes: &[u8]) -> Option<Self> {
        let at = |start: usize, magic: &[u8]| bytes.get(start..).is_some_and(|rest| rest.starts_with(magic));
        Some(match () {
            () if at(4, b"ET12") => Self::Program,
            () if at(4, b"ET") => Self::OtherProgram,
            () if at(4, b"FT01") => Self::ExternalData,
            () if at(4, b"VH00") => Self::Delegate,
            () if at(4, b"TFL3") => Self::TfLite,
            () if at(0, b"GGUF") => Self::Gguf,
            () if at(0, b"PK\x03\x04") => Self::Zip,
            () if at(0, b"\x1f\x8b") => Self::Gzip,
            () if at(0, b"version https://git-lfs") => Self::LfsPointer,
            () if at(0, b"<!DOCTYPE") || at(0, b"<!doctype") || at(0, b"<html") => Self::WebPage,
            () if is_safetensors(bytes) => Self::Safetensors,
            () if at(0, b"\x80") && bytes.get(1).is_some_and(|version| (2..=5).contains(version)) => Self::Pickle,
            () => return None,
        })
    }

    fn is(self, wanted: Wanted) -> bool {
        matches!((self, wanted), (Self::Program, Wanted::Program) | (Self::ExternalData, Wanted::Data))
    }

    /// What the person who has this file can do.
    pub(crate) fn advice(self, wanted: Wanted) -> &'static str {
        match (self, wanted) {
            (Self::Program, _) => "give it as a program, without --data",
            (Self::ExternalData, _) => "inspect the program it belongs to and pass this file with --data",
            (Self::OtherProgram, _) => "export the model again with a version of ExecuTorch that writes ET12",
            (Self::Delegate, _) => "give the whole program it was taken from",
            (Self::Gzip, _) => "unpack it first",
            (Self::LfsPointer, _) => "fetch the real file with `git lfs pull`",
            (Self::WebPage, _) => "the download went wrong, so fetch it again",
            (_, Wanted::Data) => "pass the .ptd file that was exported with the program",
            (_, Wanted::Arrays) => "save the inputs of a call with numpy.savez",
            (_, Wanted::Program) => "export the model to .pte with ExecuTorch and its Vulkan partitioner",
        }
    }
}

/// The length of a JSON header, then the header.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((len, rest)) = bytes.split_first_chunk() else { return false };
    rest.starts_with(b"{") && u64::from_le_bytes(*len) <= rest.len() as u64
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "an ExecuTorch program (.pte)",
            Self::OtherProgram => "an ExecuTorch program of another version",
            Self::ExternalData => "external data (.ptd)",
            Self::Delegate => "the data of a single Vulkan delegate",
            Self::Gguf => "a GGUF checkpoint",
            Self::Safetensors => "a safetensors checkpoint",
            Self::Zip => "a zip archive, perhaps a PyTorch checkpoint (.pt, .pth) or an exported program (.pt2)",
            Self::Pickle => "a Python pickle, perhaps an old PyTorch checkpoint",
            Self::TfLite => "a TensorFlow Lite model",
            Self::Gzip => "compressed with gzip",
            Self::LfsPointer => "a Git LFS pointer",
            Self::WebPage => "a web page",
        })
    }
}
