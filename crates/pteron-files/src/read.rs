//! Bounded reads of regular files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use crate::{at_once, fault};

/// Why a file was not read. The text continues a sentence about the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// An I/O error.
    #[error("it could not be read: {0}")]
    Io(#[from] io::Error),
    /// A directory.
    #[error("it is a directory")]
    Directory,
    /// A pipe, a socket or a device.
    #[error("it is not a regular file")]
    Special,
    /// The file is larger than the limit.
    #[error("it has {len} bytes, and at most {limit} are read")]
    TooLarge {
        /// The size of the file, as far as it was read.
        len: u64,
        /// The limit.
        limit: u64,
    },
}

impl ReadError {
    /// Whether there is no file of that name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::Io(error) => return error,
            ReadError::Directory => io::ErrorKind::IsADirectory,
            ReadError::Special => io::ErrorKind::InvalidInput,
            ReadError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
        };
        Self::new(kind, error)
    }
}

/// Opens a regular file, or a link to one, for reading.
///
/// # Errors
/// A file that cannot be opened or is not a regular file. A pipe is rejected, not waited for.
pub fn open(path: &Path) -> Result<(File, Metadata), ReadError> {
    fault(path)?;
    // Checked before opening, because opening some devices has effects, and after it, because the name may have been replaced.
    check(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

fn check(metadata: &Metadata) -> Result<(), ReadError> {
    match () {
        () if metadata.is_file() => Ok(()),
        () if metadata.is_dir() => Err(ReadError::Directory),
        () => Err(ReadError::Special),
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As for [`open`]; a file that is larger, of which nothing is read; a file that does not fit into memory.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    read_if(path, limit, |_| Ok(()))
}

/// Reads a file if `accept` approves its metadata, even if the name is replaced meanwhile.
///
/// # Errors
/// As for [`read`], and errors of `accept`.
pub fn read_if(
    path: &Path,
    limit: u64,
    accept: impl FnOnce(&Metadata) -> Result<(), ReadError>,
) -> Result<Vec<u8>, ReadError> {
    let (file, metadata) = open(path)?;
    accept(&metadata)?;
    let too_large = |len: u64| if len > limit { Err(ReadError::TooLarge { len, limit }) } else { Ok(()) };
    too_large(metadata.len())?;
    let mut bytes = Vec::new();
    let expected = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(expected).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // One more than the limit, to notice a file that grows meanwhile.
    Watched { file, path }.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    too_large(bytes.len() as u64)?;
    Ok(bytes)
}

/// A file whose reads tests can fail.
struct Watched<'a> {
    file: File,
    path: &'a Path,
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        fault(self.path)?;
        let len = at_once(self.path, into.len());
        self.file.read(&mut into[..len])
    }
}
