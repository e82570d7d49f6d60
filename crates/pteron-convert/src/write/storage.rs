//! The file that a program is written to.

use std::io::{self, Seek, SeekFrom, Write};

use pteron_files::{AtomicFile, WriteOptions};

/// Synchronises before renaming: a conversion may have taken an hour.
pub(super) const OPTIONS: WriteOptions = WriteOptions { private: false, sync: true };

/// A writable file that is committed at the end.
pub(super) trait Storage: Write + Seek + Send {
    /// Truncates the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Gives the file its name.
    fn commit(self) -> io::Result<()>;

    fn write_at(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::Start(start))?;
        self.write_all(bytes)
    }
}

impl Storage for AtomicFile {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn commit(self) -> io::Result<()> {
        Self::commit(self)
    }
}
