//! A file's bytes: mapped where there are files, owned elsewhere.

use std::fmt;

/// The bytes of a program or of external data.
pub enum FileBytes {
    /// In memory.
    Owned(Vec<u8>),
    /// Part of the binary.
    Static(&'static [u8]),
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

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Static(bytes) => bytes,
            #[cfg(not(target_arch = "wasm32"))]
            Self::Mapped(map) => map,
        }
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_ref().len())
    }
}
