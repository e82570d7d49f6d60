//! Memory-mapped files.

use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// The bytes of a file.
pub(crate) enum Mapped {
    File(Mmap),
    Memory(Vec<u8>),
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// A file that cannot be opened or mapped, or that is not a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        map(path).map_err(|error| Error::Read { path: path.to_owned(), error })
    }
}

fn map(path: &Path) -> std::io::Result<Mapped> {
    let (file, metadata) = pteron_files::open(path)?;
    // An empty file cannot be mapped.
    if metadata.len() == 0 {
        return Ok(Mapped::Memory(Vec::new()));
    }
    // SAFETY: the map is read-only and private. Another process that shortens the file while it is mapped could end this one
    // with a signal; no program that maps checkpoints can rule that out.
    #[allow(unsafe_code, reason = "mapping a file is unsafe by nature; this is the one place that does it")]
    let map = unsafe { Mmap::map(&file)? };
    Ok(Mapped::File(map))
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::File(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Mapped {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes)
    }
}
