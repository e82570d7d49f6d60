//! A `.pte` file: header, tables, segments, and the graphs inside its delegates.

mod delegates;
mod inline;

use std::borrow::Cow;
use std::collections::BTreeMap;

use pteron_schema::program as fb;
use pteron_schema::{Builder, root};

use crate::budget::Budget;
use crate::bytes::{Bytes, take};
use crate::error::{Error, Item, Location, Problem, Result, Section, clip, flatbuffer};
use crate::external::{ExternalData, Ptd};
use crate::header::{FileLayout, HEADER_AT, SegmentArea, expect_magic, lay_out, read_uint};
use crate::names::NameIndex;
use crate::program::{self, ByteRange, Data, DataRef, Program, SegmentId, TensorDataLocation, Value};
use crate::vulkan::{Blob, Constant, ConstantSource};
use crate::xnnpack;
use delegates::read_graphs;

const IDENTIFIER: &str = "ET12";
const HEADER_MAGIC: &[u8] = b"eh00";
const HEADER_LEN: usize = 32;
/// Older files do not say how long the segment data is.
const OLD_HEADER_LEN: usize = 24;

/// Offsets inside tables have 31 bits; data that needs more belongs into segments.
const MAX_INLINE: u64 = 1 << 30;

/// A verified `.pte` file. `B` is the storage of its bytes: a mapped file, a vector, a slice.
///
/// Reading covers the header, the tables and the delegates' graphs, not constant data.
#[derive(Clone, Debug)]
pub struct Pte<B> {
    bytes: B,
    program: Program,
    graphs: BTreeMap<DataRef, Blob>,
    xnnpack: BTreeMap<DataRef, xnnpack::Blob>,
    names: NameIndex,
}

impl<B: Bytes> Pte<B> {
    /// Reads and verifies a program.
    ///
    /// # Errors
    /// The first problem found, with its location. Any bytes are safe to pass.
    pub fn read(bytes: B) -> Result<Self> {
        let mut budget = Budget::for_input(&bytes);
        let program = read_program(&bytes, &mut budget)?;
        program::verify(&program)?;
        let (graphs, xnnpack) = read_graphs(&bytes, &program, &mut budget)?;
        Ok(Self { bytes, program, graphs, xnnpack, names: NameIndex::default() })
    }

    /// The program's tables.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
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

    /// The graph of a delegate, if it is one for Vulkan.
    #[must_use]
    pub fn graph(&self, data: DataRef) -> Option<&Blob> {
        self.graphs.get(&data)
    }

    /// The graph of a delegate, if it is one for XNNPACK.
    #[must_use]
    pub fn xnnpack(&self, data: DataRef) -> Option<&xnnpack::Blob> {
        self.xnnpack.get(&data)
    }

    /// Every graph for XNNPACK, with the location of its bytes.
    pub fn xnnpack_graphs(&self) -> impl Iterator<Item = (DataRef, &xnnpack::Blob)> {
        self.xnnpack.iter().map(|(&place, blob)| (place, blob))
    }

    /// Every graph for Vulkan, with the location of its bytes.
    pub fn graphs(&self) -> impl Iterator<Item = (DataRef, &Blob)> {
        self.graphs.iter().map(|(&place, blob)| (place, blob))
    }

    /// Returns the program with its bytes, to compare, change or write it.
    #[must_use]
    pub fn with_data(&self) -> Program<&[u8]> {
        self.program.map_data(|&range| self.bytes(range))
    }

    /// The range of the data of this name, if it is in this file. Names are sorted once, so lookups are cheap.
    #[must_use]
    pub fn named_segment(&self, key: &str) -> Option<ByteRange> {
        let entries = self.program.named_data.as_deref().unwrap_or_default();
        let entry = self.names.find(entries, key, |entry| &entry.key)?;
        self.program.segments.get(entry.segment.index()).copied()
    }

    /// The bytes of a graph's constant, if this file holds them and they are available.
    #[must_use]
    pub fn constant_bytes(&self, graph: DataRef, constant: &Constant) -> Option<&[u8]> {
        self.bytes.get(self.constant_place(graph, constant)?)
    }

