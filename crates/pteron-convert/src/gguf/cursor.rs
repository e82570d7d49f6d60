//! A bounds-checked reader.

use std::fmt::Display;

use crate::error::{Error, Result};

/// A position in a file, and the item being read.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// For errors: a key, a tensor, the header.
    pub(super) part: String,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a str, bytes: &'a [u8]) -> Self {
        Self { file, bytes, at: 0, part: "its header".to_owned() }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error at this position.
    pub(super) fn fault(&self, problem: impl Display) -> Error {
        let problem = format!("{}, at byte {}: {problem}", self.part, self.at);
        Error::Malformed { file: self.file.to_owned(), problem }
    }

    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(self.fault(format!("it needs {len} bytes, and the file has {} more", rest.len()))),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(bytes) = self.bytes[self.at..].first_chunk() else {
            return Err(self.fault(format!("it needs {N} bytes, and the file has {} more", self.left())));
        };
        self.at += N;
        Ok(*bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a count of items of at least this many bytes each.
    pub(super) fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.u64()?;
        let most = self.left() / least;
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= most)
            .ok_or_else(|| self.fault(format!("it says that there are {count}, and the file has room for {most}")))
    }

    /// Reads a length-prefixed string.
    pub(super) fn string(&mut self) -> Result<&'a [u8]> {
        let len = self.u64()?;
        self.take(len)
    }

    /// Reads a UTF-8 string.
    pub(super) fn name(&mut self) -> Result<&'a str> {
        let bytes = self.string()?;
        std::str::from_utf8(bytes).map_err(|_| self.fault("the name that ends here is not UTF-8"))
    }
}

/// A name from a file as an error shows it: escaped, and not too long.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}
