//! The bytes of a file, all of them or those that have been read so far.

use std::collections::BTreeMap;

use crate::error::{Error, Item, Part, Place, Problem, Result};
use crate::program::{Extent, within};

/// Bytes of a file by their place in it. Whatever is a slice of bytes is a whole file.
pub trait Bytes {
    /// How long the file is.
    fn file_len(&self) -> u64;

    /// The bytes of a part of the file, if they are at hand.
    fn get(&self, part: Extent) -> Option<&[u8]>;

    /// How many bytes there are that can justify what is allocated for them.
    fn held(&self) -> u64 {
        self.file_len()
    }
}

impl<T: AsRef<[u8]> + ?Sized> Bytes for T {
    fn file_len(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn get(&self, part: Extent) -> Option<&[u8]> {
        let start = usize::try_from(part.start).ok()?;
        let end = start.checked_add(usize::try_from(part.len).ok()?)?;
        self.as_ref().get(start..end)
    }
}

/// A file of which parts have been read. Reading a program from it fails with [`Problem::NotRead`] until it has what that takes:
/// the tables and the graphs, not the constants.
///
/// ```
/// use pteron_format::{Problem, Pte, Sparse};
///
/// # let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama/tiny_4w/program.pte")).unwrap();
/// let mut parts = Sparse::new(file.len() as u64);
/// let pte = loop {
///     match Pte::read(&parts) {
///         Ok(pte) => break pte,
///         // A request for a range of the file, as it may be.
///         Err(error) => match error.problem {
///             Problem::NotRead { start, len } => parts.insert(start, file[start as usize..][..len as usize].to_vec()),
///             _ => panic!("{error}"),
///         },
///     }
/// };
/// assert_eq!(pte.program().plans[0].name, "forward");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    len: u64,
    /// By where they start; they may overlap.
    parts: BTreeMap<u64, Vec<u8>>,
}

/// What is at hand is a small part of a file, and unpacks to more than a whole file does.
const SPARSE_FACTOR: u64 = 32;

impl Sparse {
    /// A file of this length, nothing of which has been read.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { len, parts: BTreeMap::new() }
    }

    /// The part that the file begins with; empty if that has not been read.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        self.parts.get(&0).map_or(&[], Vec::as_slice)
    }

    /// Adds what has been read from a place on. What lies behind the file's end is left out.
    pub fn insert(&mut self, start: u64, mut bytes: Vec<u8>) {
        let room = usize::try_from(self.len.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.truncate(room);
        let longer = self.parts.get(&start).is_some_and(|known| known.len() >= bytes.len());
        if !longer {
            self.parts.insert(start, bytes);
        }
    }
}

impl Bytes for Sparse {
    fn file_len(&self) -> u64 {
        self.len
    }

    fn get(&self, part: Extent) -> Option<&[u8]> {
        if part.len == 0 {
            return (part.start <= self.len).then_some(&[]);
        }
        let before = self.parts.range(..=part.start).rev();
        before.into_iter().find_map(|(&at, bytes)| bytes.get(Extent { start: part.start - at, len: part.len }))
    }

    fn held(&self) -> u64 {
        let held: u64 = self.parts.values().map(|part| part.len() as u64).sum();
        self.len.min(held.saturating_mul(SPARSE_FACTOR))
    }
}

impl Bytes for &Sparse {
    fn file_len(&self) -> u64 {
        (**self).file_len()
    }

    fn get(&self, part: Extent) -> Option<&[u8]> {
        (**self).get(part)
    }

    fn held(&self) -> u64 {
        (**self).held()
    }
}

/// A part of a file as if it were one.
pub(crate) struct Within<'a, B: ?Sized> {
    pub(crate) bytes: &'a B,
    pub(crate) part: Extent,
}

impl<B: Bytes + ?Sized> Bytes for Within<'_, B> {
    fn file_len(&self) -> u64 {
        self.part.len
    }

    fn get(&self, part: Extent) -> Option<&[u8]> {
        within(part.start, part.len, self.part.len).ok()?;
        self.bytes.get(Extent { start: self.part.start.checked_add(part.start)?, len: part.len })
    }
}

/// `bytes[start..start + len]`, or how many bytes are missing.
pub(crate) fn take<'a, B: Bytes + ?Sized>(
    part: Part,
    what: &'static str,
    bytes: &'a B,
    start: u64,
    len: u64,
) -> Result<&'a [u8]> {
    let have = bytes.file_len();
    let problem = match within(start, len, have) {
        Err(need) => Problem::Truncated { what, need, have },
        Ok(()) => match bytes.get(Extent { start, len }) {
            Some(bytes) => return Ok(bytes),
            None => Problem::NotRead { start, len },
        },
    };
    Err(Error::new(Place { part, item: Item::Byte(start) }, problem))
}
