//! The fixed fields at the start of a file, and bounded access to its bytes.

use crate::bytes::{Bytes, take};
use crate::error::{Error, Item, Location, Problem, Result, Section};
use crate::number::align_up;
use crate::program::{ByteRange, Data, within};

/// The alignment of segments in written files.
pub(crate) const SEGMENT_ALIGNMENT: u64 = 128;
/// The smallest alignment of a segment: that of the tensors in it.
const MIN_SEGMENT_ALIGNMENT: u64 = 16;
/// The offset of the header, after the root offset and the identifier.
pub(crate) const HEADER_AT: usize = 8;

/// The little-endian number of `len` bytes at `at`; 0 past the end, which callers have excluded with [`take`].
pub(crate) fn read_uint(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at + len).unwrap_or_default().iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Checks four bytes that name a format.
pub(crate) fn expect_magic<B: Bytes + ?Sized>(
    section: Section,
    what: &'static str,
    bytes: &B,
    at: u64,
    expected: &'static str,
) -> Result<()> {
    let found = take(section.clone(), what, bytes, at, expected.len() as u64)?;
    if *found == *expected.as_bytes() {
        return Ok(());
    }
    let problem = Problem::Magic { what, found: found.escape_ascii().to_string(), expected };
    Err(Error::new(Location { section, item: Item::Byte(at) }, problem))
}

/// The area of a file that holds segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentArea {
    pub(crate) base: u64,
    pub(crate) end: u64,
}

impl SegmentArea {
    /// Creates the area that starts at `base`, after tables that end at `tables_end`, and is `len` long (to the end of the file if
    /// the header does not say).
    pub(crate) fn new(section: Section, file_len: u64, tables_end: u64, base: u64, len: Option<u64>) -> Result<Self> {
        let fail = |problem| Err(Error::new(Location { section, item: Item::Whole }, problem));
        if base == 0 {
            return Ok(Self { base: file_len, end: file_len });
        }
        if base < tables_end {
            return fail(Problem::Order { what: "the segment data", start: base, previous_end: tables_end });
        }
        if !base.is_multiple_of(MIN_SEGMENT_ALIGNMENT) {
            return fail(Problem::Alignment { what: "the segment data", offset: base, alignment: MIN_SEGMENT_ALIGNMENT });
        }
        let len = len.unwrap_or(file_len.saturating_sub(base));
        match within(base, len, file_len) {
            Ok(()) => Ok(Self { base, end: base + len }),
            Err(end) => fail(Problem::Truncated { what: "the segment data", need: end, have: file_len }),
        }
    }

    /// Returns the file range of the segment at `offset` in this area.
    pub(crate) fn place(&self, section: Section, index: usize, offset: u64, len: u64) -> Result<ByteRange> {
        let fail = |problem| Err(Error::new(Location { section, item: Item::Entry { kind: "segment", index } }, problem));
        if len == 0 {
            return Ok(ByteRange { start: self.base, len });
        }
        if !offset.is_multiple_of(MIN_SEGMENT_ALIGNMENT) {
            return fail(Problem::Alignment { what: "the segment", offset, alignment: MIN_SEGMENT_ALIGNMENT });
        }
        match within(offset, len, self.end - self.base) {
            Ok(()) => Ok(ByteRange { start: self.base + offset, len }),
            Err(end) => fail(Problem::Range { what: "the segment", start: offset, end, limit: self.end - self.base }),
        }
    }
}

/// Returns the start of the next segment after `end`; `None` on overflow.
#[must_use]
pub fn segment_start(end: u64) -> Option<u64> {
    align_up(end, SEGMENT_ALIGNMENT)
}

/// Lays out aligned segments one after the other. Returns their ranges and total length. Empty segments lie at the start.
pub(crate) fn lay_out<D: Data>(section: Section, segments: &[D]) -> Result<(Vec<ByteRange>, u64)> {
    let mut places = Vec::with_capacity(segments.len());
    let mut end = 0u64;
    for segment in segments {
        let len = segment.byte_len();
        if len == 0 {
            // Not aligned like the others: padding after the last byte would count as data.
            places.push(ByteRange { start: 0, len });
            continue;
        }
        let place = segment_start(end).and_then(|start| Some((start, start.checked_add(len)?)));
        let Some((start, next)) = place else {
            return Err(Error::new(Location { section, item: Item::Whole }, Problem::Overflow { what: "the file's size" }));
        };
        places.push(ByteRange { start, len });
        end = next;
    }
    Ok((places, end))
}

/// The layout of a file to be written: its first bytes and the range of each segment.
///
/// A writer of large files writes [`head`](Self::head), then each segment's bytes at its offset, with zeros between. The data need
/// not be in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// Everything before the first segment, padding included.
    pub head: Vec<u8>,
    /// The range of each segment, from the start of the file.
    pub segments: Vec<ByteRange>,
    /// The length of the whole file.
    pub len: u64,
}

impl FileLayout {
    /// Puts the header into finished tables and places the segments after them. `header` gets the length of the tables with
    /// the header in them, then the segment base and the length of all segments; it fills a multiple of 16 bytes, so that
    /// everything in the tables stays aligned. At least `room` bytes lie before the segments.
    pub(crate) fn assemble(
        tables: &[u8],
        mut segments: Vec<ByteRange>,
        data_len: u64,
        room: usize,
        header_len: usize,
        header: impl FnOnce(u64, u64, u64) -> Vec<u8>,
    ) -> Self {
        let tables_len = tables.len() + header_len;
        let mut head = Vec::new();
        let root = read_uint(tables, 0, 4) + header_len as u64;
        head.extend_from_slice(&root.to_le_bytes()[..4]);
        head.extend_from_slice(&tables[4..HEADER_AT]);
        let base = segment_start(tables_len.max(room) as u64).unwrap_or(u64::MAX);
        head.extend_from_slice(&header(tables_len as u64, base, data_len));
        head.resize(HEADER_AT + header_len, 0);
        head.extend_from_slice(&tables[HEADER_AT..]);
        head.resize(tables_len.max(room), 0);
        crate::vulkan::pad(&mut head, SEGMENT_ALIGNMENT);
        for segment in &mut segments {
            segment.start += base;
        }
        Self { head, segments, len: base.saturating_add(data_len) }
    }

    /// Builds the whole file in memory, with its segments copied from `data`.
    pub(crate) fn into_bytes<D: Data>(self, section: Section, data: &[D]) -> Result<Vec<u8>> {
        let mut out = self.head;
        for (index, (place, data)) in self.segments.iter().zip(data).enumerate() {
            let Some(bytes) = data.bytes() else {
                let location = Location { section, item: Item::Entry { kind: "segment", index } };
                return Err(Error::new(location, Problem::NoBytes { what: "the segment" }));
            };
            if !bytes.is_empty() {
                crate::vulkan::pad(&mut out, SEGMENT_ALIGNMENT);
                debug_assert_eq!(out.len() as u64, place.start, "segments follow each other as they were laid out");
                out.extend_from_slice(bytes);
            }
        }
        Ok(out)
    }
}
