//! Access to the bytes of a file that is loaded completely or in part.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::alloc::{self, OutOfMemory};
use crate::error::{Error, Item, Location, Problem, Result, Section};
use crate::program::{ByteRange, within};

/// Why bytes of a file are not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BytesError {
    /// The bytes have not been loaded.
    NotLoaded,
    /// The file cannot be read, or has changed since it was opened.
    Failed(String),
    /// There is no memory to copy the bytes to.
    OutOfMemory(OutOfMemory),
}

impl From<OutOfMemory> for BytesError {
    fn from(lacking: OutOfMemory) -> Self {
        Self::OutOfMemory(lacking)
    }
}

/// The bytes of a file, by range. Anything that is a slice of bytes is a complete file.
pub trait Bytes {
    /// Returns the length of the file.
    fn file_len(&self) -> u64;

    /// Returns a range of bytes, if it is loaded.
    fn get(&self, range: ByteRange) -> Option<&[u8]>;

    /// Returns the number of loaded bytes, from which allocation limits are derived.
    fn held(&self) -> u64 {
        self.file_len()
    }

    /// Whether others may change the bytes during use, as with a mapped file. Tables of such a file are copied with
    /// [`read_at`](Self::read_at) first, and the copy is verified and read.
    fn may_change(&self) -> bool {
        false
    }

    /// Copies bytes of the file from an offset on.
    ///
    /// # Errors
    /// Bytes that are not loaded, or a file that cannot be read.
    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
        let bytes = self.get(ByteRange { start, len: out.len() as u64 }).ok_or(BytesError::NotLoaded)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

impl<T: AsRef<[u8]> + ?Sized> Bytes for T {
    fn file_len(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn get(&self, range: ByteRange) -> Option<&[u8]> {
        let start = usize::try_from(range.start).ok()?;
        let end = start.checked_add(usize::try_from(range.len).ok()?)?;
        self.as_ref().get(start..end)
    }
}

/// A file of which some ranges are loaded. Reading a program from it fails with [`Problem::NotLoaded`] until the tables and graphs
/// are there; constants are not needed.
///
/// ```
/// use pteron_format::{Problem, Pte, PartialFile};
///
/// # let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama/tiny_4w/program.pte")).unwrap();
/// let mut parts = PartialFile::new(file.len() as u64);
/// let pte = loop {
///     match Pte::read(&parts) {
///         Ok(pte) => break pte,
///         // For example a range request.
///         Err(error) => match error.problem {
///             Problem::NotLoaded { start, len } => parts.insert(start, file[start as usize..][..len as usize].to_vec()),
///             _ => panic!("{error}"),
///         },
///     }
/// };
/// assert_eq!(pte.program().plans[0].name, "forward");
/// ```
///
/// Clones share the bytes.
#[derive(Clone, Debug, Default)]
pub struct PartialFile {
    len: u64,
    /// Loaded ranges by their start; they may overlap. A range is found if one of them contains it.
    parts: BTreeMap<u64, Arc<[u8]>>,
    /// The length of the longest range, which bounds the search.
    longest: u64,
}

/// Tables unpack to more bytes per loaded byte than a complete file does.
const PARTIAL_FACTOR: u64 = 32;

impl PartialFile {
    /// Creates a file of this length with nothing loaded.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { len, parts: BTreeMap::new(), longest: 0 }
    }

    /// Returns the loaded range at the start of the file; empty if there is none.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        self.parts.get(&0).map_or(&[], |part| part)
    }

    /// Adds loaded bytes. Bytes past the end of the file are dropped.
    pub fn insert(&mut self, start: u64, mut bytes: Vec<u8>) {
        let room = usize::try_from(self.len.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.truncate(room);
        let known = self.parts.get(&start).is_some_and(|known| known.len() >= bytes.len());
        if !known {
            self.longest = self.longest.max(bytes.len() as u64);
            self.parts.insert(start, bytes.into());
        }
    }
}

impl Bytes for PartialFile {
    fn file_len(&self) -> u64 {
        self.len
    }

    fn get(&self, range: ByteRange) -> Option<&[u8]> {
        if range.len == 0 {
            return (range.start <= self.len).then_some(&[]);
        }
        let reach = range.start.saturating_sub(self.longest);
        let mut before = self.parts.range(reach..=range.start).rev();
        before.find_map(|(&at, bytes)| Bytes::get(&**bytes, ByteRange { start: range.start - at, len: range.len }))
    }

    fn held(&self) -> u64 {
        let held: u64 = self.parts.values().map(|part| part.len() as u64).sum();
        self.len.min(held.saturating_mul(PARTIAL_FACTOR))
    }
}

impl Bytes for &PartialFile {
    fn file_len(&self) -> u64 {
        (**self).file_len()
    }

