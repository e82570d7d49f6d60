//! Converts tables of external data to typed values and back.

use pteron_schema::flat_tensor as fb;
use pteron_schema::{Builder, WIPOffset};

use super::{Entry, ExternalData, TensorLayout};
use crate::budget::Budget;
use crate::dtype::{MAX_RANK, ScalarType, element_count};
use crate::error::{Error, Item, Location, Problem, Result, Section, clip};
use crate::header::SegmentArea;
use crate::program::{ByteRange, Data, SegmentId, duplicate_name, is_permutation, signed, tables};
use crate::reader::Reader;

/// The schema version this library reads and writes.
const VERSION: u32 = 0;

pub(super) fn read(root: fb::FlatTensor<'_>, area: &SegmentArea, budget: &mut Budget) -> Result<ExternalData> {
    let mut cx = Reader::new(Section::External, budget);
    let mut index = 0;
    Ok(ExternalData {
        version: root.version(),
        segments: cx.tables(root.segments(), |_, table: fb::DataSegment<'_>| {
            index += 1;
            area.place(Section::External, index - 1, table.offset(), table.size())
        })?,
        entries: cx.tables(root.named_data(), |cx, table: fb::NamedData<'_>| {
            Ok(Entry {
                key: cx.text(table.key(), "a data key")?,
                segment: SegmentId(table.segment_index()),
                layout: table.tensor_layout().map(|layout| cx.layout(layout)).transpose()?,
            })
        })?,
    })
}

impl Reader<'_> {
    fn layout(&mut self, table: fb::TensorLayout<'_>) -> Result<TensorLayout> {
        Ok(TensorLayout {
            scalar_type: ScalarType::read(table.scalar_type(), &self.section, Item::Byte(table.position() as u64))?,
            sizes: self.list(table.sizes(), |cx, size: i32| cx.index("a dimension", size.into()))?,
            dim_order: self.list(table.dim_order(), |_, dim| Ok(dim))?,
        })
    }
}

pub(super) fn verify<D: Data>(data: &ExternalData<D>) -> Result<()> {
    let fail = |item, problem| Err(Error::new(Location { section: Section::External, item }, problem));
    if data.version != VERSION {
        let problem = Problem::Version { what: "the data's version", found: data.version.into(), supported: "version 0" };
        return fail(Item::Whole, problem);
    }
    for (index, entry) in data.entries.iter().enumerate() {
        let item = Item::Entry { kind: "named data", index };
        let Some(segment) = data.segments.get(entry.segment.index()) else {
            let (index, len) = (entry.segment.0.into(), data.segments.len() as u64);
            return fail(item, Problem::Index { what: "its segment", index, len });
        };
        if let Some(layout) = &entry.layout {
            verify_layout(layout, segment.byte_len()).or_else(|problem| fail(item, problem))?;
        }
    }
    match duplicate_name(&data.entries, |entry| &entry.key) {
        None => Ok(()),
        Some(name) => fail(Item::Whole, Problem::Duplicate { what: "the data key", name: clip(name) }),
    }
}

fn verify_layout(layout: &TensorLayout, found: u64) -> Result<(), Problem> {
    let rank = layout.sizes.len();
    if rank > MAX_RANK {
        return Err(Problem::TooMany { what: "the tensor's rank", found: rank as u64, limit: MAX_RANK as u64 });
    }
    if let Some(&size) = layout.sizes.iter().find(|&&size| i32::try_from(size).is_err()) {
        return Err(Problem::TooMany { what: "a dimension", found: size.into(), limit: i32::MAX.unsigned_abs().into() });
    }
    if !is_permutation(&layout.dim_order, rank) {
        let found = layout.dim_order.iter().copied().take(MAX_RANK).collect();
        return Err(Problem::Permutation { what: "the order of dimensions", found, rank });
    }
    let expected =
        element_count(layout.sizes.iter().copied()).and_then(|count| count.checked_mul(layout.scalar_type.size()));
    match expected {
        None => Err(Problem::Overflow { what: "the tensor's size" }),
        Some(expected) if expected != found => Err(Problem::Size { what: "the tensor's length in bytes", found, expected }),
        Some(_) => Ok(()),
    }
}

pub(super) fn write<'b, D>(
    b: &mut Builder<'b>,
    data: &ExternalData<D>,
    places: &[ByteRange],
) -> WIPOffset<fb::FlatTensor<'b>> {
    let segments = tables(b, places, |b, place| {
        fb::DataSegmentArgs { offset: place.start, size: place.len, ..Default::default() }.write(b)
    });
    let named_data = tables(b, &data.entries, |b, entry| {
        let tensor_layout = entry.layout.as_ref().map(|layout| {
            let sizes = Some(b.create_vector_from_iter(layout.sizes.iter().map(|&size| signed(size))));
            let dim_order = Some(b.create_vector(&layout.dim_order));
            fb::TensorLayoutArgs { scalar_type: layout.scalar_type.to_wire(), sizes, dim_order, ..Default::default() }
                .write(b)
        });
        let key = Some(b.create_string(&entry.key));
        fb::NamedDataArgs { key, segment_index: entry.segment.0, tensor_layout, ..Default::default() }.write(b)
    });
    fb::FlatTensorArgs { version: data.version, segments, named_data, ..Default::default() }.write(b)
}
