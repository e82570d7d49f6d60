//! External data: a `.ptd` file holds blobs by name, for programs that leave their constants outside.

mod tables;

use std::borrow::Cow;

use crate::budget::Budget;
use crate::bytes::{Bytes, take};
use crate::dtype::ScalarType;
use crate::error::{Error, Item, Location, Problem, Result, Section, flatbuffer};
use crate::header::{FileLayout, HEADER_AT, SegmentArea, expect_magic, lay_out, read_uint};
use crate::names::NameIndex;
use crate::program::{ByteRange, Data, SegmentId};
use pteron_schema::flat_tensor as fb;
use pteron_schema::{Builder, root};

const IDENTIFIER: &str = "FT01";
const HEADER_MAGIC: &str = "FH01";
const HEADER_LEN: usize = 40;
/// Bytes reserved for the header, so that everything after it stays aligned.
const HEADER_ROOM: usize = 48;

/// Whether a key of named data is the SHA-256 of its bytes, in hexadecimal, as exporters write it.
#[must_use]
pub fn is_sha256(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Named blobs. `D` is the storage of their bytes, as in [`Program`](crate::Program).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalData<D = ByteRange> {
    /// The schema version; 0 so far.
    pub version: u32,
    /// The blobs, in file order.
    pub segments: Vec<D>,
    /// Their names; several may share a blob.
    pub entries: Vec<Entry>,
}

impl<D> ExternalData<D> {
    /// The segment of this name. Linear search; [`Ptd::named_segment`] uses a sorted index.
    #[must_use]
    pub fn named_segment(&self, key: &str) -> Option<&D> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        self.segments.get(entry.segment.index())
    }

    /// Converts the storage of the data.
    pub fn map_data<'a, T>(&'a self, map: impl FnMut(&'a D) -> T) -> ExternalData<T> {
        ExternalData {
            version: self.version,
            segments: self.segments.iter().map(map).collect(),
            entries: self.entries.clone(),
        }
    }
}

/// A name, its blob, and the blob's tensor layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub key: String,
    /// The blob.
    pub segment: SegmentId,
    /// The tensor layout, if the exporter wrote one.
    pub layout: Option<TensorLayout>,
}

/// The type and shape of a blob as a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    /// Element type.
    pub scalar_type: ScalarType,
    /// Sizes.
    pub sizes: Vec<u32>,
    /// Dimensions from outermost to innermost in memory.
    pub dim_order: Vec<u8>,
}

/// A verified `.ptd` file. `B` is the storage of its bytes.
#[derive(Clone, Debug)]
pub struct Ptd<B> {
    bytes: B,
    data: ExternalData,
    names: NameIndex,
}

impl<B: Bytes> Ptd<B> {
    /// Reads and verifies external data. Does not read the blobs.
    ///
    /// # Errors
    /// The first problem found, with its location. Any bytes are safe to pass.
    pub fn read(bytes: B) -> Result<Self> {
        let (tables, area) = split(&bytes)?;
        let table = root::<fb::FlatTensor<'_>>(&tables).map_err(|fault| flatbuffer(Section::External, &tables, &fault))?;
        let data = tables::read(table, &area, &mut Budget::for_input(&bytes))?;
        drop(tables);
        tables::verify(&data)?;
        Ok(Self { bytes, data, names: NameIndex::default() })
    }

    /// The names and the ranges of their blobs.
    #[must_use]
    pub fn data(&self) -> &ExternalData {
        &self.data
    }

    /// The storage of the file's bytes.
    #[must_use]
    pub fn file(&self) -> &B {
        &self.bytes
    }

    /// The bytes of a part of the file; empty if the file has no such part, or it is not available.
    #[must_use]
    pub fn bytes(&self, range: ByteRange) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The range of the blob of this name. Names are sorted once, so lookups are cheap.
    #[must_use]
    pub fn named_segment(&self, key: &str) -> Option<ByteRange> {
        let entry = self.names.find(&self.data.entries, key, |entry| &entry.key)?;
        self.data.segments.get(entry.segment.index()).copied()
    }

    /// The bytes of a name, if they are available.
    #[must_use]
    pub fn named_bytes(&self, key: &str) -> Option<&[u8]> {
        self.bytes.get(self.named_segment(key)?)
    }

    /// Returns the data with its bytes, to compare, change or write it.
    #[must_use]
    pub fn with_data(&self) -> ExternalData<&[u8]> {
        self.data.map_data(|&range| self.bytes(range))
    }
}

fn split<B: Bytes>(file: &B) -> Result<(Cow<'_, [u8]>, SegmentArea)> {
    expect_magic(Section::External, "the file identifier", file, 4, IDENTIFIER)?;
    expect_magic(Section::External, "the header's magic", file, HEADER_AT as u64, HEADER_MAGIC)?;
    let header = take(Section::External, "the header", file, HEADER_AT as u64, HEADER_LEN as u64)?;
    let header_len = read_uint(&header, 4, 4);
    if header_len < HEADER_LEN as u64 {
        let location = Location { section: Section::External, item: Item::Byte(HEADER_AT as u64 + 4) };
        return Err(Error::new(
            location,
            Problem::Size { what: "the header's length", found: header_len, expected: HEADER_LEN as u64 },
        ));
    }
    let [offset, size, base, data_len] = [8, 16, 24, 32].map(|at| read_uint(&header, at, 8));
    // Offsets in the tables count from the start of the file, because the header is inside the tables.
    let tables_end = offset.saturating_add(size);
    let tables = take(Section::External, "the tables", file, 0, tables_end)?;
    Ok((tables, SegmentArea::new(Section::External, file.file_len(), tables_end, base, Some(data_len))?))
}

/// Plans a `.ptd` file: its first bytes, and where each blob goes. Only the lengths of blobs are needed.
///
/// # Errors
/// The first check of [`Ptd::read`] that the data fails.
pub fn layout<D: Data>(data: &ExternalData<D>) -> Result<FileLayout> {
    tables::verify(data)?;
    layout_unverified(data)
}

pub(crate) fn layout_unverified<D: Data>(data: &ExternalData<D>) -> Result<FileLayout> {
    let (places, data_len) = lay_out(Section::External, &data.segments)?;
    let mut builder = Builder::new();
    let root = tables::write(&mut builder, data, &places);
    builder.finish(root, Some(IDENTIFIER));
    let tables = builder.finished_data();
    Ok(assemble(tables, places, data_len))
}

/// Puts the header into finished tables.
pub(crate) fn assemble(tables: &[u8], places: Vec<ByteRange>, data_len: u64) -> FileLayout {
    FileLayout::assemble(tables, places, data_len, 0, HEADER_ROOM, |_, base, data_len| {
        let mut header = HEADER_MAGIC.as_bytes().to_vec();
        header.extend_from_slice(&HEADER_LEN.to_le_bytes()[..4]);
        for field in [HEADER_ROOM as u64, tables.len() as u64, base, data_len] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        header
    })
}

/// Writes a whole `.ptd` file into memory.
///
/// # Errors
/// The first check of [`Ptd::read`] that the data fails, or a blob whose bytes are not available.
pub fn write<D: Data>(data: &ExternalData<D>) -> Result<Vec<u8>> {
    layout(data)?.into_bytes(Section::External, &data.segments)
}
