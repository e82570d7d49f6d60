//! Seeds of the file formats: the real exports below `fixtures/`, and variants made from them.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use pteron_format::external::{Entry, ExternalData, Ptd};
use pteron_format::program::{DataRef, SegmentId};
use pteron_format::vulkan::{Graph, read_blob};
use pteron_format::{Program, Pte, external, fuzzing, xnnpack};

use crate::seeds;
use crate::targets::files::Kind;

/// Larger files are nearly all constant data; they serve as seeds without it.
const MAX_SEED: usize = 64 * 1024;
/// Header length in programs of the older format.
const OLD_HEADER_LEN: u8 = 24;

/// Content of a valid seed, for mutations of single fields.
#[derive(Clone, Debug)]
pub enum Typed {
    /// A program.
    Program(Program<Vec<u8>>),
    /// A delegate's graph, and the bytes its constants are in.
    Graph(Graph, Vec<u8>),
    /// An XNNPACK delegate's graph, and the bytes its constants are in.
    Xnnpack(xnnpack::Graph, Vec<u8>),
    /// External data.
    External(ExternalData<Vec<u8>>),
}

/// An input to start from.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Where it comes from.
    pub name: String,
    /// Whether it was made here from a valid file, so that it must be valid.
    pub made: bool,
    /// Its file format.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its content, if it is valid.
    pub typed: Option<Typed>,
    /// The parts of it that are not constant data.
    pub hot: Vec<Range<usize>>,
}

impl Seed {
    /// A seed of these bytes; `None` if they claim to be nothing that is known here.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Option<Self> {
        let kind = Kind::of(&bytes)?;
        let (typed, cold) = match kind {
            Kind::Program => Pte::read(bytes.as_slice()).ok().map(|pte| typed_program(&pte)),
            Kind::Delegate => read_blob(&bytes).ok().map(|blob| {
                let stored = range(blob.stored.start, blob.stored.len);
                (Typed::Graph(blob.graph, bytes[stored.clone()].to_vec()), vec![stored])
            }),
            Kind::Xnnpack => xnnpack::read_blob(&bytes).ok().map(|blob| {
                let stored = range(blob.stored.start, blob.stored.len);
                // Constants inside the tables cannot be told apart from them.
                let cold = if stored.end == bytes.len() { vec![stored.clone()] } else { Vec::new() };
                (Typed::Xnnpack(blob.graph, bytes[stored].to_vec()), cold)
            }),
            Kind::External => Ptd::read(bytes.as_slice()).ok().map(|ptd| {
                let cold = ptd.data().segments.iter().map(|extent| range(extent.start, extent.len)).collect();
                (Typed::External(owned(&ptd.with_data())), cold)
            }),
        }
        .map_or((None, Vec::new()), |(typed, cold)| (Some(typed), cold));
        let hot = complement(cold, bytes.len());
        Some(Self { name: name.into(), made: false, kind, bytes, typed, hot })
    }
}

fn range(start: u64, len: u64) -> Range<usize> {
    start as usize..(start + len) as usize
}

fn typed_program(pte: &Pte<&[u8]>) -> (Typed, Vec<Range<usize>>) {
    let program = pte.program();
    let mut cold = Vec::new();
    for (index, extent) in program.segments.iter().enumerate() {
        let place = DataRef::Segment(SegmentId(u32::try_from(index).unwrap_or(u32::MAX)));
        cold.push(match pte.graph(place) {
            Some(blob) => range(extent.start + blob.stored.start, blob.stored.len),
            None if pte.xnnpack(place).is_some() => continue,
            None => range(extent.start, extent.len),
        });
    }
    cold.extend(program.inline_constants.iter().map(|extent| range(extent.start, extent.len)));
    (Typed::Program(program.map_data(|&extent| pte.bytes(extent).to_vec())), cold)
}

fn owned(data: &ExternalData<&[u8]>) -> ExternalData<Vec<u8>> {
    data.map_data(|bytes| bytes.to_vec())
}

