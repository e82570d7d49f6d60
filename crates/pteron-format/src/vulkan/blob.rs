//! The blob around a graph: a packed header, the flatbuffer, then bytes of constants.

use pteron_schema::vulkan as fb;
use pteron_schema::{Builder, root};

use super::{Graph, read, verify, write};
use crate::budget::Budget;
use crate::bytes::{Bytes, take};
use crate::error::{Error, Item, Location, Problem, Result, Section, flatbuffer};
use crate::header::{expect_magic, read_uint};
use crate::number::align_up;
use crate::program::{ByteRange, within};

const HEADER_LEN: usize = 30;
const HEADER_MAGIC: &str = "VH00";
const FLATBUFFER_MAGIC: &str = "VK00";
/// The alignment to which each section of the blob is padded.
const ALIGNMENT: u64 = 16;

/// A delegate's graph and the range of its own constants in the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The graph.
    pub graph: Graph,
    /// The bytes that [`ConstantSource::Stored`](super::ConstantSource::Stored) offsets count in, as a range of the blob.
    pub stored: ByteRange,
}

/// Reads and verifies a delegate's blob on its own.
///
/// # Errors
/// The first problem found, with its location.
pub fn read_blob(bytes: &[u8]) -> Result<Blob> {
    read_blob_within(bytes, &mut Budget::for_input(bytes))
}

pub(crate) fn read_blob_within<B: Bytes + ?Sized>(bytes: &B, budget: &mut Budget) -> Result<Blob> {
    let header = take(Section::Graph, "the delegate's header", bytes, 0, HEADER_LEN as u64)?;
    let header = &*header;
    expect_magic(Section::Graph, "the delegate header's magic", header, 4, HEADER_MAGIC)?;
    let fail = |offset, problem| Err(Error::new(Location { section: Section::Graph, item: Item::Byte(offset) }, problem));
    let header_len = read_uint(header, 8, 2);
    if header_len != HEADER_LEN as u64 {
        return fail(
            8,
            Problem::Size { what: "the delegate header's length", found: header_len, expected: HEADER_LEN as u64 },
        );
    }
    let tables = ByteRange { start: read_uint(header, 10, 4), len: read_uint(header, 14, 4) };
    let stored = ByteRange { start: read_uint(header, 18, 4), len: read_uint(header, 22, 8) };
    if tables.start < HEADER_LEN as u64 {
        let problem =
            Problem::Order { what: "the graph's flatbuffer", start: tables.start, previous_end: HEADER_LEN as u64 };
        return fail(10, problem);
    }
    let tables_end = tables.start + tables.len;
    if stored.start < tables_end {
        return fail(18, Problem::Order { what: "the constants' bytes", start: stored.start, previous_end: tables_end });
    }
    // They are not read and need not be available.
    if let Err(need) = within(stored.start, stored.len, bytes.file_len()) {
        return fail(stored.start, Problem::Truncated { what: "the constants' bytes", need, have: bytes.file_len() });
    }
    // Before they are copied: many delegates may point to the same bytes.
    budget.charge_graph(&Section::Graph, tables.len)?;
    let tables = take(Section::Graph, "the graph's flatbuffer", bytes, tables.start, tables.len)?;
    let tables = &*tables;
    expect_magic(Section::Graph, "the graph's identifier", tables, 4, FLATBUFFER_MAGIC)?;
    let table = root::<fb::VkGraph<'_>>(tables).map_err(|fault| flatbuffer(Section::Graph, tables, &fault))?;
    let graph = read::read_graph(table, budget)?;
    verify::verify(&graph, stored.len)?;
    Ok(Blob { graph, stored })
}

/// Writes a graph as a delegate's blob; `stored` are the bytes that [`ConstantSource::Stored`](super::ConstantSource::Stored) offsets count in.
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
    builder.finish(root, Some(FLATBUFFER_MAGIC));
    assemble(builder.finished_data(), stored)
}

/// Puts the header before finished tables and `stored` after them.
pub(crate) fn assemble(tables: &[u8], stored: &[u8]) -> Result<Vec<u8>> {
    let overflow = || {
        Error::new(Location { section: Section::Graph, item: Item::Whole }, Problem::Overflow { what: "the blob's size" })
    };
    let aligned = |len: usize| align_up(len as u64, ALIGNMENT).ok_or_else(overflow);
    let tables_start = aligned(HEADER_LEN)?;
    let stored_start = tables_start + aligned(tables.len())?;
    let mut out = Vec::new();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(HEADER_MAGIC.as_bytes());
    out.extend_from_slice(&(HEADER_LEN as u64).to_le_bytes()[..2]);
    for field in [tables_start, tables.len() as u64, stored_start] {
        let field = u32::try_from(field).map_err(|_| overflow())?;
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&(stored.len() as u64).to_le_bytes());
    for section in [tables, stored] {
        pad(&mut out, ALIGNMENT);
        out.extend_from_slice(section);
    }
    pad(&mut out, ALIGNMENT);
    Ok(out)
}

/// Appends zeros up to the next multiple of `alignment`.
pub(crate) fn pad(out: &mut Vec<u8>, alignment: u64) {
    while !(out.len() as u64).is_multiple_of(alignment) {
        out.push(0);
    }
}

impl Blob {
    /// The bytes of a constant stored in the blob.
    #[must_use]
    pub fn stored_bytes<'a>(&self, blob: &'a [u8], constant: &super::Constant) -> Option<&'a [u8]> {
        Bytes::get(blob, self.stored_place(constant)?)
    }

    /// The range of a constant stored in the blob.
    #[must_use]
    pub fn stored_place(&self, constant: &super::Constant) -> Option<ByteRange> {
        constant.place_within(self.stored)
    }
}
