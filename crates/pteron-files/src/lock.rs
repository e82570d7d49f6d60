//! A lock between processes.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::fault;

/// An exclusive lock, held through an open file. The system releases it when this is dropped, or when the process ends in any way.
///
/// The file stays: removing it would let two processes hold locks on two files of one name.
#[derive(Debug)]
pub struct FileLock {
    /// The open file is the lock.
    _file: File,
}

impl FileLock {
    /// Takes the lock, and creates its file where there is none. `None` if another holder has it.
    ///
    /// # Errors
    /// A file that cannot be created or locked.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        fault(path)?;
        Ok(system::try_lock(path)?.map(|file| Self { _file: file }))
    }
}

#[cfg(unix)]
mod system {
    use std::fs::OpenOptions;

    use rustix::fs::{FlockOperation, OFlags, flock};

    use super::{File, Path, io};

    pub(super) fn try_lock(path: &Path) -> io::Result<Option<File>> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(windows)]
mod system {
    use std::fs::OpenOptions;

    use super::{File, Path, io};

    /// `ERROR_SHARING_VIOLATION`.
    const OPEN_ELSEWHERE: i32 = 32;

    /// A file that is opened without sharing can be opened once.
    pub(super) fn try_lock(path: &Path) -> io::Result<Option<File>> {
        use std::os::windows::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create(true).truncate(false).share_mode(0).open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(OPEN_ELSEWHERE) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    use super::{File, Path, io};

    pub(super) fn try_lock(_: &Path) -> io::Result<Option<File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
