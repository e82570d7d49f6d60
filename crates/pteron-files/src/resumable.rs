//! Files that are written in several attempts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::write::sync_folder;
use crate::{at_once, fault};

/// A file that keeps its bytes under a name of its own until it is complete, so that a later process can continue it.
/// [`commit`](Self::commit) moves it to its final path.
#[derive(Debug)]
pub struct ResumableFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl ResumableFile {
    /// Opens the file at `path` to continue it, or creates it. A link is not followed.
    ///
    /// # Errors
    /// A file that cannot be opened for reading and writing, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        fault(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use rustix::fs::OFlags;
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        }
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut file = Self { file, path: path.to_owned(), len: metadata.len() };
        file.file.seek(SeekFrom::Start(file.len))?;
        Ok(file)
    }

    /// The number of bytes it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Passes the bytes it has to `each`, in blocks.
    ///
    /// # Errors
    /// I/O errors and errors of `each`.
    pub fn read_back<E: From<io::Error>>(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut block = vec![0; 1 << 20];
        let mut left = self.len;
        while left > 0 {
            fault(&self.path)?;
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            let read = self.file.read(&mut block[..at_once(&self.path, most)])?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            each(&block[..read])?;
            left -= read as u64;
        }
        self.file.seek(SeekFrom::Start(self.len))?;
        Ok(())
    }

    /// Drops all bytes.
    ///
    /// # Errors
    /// I/O errors.
    pub fn clear(&mut self) -> io::Result<()> {
        fault(&self.path)?;
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.len = 0;
        Ok(())
    }

    /// Synchronises the file to disk and moves it to `path`, which must be on the same file system. Replaces what is there.
    ///
    /// # Errors
    /// I/O errors; the file then keeps its own name.
    pub fn commit(self, path: &Path) -> io::Result<()> {
        fault(&self.path)?;
        self.file.sync_all()?;
        // Some systems rename no open file.
        let partial = self.close();
        fault(path)?;
        fs::rename(&partial, path)?;
        sync_folder(path);
        Ok(())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(self.close())
    }

    /// Closes the file and returns its path.
    fn close(self) -> PathBuf {
        self.path
    }
}

impl Write for ResumableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fault(&self.path)?;
        let written = self.file.write(&bytes[..at_once(&self.path, bytes.len())])?;
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