/// Returns the gaps between ranges of `0..len`.
fn complement(mut ranges: Vec<Range<usize>>, len: usize) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut between = Vec::new();
    let mut end = 0;
    for range in ranges {
        if range.start > end {
            between.push(end..range.start);
        }
        end = end.max(range.end);
    }
    if end < len {
        between.push(end..len);
    }
    between
}

/// The seeds made from the real files below `fixtures/` of the repository at `root`, in an order that depends on the files
/// alone. They are read once.
///
/// # Panics
/// If there is no real file, or if something made from a valid file is invalid.
pub fn real(root: &Path) -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let files = seeds::with_extension(root, &["fixtures"], &["pte", "ptd"], usize::MAX);
        assert!(!files.is_empty(), "there is no .pte file below {}", root.join("fixtures").display());
        let mut made = Vec::new();
        for file in files {
            add_real(&mut made, &file.name, file.bytes);
        }
        for seed in &made {
            assert!(!seed.made || seed.typed.is_some(), "{} is refused", seed.name);
        }
        made
    })
}

/// A real file, its delegates, its constants as external data, and the older forms of it.
fn add_real(seeds: &mut Vec<Seed>, name: &str, bytes: Vec<u8>) {
    let mut add = |label: &str, bytes: Option<Vec<u8>>| {
        let small = bytes.filter(|bytes| bytes.len() <= MAX_SEED);
        let seed = small.and_then(|bytes| Seed::new(format!("{name}{label}"), bytes));
        seeds.extend(seed.map(|seed| Seed { made: !label.is_empty(), ..seed }));
    };
    if let Ok(pte) = Pte::read(bytes.as_slice()) {
        let program = pte.program().map_data(|&extent| pte.bytes(extent).to_vec());
        for (place, _) in pte.graphs() {
            add(" (delegate)", program.delegate_data(place).cloned());
        }
        for (place, blob) in pte.xnnpack_graphs() {
            let bytes = program.delegate_data(place).cloned().unwrap_or_default();
            let stored = &bytes[range(blob.stored.start, blob.stored.len)];
            add(" (delegate, rewritten)", xnnpack::write_blob(&blob.graph, stored).ok());
            let tables = 32..32 + read_u32(&bytes, 14);
            add(" (flatbuffer alone)", bytes.get(tables).map(<[u8]>::to_vec));
            add(" (delegate)", Some(bytes));
        }
        add(" (without data)", fuzzing::write_program(&without_named_data(&program)).ok());
        add(" (data alone)", external::write(&named_data(&program)).ok());
        add(" (inline)", fuzzing::write_program(&inline(&program)).ok());
        let mut old = bytes.clone();
        if let Some(len) = old.get_mut(12) {
            *len = OLD_HEADER_LEN;
        }
        add(" (older header)", Some(old));
    }
    add("", Some(bytes));
}

fn read_u32(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, |word| u32::from_le_bytes(word) as usize)
}

/// The program with its named data left to a `.ptd` file.
fn without_named_data(program: &Program<Vec<u8>>) -> Program<Vec<u8>> {
    let mut program = program.clone();
    for entry in program.named_data.take().into_iter().flatten() {
        program.segments[entry.segment.index()].clear();
    }
    program
}

/// The program's named data as a `.ptd` file would hold it.
fn named_data(program: &Program<Vec<u8>>) -> ExternalData<Vec<u8>> {
    let names = program.named_data.as_deref().unwrap_or_default();
    let entry =
        |name: &pteron_format::program::NamedData| Entry { key: name.key.clone(), segment: name.segment, layout: None };
    ExternalData { version: 0, segments: program.segments.clone(), entries: names.iter().map(entry).collect() }
}

/// The program with its delegates inside the tables.
fn inline(program: &Program<Vec<u8>>) -> Program<Vec<u8>> {
    let mut program = program.clone();
    for delegate in program.plans.iter_mut().flat_map(|plan| &mut plan.delegates) {
        if let DataRef::Segment(segment) = delegate.data {
            delegate.data = DataRef::Inline(u32::try_from(program.inline_delegates.len()).unwrap_or(u32::MAX));
            program.inline_delegates.push(program.segments[segment.index()].clone());
        }
    }
    program
}
