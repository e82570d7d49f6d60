//! A file's bytes: mapped where there are files, owned elsewhere.

use std::fmt;

use pteron_format::{ByteRange, Bytes, BytesError, PartialFile};

#[cfg(not(target_arch = "wasm32"))]
pub use mapped::MappedFile;

/// The bytes of a program or of external data.
pub enum FileBytes {
    /// In memory.
    Owned(Vec<u8>),
    /// Part of the binary.
    Static(&'static [u8]),
    /// Those parts of a file that have been read.
    PartialFile(PartialFile),
    /// Mapped from a file.
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(MappedFile),
}

impl FileBytes {
    /// Maps a file. Pages are read when they are touched, so verification of a large program reads little of it.
    ///
    /// Do not change the file while it is mapped. Tables and graphs are copied before they are verified, so later changes
    /// cannot invalidate the checks. Constants are read from the map, with whatever content the file has then. If another
    /// process truncates the file while constants are read, this process can receive a signal; loading compares the file's
    /// length before and after, and reports a change where it can.
    ///
    /// # Errors
    /// A file that cannot be opened or mapped, or a path that is not a regular file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn map(path: &std::path::Path) -> std::io::Result<Self> {
        // Checked before opening: opening a pipe would block until somebody writes to it.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a file"));
        }
        let file = std::fs::File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        MappedFile::new(file).map(Self::Mapped)
    }

    /// Whether the file is as long as when it was opened, and has not been written since.
    pub(crate) fn is_unchanged(&self) -> bool {
        #[cfg(not(target_arch = "wasm32"))]
        if let Self::Mapped(map) = self {
            return map.is_unchanged();
        }
        true
    }
}

impl FileBytes {
    /// The whole file, or the part of its beginning that has been read.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        self.whole().unwrap_or_else(PartialFile::beginning)
    }

    /// The whole file, unless only parts of it have been read.
    fn whole(&self) -> Result<&[u8], &PartialFile> {
        match self {
            Self::Owned(bytes) => Ok(bytes),
            Self::Static(bytes) => Ok(bytes),
            Self::PartialFile(parts) => Err(parts),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Mapped(map) => Ok(map.bytes()),
        }
    }
}

impl Bytes for FileBytes {
    fn file_len(&self) -> u64 {
        self.whole().map_or_else(Bytes::file_len, Bytes::file_len)
    }

    fn get(&self, part: ByteRange) -> Option<&[u8]> {
        self.whole().map_or_else(|parts| parts.get(part), |bytes| Bytes::get(bytes, part))
    }

    fn held(&self) -> u64 {
        self.whole().map_or_else(Bytes::held, Bytes::held)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn may_change(&self) -> bool {
        matches!(self, Self::Mapped(_))
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
        #[cfg(not(target_arch = "wasm32"))]
        if let Self::Mapped(map) = self {
            return map.read_at(start, out);
        }
        out.copy_from_slice(self.get(ByteRange { start, len: out.len() as u64 }).ok_or(BytesError::NotLoaded)?);
        Ok(())
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.file_len())
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod mapped {
    use std::fs::File;
    use std::io;
    use std::time::SystemTime;

    use pteron_format::BytesError;

    /// A mapped file, and the file itself for reads that must not see later changes.
    #[derive(Debug)]
    pub struct MappedFile {
        map: memmap2::Mmap,
        file: File,
        modified: Option<SystemTime>,
    }

    impl MappedFile {
        pub(super) fn new(file: File) -> io::Result<Self> {
            let modified = file.metadata()?.modified().ok();
            // SAFETY: the map is read-only and private, and data is copied from the file before it is verified. Another process that
            // shortens the file while it is mapped could end this one with a signal; no runtime that maps models can rule that
            // out.
            #[allow(unsafe_code, reason = "mapping a file is unsafe by nature; this is the one place that does it")]
            let map = unsafe { memmap2::Mmap::map(&file)? };
            Ok(Self { map, file, modified })
        }

        pub(super) fn bytes(&self) -> &[u8] {
            &self.map
        }

        pub(super) fn is_unchanged(&self) -> bool {
            let now = self.file.metadata();
            now.is_ok_and(|now| now.len() == self.map.len() as u64 && now.modified().ok() == self.modified)
        }

        /// Reads from the file, not from the map: a file that has become shorter is an error here.
        pub(super) fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
            self.read_exact_at(start, out).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => BytesError::Failed("it is shorter than when it was opened".to_owned()),
                _ => BytesError::Failed(error.to_string()),
            })
        }

        #[cfg(unix)]
        fn read_exact_at(&self, start: u64, out: &mut [u8]) -> io::Result<()> {
            std::os::unix::fs::FileExt::read_exact_at(&self.file, out, start)
        }

        #[cfg(windows)]
        fn read_exact_at(&self, mut start: u64, mut out: &mut [u8]) -> io::Result<()> {
            while !out.is_empty() {
                match std::os::windows::fs::FileExt::seek_read(&self.file, out, start)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => {
                        start += read as u64;
                        out = &mut out[read..];
                    }
                }
            }
            Ok(())
        }

        #[cfg(not(any(unix, windows)))]
        fn read_exact_at(&self, start: u64, out: &mut [u8]) -> io::Result<()> {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let bytes = self.map.get(start..).and_then(|bytes| bytes.get(..out.len()));
            bytes.map(|bytes| out.copy_from_slice(bytes)).ok_or(io::ErrorKind::UnexpectedEof.into())
        }
    }
}
