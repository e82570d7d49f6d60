//! The blob around a graph: a packed header, the flatbuffer, then bytes of constants. Older exporters wrote the flatbuffer alone.

use pteron_schema::xnnpack as fb;
use pteron_schema::{Builder, root};

use super::{Constant, Graph, read, verify, write};
use crate::budget::Budget;
use crate::bytes::{Bytes, take};
use crate::error::{Error, Item, Location, Problem, Result, Section, flatbuffer};
use crate::header::read_uint;
use crate::number::align_up;
use crate::program::{ByteRange, within};

const HEADER_LEN: usize = 30;
const HEADER_MAGIC: &str = "XH00";
/// The identifier that is written.
const IDENTIFIER: &str = "XN01";
/// The identifier of exporters before 2024.
const OLD_IDENTIFIER: &str = "XN00";
/// The alignment of the flatbuffer and of the constants in the blob.
const ALIGNMENT: u64 = 16;

/// A delegate's graph and the range of its own constants in the blob.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// The graph.
    pub graph: Graph,
    /// The bytes that [`ConstantSource::Stored`](super::ConstantSource::Stored) offsets count in, as a range of the blob.
    pub stored: ByteRange,
}

impl Blob {
    /// The bytes of a constant stored in the blob.
    #[must_use]
    pub fn stored_bytes<'a>(&self, blob: &'a [u8], constant: &Constant) -> Option<&'a [u8]> {
        Bytes::get(blob, self.stored_place(constant)?)
    }

    /// The range of a constant stored in the blob.
    #[must_use]
    pub fn stored_place(&self, constant: &Constant) -> Option<ByteRange> {
        constant.place_within(self.stored)
    }
}

/// Reads and verifies a delegate's blob on its own.
///
/// # Errors
/// The first problem found, with its location.
pub fn read_blob(bytes: &[u8]) -> Result<Blob> {
    read_blob_within(bytes, &mut Budget::for_input(bytes))
}

pub(crate) fn read_blob_within<B: Bytes + ?Sized>(bytes: &B, budget: &mut Budget) -> Result<Blob> {
    let magic = take(Section::Graph, "the delegate's identifier", bytes, 4, 4)?;
    let (place, region) = if *magic == *HEADER_MAGIC.as_bytes() {
        regions(bytes)?
    } else {
        let len = bytes.file_len();
        (ByteRange { start: 0, len }, ByteRange { start: len, len: 0 })
    };
    // Before they are copied: many delegates may point to the same bytes.
    budget.charge_graph(&Section::Graph, place.len)?;
    let tables = take(Section::Graph, "the graph's flatbuffer", bytes, place.start, place.len)?;
    let tables = &*tables;
    let old = is_old(tables)?;
    let table = root::<fb::XnnGraph<'_>>(tables).map_err(|fault| flatbuffer(Section::Graph, tables, &fault))?;
    let inline = table.constant_data().is_none_or(|constants| constants.is_empty());
    let graph = read::read_graph(table, tables, old, budget)?;
    let stored = if inline { place } else { region };
    verify::verify(&graph, stored.len)?;
    Ok(Blob { graph, stored })
}

/// The ranges of the flatbuffer and of the constants, from the header.
fn regions<B: Bytes + ?Sized>(bytes: &B) -> Result<(ByteRange, ByteRange)> {
    let header = take(Section::Graph, "the delegate's header", bytes, 0, HEADER_LEN as u64)?;
    let fail = |offset, problem| Err(Error::new(Location { section: Section::Graph, item: Item::Byte(offset) }, problem));
    let found = read_uint(&header, 8, 2);
    if found < HEADER_LEN as u64 {
        return fail(8, Problem::Size { what: "the delegate header's length", found, expected: HEADER_LEN as u64 });
    }
    let tables = ByteRange { start: read_uint(&header, 10, 4), len: read_uint(&header, 14, 4) };
    let constants = ByteRange { start: read_uint(&header, 18, 4), len: read_uint(&header, 22, 8) };
    if tables.start < found {
        return fail(10, Problem::Order { what: "the graph's flatbuffer", start: tables.start, previous_end: found });
    }
    let unaligned = |what, offset| Problem::Alignment { what, offset, alignment: ALIGNMENT };
    if !tables.start.is_multiple_of(ALIGNMENT) {
        return fail(10, unaligned("the graph's flatbuffer", tables.start));
    }
    let previous_end = tables.start + tables.len;
    if constants.len == 0 {
        // Nothing lies there, and the start may be past the end of the blob.
        return Ok((tables, ByteRange { start: previous_end, len: 0 }));
    }
    if constants.start < previous_end {
        return fail(18, Problem::Order { what: "the constants' bytes", start: constants.start, previous_end });
    }
    if !constants.start.is_multiple_of(ALIGNMENT) {
        return fail(18, unaligned("the constants' bytes", constants.start));
    }
    // They are not read and need not be available.
    if let Err(need) = within(constants.start, constants.len, bytes.file_len()) {
        return fail(constants.start, Problem::Truncated { what: "the constants' bytes", need, have: bytes.file_len() });
    }
    Ok((tables, constants))
}

/// Whether the flatbuffer has the older identifier.
fn is_old(tables: &[u8]) -> Result<bool> {
    let found = take(Section::Graph, "the graph's identifier", tables, 4, 4)?;
    if *found == *OLD_IDENTIFIER.as_bytes() || *found == *IDENTIFIER.as_bytes() {
        return Ok(*found == *OLD_IDENTIFIER.as_bytes());
    }
    let found = found.escape_ascii().to_string();
    let problem = Problem::Magic { what: "the graph's identifier", found, expected: IDENTIFIER };
    Err(Error::new(Location { section: Section::Graph, item: Item::Byte(4) }, problem))
}

/// Writes a graph as a delegate's blob; `stored` are the bytes that
/// [`ConstantSource::Stored`](super::ConstantSource::Stored) offsets count in.
///
/// # Errors
/// The first check of [`read_blob`] that the graph fails.
pub fn write_blob(graph: &Graph, stored: &[u8]) -> Result<Vec<u8>> {
    verify::verify(graph, stored.len() as u64)?;
    write_blob_unverified(graph, stored)
}

pub(crate) fn write_blob_unverified(graph: &Graph, stored: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::new();
    let root = write::write_graph(&mut builder, graph);
    builder.finish(root, Some(IDENTIFIER));
    assemble(builder.finished_data(), stored)
}

/// Puts the header before finished tables and `stored` after them.
pub(crate) fn assemble(tables: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
    let overflow = || {
        Error::new(Location { section: Section::Graph, item: Item::Whole }, Problem::Overflow { what: "the blob's size" })
    };
    let tables_start = align_up(HEADER_LEN as u64, ALIGNMENT).ok_or_else(overflow)?;
    let stored_start = align_up(tables_start + tables.len() as u64, ALIGNMENT).ok_or_else(overflow)?;
    let mut out = vec![0; 4];
    out.extend_from_slice(HEADER_MAGIC.as_bytes());
    out.extend_from_slice(&(HEADER_LEN as u64).to_le_bytes()[..2]);
    for field in [tables_start, tables.len() as u64, stored_start] {
        let field = u32::try_from(field).map_err(|_| overflow())?;
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&(stored.len() as u64).to_le_bytes());
    for section in [tables, stored] {
        crate::vulkan::pad(&mut out, ALIGNMENT);
        out.extend_from_slice(section);
    }
    Ok(out)
}