    /// The range of a graph's constant, if it is in this file.
    #[must_use]
    pub fn constant_place(&self, graph: DataRef, constant: &Constant) -> Option<ByteRange> {
        match &constant.source {
            ConstantSource::Named(key) => self.named_segment(key),
            ConstantSource::Stored(_) => {
                let blob = self.program.delegate_data(graph)?;
                let vulkan = self.graph(graph).map(|blob| blob.stored);
                let stored = vulkan.or_else(|| self.xnnpack(graph).map(|blob| blob.stored))?;
                let stored = constant.place_within(stored)?;
                Some(ByteRange { start: blob.start.checked_add(stored.start)?, ..stored })
            }
        }
    }

    /// The keys of data that this file refers to and does not hold, sorted, each once, with the length in bytes it must have.
    #[must_use]
    pub fn external_keys(&self) -> Vec<(&str, u64)> {
        let own = Names::of(&self.program);
        let vulkan = self.graphs.values().flat_map(|blob| &blob.graph.constants);
        let constants = vulkan.chain(self.xnnpack.values().flat_map(|blob| &blob.graph.constants));
        let graph_keys = constants.filter_map(|constant| match &constant.source {
            ConstantSource::Named(key) if own.find(key).is_none() => Some((key.as_str(), constant.len)),
            _ => None,
        });
        let tensors = self.program.plans.iter().flat_map(|plan| &plan.values).filter_map(Value::as_tensor);
        let tensor_keys = tensors.filter_map(|tensor| {
            let extra = tensor.extra.as_ref().filter(|extra| extra.location == TensorDataLocation::External)?;
            let key = extra.name.as_deref().filter(|key| own.find(key).is_none())?;
            Some((key, tensor.byte_len()?))
        });
        let mut keys: Vec<_> = graph_keys.chain(tensor_keys).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Checks that external data has everything this file refers to, at the right length.
    ///
    /// # Errors
    /// The first key that is missing or has another length.
    pub fn verify_external<E: Bytes>(&self, files: &[Ptd<E>]) -> Result<()> {
        let files: Vec<_> = files.iter().map(|file| Names::of_external(file.data())).collect();
        for (key, expected) in self.external_keys() {
            let fail = |problem| Err(Error::new(Location { section: Section::External, item: Item::Whole }, problem));
            match files.iter().find_map(|names| names.find(key)) {
                None => return fail(Problem::NoData { key: clip(key) }),
                Some(range) if range.len != expected => {
                    return fail(Problem::Size { what: "the length of an external constant", found: range.len, expected });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Where a file's tables are copied, the copy ends here: graphs are copied, too, and both together could be twice the file.
fn read_program<B: Bytes>(file: &B, budget: &mut Budget) -> Result<Program> {
    let (tables, area) = split(file)?;
    let table = root::<fb::Program<'_>>(&tables).map_err(|fault| flatbuffer(Section::Program, &tables, &fault))?;
    let place = |index, offset, len| area.place(Section::Program, index, offset, len);
    program::read_tables(table, &tables, budget, place)
}

/// The tables, header included, and the area after them that contains the segments.
fn split<B: Bytes>(file: &B) -> Result<(Cow<'_, [u8]>, SegmentArea)> {
    let file_len = file.file_len();
    expect_magic(Section::Header, "the file identifier", file, 4, IDENTIFIER)?;
    let magic_len = (HEADER_MAGIC.len() as u64).min(file_len.saturating_sub(HEADER_AT as u64));
    let magic = take(Section::Header, "the extended header", file, HEADER_AT as u64, magic_len)?;
    if *magic != *HEADER_MAGIC {
        // A program without data has no header, and no segments.
        let tables = inline::take_tables(file, file_len)?;
        return Ok((tables, SegmentArea { base: file_len, end: file_len }));
    }
    let header = take(Section::Header, "the extended header", file, HEADER_AT as u64, OLD_HEADER_LEN as u64)?;
    let header_len = read_uint(&header, 4, 4);
    if header_len < OLD_HEADER_LEN as u64 {
        let location = Location { section: Section::Header, item: Item::Byte(HEADER_AT as u64 + 4) };
        let problem = Problem::Size { what: "the extended header's length", found: header_len, expected: HEADER_LEN as u64 };
        return Err(Error::new(location, problem));
    }
    let (tables_len, base) = (read_uint(&header, 8, 8), read_uint(&header, 16, 8));
    let data_len = if header_len < HEADER_LEN as u64 {
        None
    } else {
        let header = take(Section::Header, "the extended header", file, HEADER_AT as u64, HEADER_LEN as u64)?;
        Some(read_uint(&header, 24, 8))
    };
    let tables = inline::take_tables(file, tables_len)?;
    Ok((tables, SegmentArea::new(Section::Header, file_len, tables_len, base, data_len)?))
}

/// Named data, sorted for search.
struct Names<'a, D>(Vec<(&'a str, &'a D)>);

impl<'a, D> Names<'a, D> {
    fn of(program: &'a Program<D>) -> Self {
        let entries = program.named_data.as_deref().unwrap_or_default();
        Self::new(&program.segments, entries, |entry| (&entry.key, entry.segment))
    }

    fn of_external(data: &'a ExternalData<D>) -> Self {
        Self::new(&data.segments, &data.entries, |entry| (&entry.key, entry.segment))
    }

    fn new<T>(segments: &'a [D], entries: &'a [T], parts: impl Fn(&'a T) -> (&'a str, SegmentId)) -> Self {
        let mut names = Vec::with_capacity(entries.len());
        for (key, segment) in entries.iter().map(parts) {
            names.extend(segments.get(segment.index()).map(|segment| (key, segment)));
        }
        names.sort_unstable_by_key(|&(key, _)| key);
        Self(names)
    }

    fn find(&self, key: &str) -> Option<&'a D> {
        let index = self.0.binary_search_by_key(&key, |&(key, _)| key).ok()?;
        Some(self.0[index].1)
    }
}

/// Plans a `.pte` file for `program`: its first bytes and the range of each segment. Only the lengths of segments are needed, so a
/// program of any size can be written without holding it in memory.
///
/// # Errors
/// The first check of [`Pte::read`] on the tables that the program fails.
pub fn layout<D: Data>(program: &Program<D>) -> Result<FileLayout> {
    layout_with_min_head(program, 0)
}

/// Plans a `.pte` file as [`layout`] does, with at least `room` bytes before the first segment.
///
/// Use it to write segments before the tables are final: plan with names of the final length and the largest number of segments,
/// and write the segments after that plan's [`head`](FileLayout::head). A later plan with the length of that head as `room` places
/// them at the same offsets.
///
/// # Errors
/// The first check of [`Pte::read`] on the tables that the program fails.
pub fn layout_with_min_head<D: Data>(program: &Program<D>, room: usize) -> Result<FileLayout> {
    program::verify(program)?;
    layout_unverified(program, room)
}

pub(crate) fn layout_unverified<D: Data>(program: &Program<D>, room: usize) -> Result<FileLayout> {
    let (places, data_len) = lay_out(Section::Program, &program.segments)?;
    let inline = program.inline_constants.iter().chain(&program.inline_delegates).map(Data::byte_len);
    let found = inline.fold(0u64, u64::saturating_add);
    if found > MAX_INLINE {
        let location = Location { section: Section::Program, item: Item::Whole };
        return Err(Error::new(location, Problem::TooMany { what: "bytes inside the tables", found, limit: MAX_INLINE }));
    }
    let mut builder = Builder::new();
    let root = program::write_tables(&mut builder, program, &places)?;
    builder.finish(root, Some(IDENTIFIER));
    let tables = builder.finished_data();
    if data_len == 0 {
        let len = tables.len() as u64;
        return Ok(FileLayout { head: tables.to_vec(), segments: places, len });
    }
    Ok(assemble(tables, places, data_len, room))
}

/// Puts the extended header into finished tables.
pub(crate) fn assemble(tables: &[u8], places: Vec<ByteRange>, data_len: u64, room: usize) -> FileLayout {
    FileLayout::assemble(tables, places, data_len, room, HEADER_LEN, |tables_len, base, data_len| {
        let mut header = HEADER_MAGIC.to_vec();
        header.extend_from_slice(&HEADER_LEN.to_le_bytes()[..4]);
        for field in [tables_len, base, data_len] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        header
    })
}

/// Writes a whole `.pte` file into memory.
///
/// # Errors
/// The first check of [`Pte::read`] on the tables that the program fails, or a segment whose bytes are not available.
pub fn write<D: Data>(program: &Program<D>) -> Result<Vec<u8>> {
    layout(program)?.into_bytes(Section::Program, &program.segments)
}
