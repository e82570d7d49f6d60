//! Temporary names to remove on exit: unfinished files and temporary folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names that would remain if the process exited now.
static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a name with [`abandon`] until dropped.
#[derive(Debug)]
pub(crate) struct Registered(PathBuf);

impl Registered {
    /// Registers a name before anything is created there.
    pub(crate) fn new(path: &Path) -> Self {
        lock().insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock().remove(&self.0);
    }
}

/// Removes every unfinished file and [`TemporaryFolder`] of this process. Later attempts to create one block forever. For processes
/// that exit without unwinding, for example in a signal handler thread.
pub fn abandon() {
    let pending = lock();
    for path in pending.iter() {
        // Errors are ignored: the process is about to exit.
        let _ = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
    }
    std::mem::forget(pending);
}

/// A private temporary folder that is removed with its contents when dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: tempfile::TempDir,
    _registered: Registered,
}

impl TemporaryFolder {
    /// Creates a folder in the system's temporary directory, named `prefix` and random characters.
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM).tempdir()?;
        let registered = Registered::new(folder.path());
        Ok(Self { folder, _registered: registered })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Random characters in a name, of 62 each: more than can be tried.
pub(crate) const RANDOM: usize = 12;