    fn get(&self, range: ByteRange) -> Option<&[u8]> {
        (**self).get(range)
    }

    fn held(&self) -> u64 {
        (**self).held()
    }
}

/// A range of a file, as a file of its own.
pub(crate) struct FileSlice<'a, B: ?Sized> {
    pub(crate) bytes: &'a B,
    pub(crate) range: ByteRange,
}

impl<B: Bytes + ?Sized> Bytes for FileSlice<'_, B> {
    fn file_len(&self) -> u64 {
        self.range.len
    }

    fn may_change(&self) -> bool {
        self.bytes.may_change()
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
        let len = out.len() as u64;
        let inside = within(start, len, self.range.len).is_ok();
        let start = self.range.start.checked_add(start).filter(|_| inside).ok_or(BytesError::NotLoaded)?;
        self.bytes.read_at(start, out)
    }

    fn get(&self, range: ByteRange) -> Option<&[u8]> {
        within(range.start, range.len, self.range.len).ok()?;
        self.bytes.get(ByteRange { start: self.range.start.checked_add(range.start)?, len: range.len })
    }
}

/// Returns `bytes[start..start + len]`. Copies it if others may change the file, so that what is verified is what is read.
pub(crate) fn take<'a, B: Bytes + ?Sized>(
    section: Section,
    what: &'static str,
    bytes: &'a B,
    start: u64,
    len: u64,
) -> Result<Cow<'a, [u8]>> {
    let have = bytes.file_len();
    let problem = match within(start, len, have) {
        Err(need) => Problem::Truncated { what, need, have },
        Ok(()) => match copied_if_shared(bytes, start, len) {
            Ok(bytes) => return Ok(bytes),
            Err(error) => Problem::from_bytes_error(error, start, len),
        },
    };
    Err(Error::new(Location { section, item: Item::Byte(start) }, problem))
}

fn copied_if_shared<B: Bytes + ?Sized>(bytes: &B, start: u64, len: u64) -> Result<Cow<'_, [u8]>, BytesError> {
    if !bytes.may_change() {
        return bytes.get(ByteRange { start, len }).map(Cow::Borrowed).ok_or(BytesError::NotLoaded);
    }
    let len = usize::try_from(len).map_err(|_| OutOfMemory { bytes: len })?;
    let mut copy = alloc::zeroed(len)?;
    bytes.read_at(start, &mut copy)?;
    Ok(Cow::Owned(copy))
}

impl Problem {
    pub(crate) fn from_bytes_error(error: BytesError, start: u64, len: u64) -> Self {
        match error {
            BytesError::NotLoaded => Self::NotLoaded { start, len },
            BytesError::Failed(reason) => Self::Unreadable { reason },
            BytesError::OutOfMemory(lacking) => Self::OutOfMemory(lacking),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(parts: &PartialFile, start: u64, len: u64) -> Option<Vec<u8>> {
        parts.get(ByteRange { start, len }).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_range_within_one_loaded_range_is_found() {
        let mut parts = PartialFile::new(10);
        parts.insert(2, vec![2, 3, 4, 5]);
        parts.insert(6, vec![6, 7]);
        parts.insert(0, vec![0, 1, 2, 3]);
        assert_eq!(get(&parts, 3, 3), Some(vec![3, 4, 5]));
        assert_eq!(get(&parts, 0, 4), Some(vec![0, 1, 2, 3]));
        assert_eq!(get(&parts, 5, 2), None, "two parts have it together");
        assert_eq!(get(&parts, 8, 1), None);
        assert_eq!((get(&parts, 10, 0), get(&parts, 11, 0)), (Some(vec![]), None));
        assert_eq!(parts.beginning(), [0, 1, 2, 3]);
    }

    #[test]
    fn bytes_past_the_end_are_dropped_and_longer_ranges_win() {
        let mut parts = PartialFile::new(4);
        parts.insert(2, vec![2, 3, 4, 5]);
        parts.insert(2, vec![9]);
        parts.insert(7, vec![7]);
        assert_eq!(get(&parts, 2, 2), Some(vec![2, 3]));
        assert_eq!(parts.held(), 4, "no more than the file has");
    }

    #[test]
    fn unloaded_ranges_differ_from_ranges_past_the_end() {
        let parts = PartialFile::new(10);
        let problem = |start, len| take(Section::Program, "it", &parts, start, len).unwrap_err().problem;
        assert_eq!(problem(4, 6), Problem::NotLoaded { start: 4, len: 6 });
        assert_eq!(problem(4, 7), Problem::Truncated { what: "it", need: 11, have: 10 });
    }
}
