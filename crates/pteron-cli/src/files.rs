//! Opens programs, data and arrays, and recognises files of other kinds.

use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use pteron::FileBytes;
use pteron_files::{AtomicFile, ReadError, WriteOptions};
use pteron_format::{Error, Item, Problem, Ptd, Pte, Section};

use crate::failure::{Failure, Reason};

/// The kind of file a command expects.
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

/// Opens and verifies a program. Constants are mapped, not read.
pub(crate) fn open_program(path: &Path) -> Result<Pte<FileBytes>, Failure> {
    let map = open(path, Wanted::Program)?;
    let foreign = Foreign::recognise(map.beginning());
    Pte::read(map).map_err(|error| explain(path, error, foreign, Wanted::Program))
}

/// Opens and verifies external data. Blobs are mapped, not read.
pub(crate) fn open_data(path: &Path) -> Result<Ptd<FileBytes>, Failure> {
    let map = open(path, Wanted::Data)?;
    let foreign = Foreign::recognise(map.beginning());
    Ptd::read(map).map_err(|error| explain(path, error, foreign, Wanted::Data))
}

/// Maps a regular file that is not empty.
pub(crate) fn open(path: &Path, wanted: Wanted) -> Result<FileBytes, Failure> {
    let fail = |reason| Failure::file(path, reason);
    // Checked before opening: opening a pipe would wait for a writer.
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

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    pteron_files::read(path, limit).map_err(|error| Failure::file(path, error))
}

/// Reads a file that may be a pipe of the shell, as in `--file <(command)`.
pub(crate) fn read_or_stream(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let is_handle = ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder));
    if !is_handle {
        return read(path, limit);
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes));
    let len = read.map_err(|error| Failure::file(path, error))? as u64;
    if len > limit { Err(Failure::file(path, ReadError::TooLarge { len, limit })) } else { Ok(bytes) }
}

/// Options of files that users request.
const FOR_USERS: WriteOptions = WriteOptions { private: false, sync: true };

/// Writes a file whole or not at all: it appears under its name when it is complete.
pub(crate) fn write(path: &Path, content: impl FnOnce(&mut BufWriter<AtomicFile>) -> io::Result<()>) -> Result<(), Failure> {
    write_with(path, FOR_USERS, content)
}

/// Writes a file as [`write`] does, with other options.
pub(crate) fn write_with(
    path: &Path,
    options: WriteOptions,
    content: impl FnOnce(&mut BufWriter<AtomicFile>) -> io::Result<()>,
) -> Result<(), Failure> {
    pteron_files::write(path, options, content).map_err(|error| Failure::file(path, Reason::Unwritten(error)))
}

/// Returns the first file of the wanted kind in a directory.
fn example(directory: &Path, wanted: Wanted) -> Option<PathBuf> {
    let extension = match wanted {
        Wanted::Program => "pte",
        Wanted::Data => "ptd",
        Wanted::Arrays => "npz",
    };
    let paths = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).min()
}

/// Replaces an error about the first bytes by one that names the file's actual kind.
fn explain(path: &Path, error: Error, foreign: Option<Foreign>, wanted: Wanted) -> Failure {
    let start = matches!(error.location.section, Section::Header | Section::External)
        && matches!(error.location.item, Item::Byte(_));
    let unlike = matches!(error.problem, Problem::Magic { .. } | Problem::Truncated { .. });
    match foreign {
        Some(found) if start && unlike && !found.is(wanted) => Failure::file(path, Reason::Foreign { found, wanted }),
        _ => Failure::file(path, error),
    }
}

/// Kinds of files that users pass by mistake.
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

    /// Says what to do with a file of this kind.
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

/// Whether the bytes are the length of a JSON header and the header.
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

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use pteron_files::{TemporaryFolder, faults};

    use super::*;

    /// Fails every operation below `folder` in turn, and returns their number. Checks that each error names a path there and that
    /// `folder` is unchanged.
    pub(crate) fn fail_each(folder: &Path, attempt: impl Fn() -> Result<(), Failure>) -> u64 {
        let before = listed(folder);
        for operations in 0.. {
            let fault = faults::fail_after(folder, operations, io::ErrorKind::StorageFull);
            let result = attempt();
            if !fault.reached() {
                result.unwrap();
                return operations;
            }
            let sentence = result.unwrap_err().to_string();
            assert!(sentence.starts_with(&*folder.to_string_lossy()), "after {operations}: {sentence}");
            assert_eq!(listed(folder), before, "after {operations} operations");
        }
        0
    }

    /// Every file below a folder, with its content.
    fn listed(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                files.extend(listed(&entry.path()));
            } else {
                files.push((entry.path(), fs::read(entry.path()).unwrap()));
            }
        }
        files.sort();
        files
    }

    #[test]
    fn a_failing_disk_leaves_the_old_file_and_the_next_write_works() {
        let folder = TemporaryFolder::new("pteron-cli-").unwrap();
        let path = folder.path().join("out.txt");
        write(&path, |out| out.write_all(b"old")).unwrap();
        let text = [b'n'; 20_000];
        assert_eq!(fail_each(folder.path(), || write(&path, |out| out.write_all(&text))), 4);
        assert_eq!(fs::read(&path).unwrap(), text);
        let _short = faults::short(folder.path(), 3);
        write(&path, |out| out.write_all(b"in small pieces")).unwrap();
        assert_eq!(read(&path, 100).unwrap(), b"in small pieces");
    }

    /// A temporary name that can be guessed would let somebody else choose which file is overwritten.
    #[cfg(unix)]
    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = TemporaryFolder::new("pteron-cli-").unwrap();
        let [path, victim] = ["out.txt", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        let planted = folder.path().join(format!(".out.txt.{}.partial", std::process::id()));
        std::os::unix::fs::symlink(&victim, planted).unwrap();
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!((fs::read(&victim).unwrap(), fs::read(&path).unwrap()), (b"precious".to_vec(), b"new".to_vec()));
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn streams_of_the_shell_are_read_and_limited() {
        use std::os::fd::AsRawFd;
        let folder = TemporaryFolder::new("pteron-cli-").unwrap();
        let path = folder.path().join("prompt");
        fs::write(&path, "twelve bytes").unwrap();
        let file = fs::File::open(&path).unwrap();
        let handle = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
        assert_eq!(read_or_stream(&handle, 12).unwrap(), b"twelve bytes");
        assert!(read_or_stream(&handle, 11).unwrap_err().to_string().contains("it has 12 bytes, more than the 11"));
    }
}
