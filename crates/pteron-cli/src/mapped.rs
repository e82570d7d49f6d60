//! Files in memory without reading them: the one place of this crate with `unsafe`.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// A file mapped into memory.
#[derive(Debug)]
pub(crate) struct Mapped(Mmap);

impl Mapped {
    /// Maps a whole file, which must not be empty.
    #[allow(unsafe_code, reason = "a program may be larger than memory, and most of its bytes are never looked at")]
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only and private to this process, and its bytes are treated as hostile data whatever they
        // are. What remains is that somebody changes the file while it is being read: then a check may see other bytes than
        // a later look, or the system ends the process where the file was cut. Every program that maps files accepts that.
        unsafe { Mmap::map(file) }.map(Self)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
