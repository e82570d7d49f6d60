//! A file that takes its name when it is whole, and otherwise leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// What a program is written to.
pub(super) trait Storage: Write + Seek + Send {
    /// Cuts what lies behind `len` off and makes the rest safe.
    fn finish(&mut self, len: u64) -> io::Result<()>;

    fn write_at(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::Start(start))?;
        self.write_all(bytes)
    }
}

impl Storage for File {
    fn finish(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.sync_all()
    }
}

/// A file under a temporary name beside its final one. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Pending {
    temporary: PathBuf,
    path: PathBuf,
}

impl Pending {
    /// Makes the temporary file: in the same folder, so that renaming moves no bytes.
    pub(super) fn create(path: &Path) -> Result<(Self, File)> {
        /// Conversions of one process may have the same target.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let failed = |error| Error::Write { path: path.to_owned(), error };
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{}.tmp", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let temporary = path.with_file_name(hidden);
        let file = File::create(&temporary).map_err(failed)?;
        Ok((Self { temporary, path: path.to_owned() }, file))
    }

    /// Gives the file its name.
    pub(super) fn keep(self) -> Result<()> {
        // Once renamed, there is nothing under the temporary name for `drop` to remove.
        fs::rename(&self.temporary, &self.path).map_err(|error| Error::Write { path: self.path.clone(), error })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Nobody is left to hear that even this failed.
        let _ = fs::remove_file(&self.temporary);
    }
}
