//! Names that must not stay behind: unfinished files, and folders for a while.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every name that would stay behind if the process ended now. Held for no longer than a change takes.
static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that is removed by [`abandon`] as long as this lives.
#[derive(Debug)]
pub(crate) struct Registered(PathBuf);

impl Registered {
    /// Registers a name before there is anything under it.
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

/// Removes every unfinished file and every [`TemporaryFolder`] of this process, and lets none begin after that: who tries waits
/// forever. For a process that is about to end without unwinding, as a signal wants it.
pub fn abandon() {
    let pending = lock();
    for path in pending.iter() {
        // What cannot be removed stays; nobody is left to hear of it.
        let _ = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
    }
    std::mem::forget(pending);
}

/// A new folder that only this user can enter, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: tempfile::TempDir,
    _registered: Registered,
}

impl TemporaryFolder {
    /// Makes a folder among the system's temporary files. Its name begins with `prefix` and ends in random characters.
    ///
    /// # Errors
    /// A folder that cannot be made.
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
