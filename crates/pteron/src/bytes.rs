//! A file's bytes: mapped where there are files, owned elsewhere.

use std::fmt;

use pteron_format::{Bytes, Extent, Sparse};

/// The bytes of a program or of external data.
pub enum FileBytes {
    /// In memory.
    Owned(Vec<u8>),
    /// Part of the binary.
    Static(&'static [u8]),
    /// Those parts of a file that have been read.
    Sparse(Sparse),
    /// Mapped from a file.
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(memmap2::Mmap),
}

impl FileBytes {
    /// Maps a file. Pages are read when they are touched, so verification of a large program reads little of it.
    ///
    /// # Errors
    /// A file that cannot be opened or mapped.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn map(path: &std::path::Path) -> std::io::Result<Self> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the map is read-only and private. Another process that shortens the file while it is mapped could end this
        // one with a signal; no runtime that maps models can rule that out.
        #[allow(unsafe_code, reason = "mapping a file is unsafe by nature; this is the one place that does it")]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self::Mapped(map))
    }
}

impl FileBytes {
    /// The whole file, or what is at hand of its beginning.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        self.whole().unwrap_or_else(Sparse::beginning)
    }

    /// The whole file, unless only parts of it are at hand.
    fn whole(&self) -> Result<&[u8], &Sparse> {
        match self {
            Self::Owned(bytes) => Ok(bytes),
            Self::Static(bytes) => Ok(bytes),
            Self::Sparse(parts) => Err(parts),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Mapped(map) => Ok(map),
        }
    }
}

impl Bytes for FileBytes {
    fn file_len(&self) -> u64 {
        self.whole().map_or_else(Bytes::file_len, Bytes::file_len)
    }

    fn get(&self, part: Extent) -> Option<&[u8]> {
        self.whole().map_or_else(|parts| parts.get(part), |bytes| Bytes::get(bytes, part))
    }

    fn held(&self) -> u64 {
        self.whole().map_or_else(Bytes::held, Bytes::held)
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.file_len())
    }
}
