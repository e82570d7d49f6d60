//! The file around the constants: header, tables, and the delegate's graph.

use pteron_format::program::{DataRef, NamedData, SegmentId};
use pteron_format::vulkan::{self, ConstantSource, Graph};
use pteron_format::{Data, FileLayout, Program, layout_with_min_head};

use super::jobs::Jobs;
use super::sink::Segment;
use crate::error::{Error, Result};
use crate::template::ProgramTemplate;

/// A program and its graph. The segments of constants come last.
pub(super) struct Tables {
    program: Program<Bytes>,
    graph: Graph,
    /// The segment of the delegate's graph.
    delegate: SegmentId,
}

/// Bytes in memory, or the length of bytes that the sink writes.
#[derive(Clone, Debug)]
enum Bytes {
    Held(Vec<u8>),
    Elsewhere(u64),
}

impl Data for Bytes {
    fn byte_len(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Elsewhere(len) => *len,
        }
    }
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Held(bytes) => Some(bytes),
            Self::Elsewhere(_) => None,
        }
    }
}

/// Space for header and tables, reserved before the constants are known.
pub(super) struct ReservedLayout {
    /// Bytes reserved for header and tables.
    pub(super) room: usize,
    /// Where the segments before the constants end.
    pub(super) end: u64,
}

/// The parts of a file that remain to be written.
pub(super) struct Finished {
    /// Bytes and where they go.
    pub(super) chunks: Vec<(u64, Vec<u8>)>,
    /// The length of the whole file.
    pub(super) len: u64,
}

impl Tables {
    pub(super) fn new(template: ProgramTemplate) -> Result<Self> {
        let delegates = template.program.plans.iter().flat_map(|plan| &plan.delegates);
        let mut places = delegates.filter(|delegate| delegate.id == vulkan::BACKEND_ID).map(|delegate| delegate.data);
        let Some(DataRef::Segment(delegate)) = places.next() else {
            return Err(Error::Template("no method has a delegate whose graph is in a segment".to_owned()));
        };
        let mut program = template.program.map_data(|bytes| Bytes::Held(bytes.clone()));
        // The exporter writes a segment for constants outside delegates even if there are none.
        let constants = program.constants.as_ref().map(|constants| constants.segment);
        let segments = [Some(delegate), constants].into_iter().flatten().map(|segment| segment.index() + 1);
        let count = segments.max().unwrap_or(0).max(program.segments.len());
        program.segments.resize(count, Bytes::Held(Vec::new()));
        Ok(Self { program, graph: template.graph, delegate })
    }

    /// Reserves space for the largest possible number of constants.
    pub(super) fn reserve(&self, jobs: &Jobs) -> Result<ReservedLayout> {
        // Placeholder keys of the final length, all different.
        let segment = |(index, &len): (usize, &u64)| Segment { key: format!("{index:064x}"), start: 0, len };
        let segments: Vec<_> = jobs.items.iter().enumerate().map(segment).collect();
        let (layout, _) = self.plan(&segments, &jobs.item_of, 0)?;
        let before = &layout.segments[..self.program.segments.len()];
        let ends = before.iter().map(|place| place.start + place.len);
        let room = layout.head.len();
        Ok(ReservedLayout { room, end: ends.fold(room as u64, u64::max) })
    }

    /// Returns what remains to be written once the constants are stored.
    pub(super) fn finish(&self, segments: &[Segment], segment_of: &[usize], room: usize) -> Result<Finished> {
        let (layout, fixed) = self.plan(segments, segment_of, room)?;
        let planned = &layout.segments[fixed.len()..];
        let moved = planned.iter().zip(segments).any(|(place, segment)| place.len > 0 && place.start != segment.start);
        if moved || layout.head.len() != room {
            return Err(Error::Template("its tables grew while constants were written".to_owned()));
        }
        let mut chunks = vec![(0, layout.head)];
        for (place, bytes) in layout.segments.iter().zip(fixed) {
            if let Bytes::Held(bytes) = bytes {
                chunks.push((place.start, bytes));
            }
        }
        Ok(Finished { chunks, len: layout.len })
    }

    /// Lays out the file with these constants.
    fn plan(&self, segments: &[Segment], segment_of: &[usize], room: usize) -> Result<(FileLayout, Vec<Bytes>)> {
        let mut graph = self.graph.clone();
        for (constant, &segment) in graph.constants.iter_mut().zip(segment_of) {
            constant.source = ConstantSource::Named(segments[segment].key.clone());
        }
        let mut program = self.program.clone();
        program.segments[self.delegate.index()] = Bytes::Held(vulkan::write_blob(&graph, &[])?);
        let fixed = program.segments.clone();
        let mut named = Vec::with_capacity(segments.len());
        for segment in segments {
            let index =
                u32::try_from(program.segments.len()).map_err(|_| Error::Template("too many constants".to_owned()))?;
            named.push(NamedData { key: segment.key.clone(), segment: SegmentId(index) });
            program.segments.push(Bytes::Elsewhere(segment.len));
        }
        program.named_data = Some(named).filter(|named| !named.is_empty());
        Ok((layout_with_min_head(&program, room)?, fixed))
    }
}
