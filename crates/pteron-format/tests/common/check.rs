//! Properties that must hold for any input. The fuzzers include this file, so they check the same as the tests.

#![allow(
    clippy::expect_used,
    clippy::unreachable,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "what does not hold is a panic; positions are those of files in memory; the fuzzers are another crate"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pteron_format::external::{self, ExternalData, Ptd};
use pteron_format::program::DataRef;
use pteron_format::vulkan::{Blob, read_blob, write_blob};
use pteron_format::{Data, Error, Problem, Program, Pte, Result, layout, write, xnnpack};

/// The longest an error's text may be.
const MAX_TEXT: usize = 500;
/// Reading may hold this many times the input on the heap,
const HEAP_FACTOR: u64 = 4;
/// and this much more.
const HEAP_SLACK: u64 = 1024 * 1024;

/// The outcome of reading one input.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// `accepted`, or the kind of problem.
    pub label: &'static str,
    /// The most that was on the heap at one time, in bytes.
    pub heap: u64,
}

/// The heap bytes that reading an input of `len` bytes may use.
#[must_use]
pub fn heap_limit(len: usize) -> u64 {
    HEAP_FACTOR * len as u64 + HEAP_SLACK
}

/// Runs `read` over an input of `len` bytes and checks its heap usage and the text of its error.
///
/// # Panics
/// If a property does not hold.
pub fn reading<T>(len: usize, read: impl FnOnce() -> Result<T>) -> (Option<T>, Outcome) {
    let mut result = None;
    // A panic must not leave the counter's stack as it is.
    let info = allocation_counter::measure(|| result = Some(catch_unwind(AssertUnwindSafe(read))));
    let result = match result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("measure always runs what it is given"),
    };
    let (heap, limit) = (info.bytes_max, heap_limit(len));
    assert!(heap <= limit, "{heap} bytes on the heap for an input of {len}, more than {limit}");
    match result {
        Ok(value) => (Some(value), Outcome { label: "accepted", heap }),
        Err(error) => {
            error_text(&error);
            (None, Outcome { label: kind(&error.problem), heap })
        }
    }
}

/// An error is one line that a person can read.
///
/// # Panics
/// If it is not.
pub fn error_text(error: &Error) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without a text: {error:?}");
    assert!(text.len() < MAX_TEXT, "the text of an error has {} bytes: {text}", text.len());
    let control = text.chars().find(|c| c.is_control());
    assert!(control.is_none(), "the text of an error holds {control:?}: {text:?}");
}

fn kind(problem: &Problem) -> &'static str {
    match problem {
        Problem::Truncated { .. } => "truncated",
        Problem::Magic { .. } => "magic",
        Problem::Flatbuffer { .. } => "flatbuffer",
        Problem::TablesTooLarge { .. } => "unjustified",
        Problem::Missing { .. } => "missing",
        Problem::Index { .. } => "index",
        Problem::Unknown { .. } => "unknown",
        Problem::Negative { .. } => "negative",
        Problem::Overflow { .. } => "overflow",
        Problem::Size { .. } => "size",
        Problem::Range { .. } => "range",
        Problem::Order { .. } => "order",
        Problem::Alignment { .. } => "alignment",
        Problem::TooMany { .. } => "too many",
        Problem::Kind { .. } => "kind",
        Problem::Duplicate { .. } => "duplicate",
        Problem::Permutation { .. } => "permutation",
        Problem::Version { .. } => "version",
        _ => "other",
    }
}

/// Checks that the facts in a verified program hold.
///
/// # Panics
/// If it is not.
pub fn program<B: AsRef<[u8]>>(pte: &Pte<B>) {
    let program = pte.program();
    for list in [&program.segments, &program.inline_constants, &program.inline_delegates] {
        for &range in list {
            assert_eq!(pte.bytes(range).len() as u64, range.len, "data outside the file");
        }
    }
    for (place, blob) in pte.graphs() {
        for constant in &blob.graph.constants {
            if let Some(bytes) = pte.constant_bytes(place, constant) {
                assert_eq!(bytes.len() as u64, constant.len, "a constant of another length");
            }
        }
    }
    for (place, blob) in pte.xnnpack_graphs() {
        xnnpack_graph(&blob.graph);
        for constant in &blob.graph.constants {
            if let Some(bytes) = pte.constant_bytes(place, constant) {
                assert_eq!(bytes.len() as u64, constant.len, "a constant of another length");
            }
        }
    }
    let nothing: [Ptd<&[u8]>; 0] = [];
    match pte.verify_external(&nothing) {
        Ok(()) => assert!(pte.external_keys().is_empty(), "external data passed that was not there"),
        Err(error) => error_text(&error),
    }
}

/// Writing a verified program gives a file that reads as an equal program.
///
/// # Panics
/// If it does not.
pub fn program_again<B: AsRef<[u8]>>(pte: &Pte<B>) {
    let program = pte.with_data();
    let written = written_program(&program);
    let again = Pte::read(written.as_slice()).expect("a written program can be read");
    assert!(again.with_data() == program, "a written program reads as another");
    assert!(again.graphs().eq(pte.graphs()), "a written program has other graphs");
    assert!(write(&again.with_data()).as_ref() == Ok(&written), "writing twice gives different files");
    let equal = again.xnnpack_graphs().eq(pte.xnnpack_graphs())
        || again.xnnpack_graphs().map(same_bits).eq(pte.xnnpack_graphs().map(same_bits));
    assert!(equal, "a written program has other graphs");
    for (place, blob) in pte.graphs() {
        let bytes = program.delegate_data(place).expect("a graph has bytes");
        blob_again(blob, bytes);
    }
    for (place, blob) in pte.xnnpack_graphs() {
        let bytes = program.delegate_data(place).expect("a graph has bytes");
        xnnpack_again(blob, bytes);
    }
}

/// A graph as text, in which a NaN equals itself.
fn same_bits((place, blob): (DataRef, &xnnpack::Blob)) -> String {
    format!("{place:?} {blob:?}")
}

/// Checks that the facts in a verified XNNPACK graph hold: ids, the order of definitions, and lengths.
///
/// # Panics
/// If they do not.
pub fn xnnpack_graph(graph: &xnnpack::Graph) {
    let mut defined: Vec<bool> = graph
        .values
        .iter()
        .map(|value| value.constant.is_some() || value.external.is_some_and(|external| !external.output))
        .collect();
    for node in &graph.nodes {
        assert!(node.kind.inputs().all(|id| defined[id.index()]), "{} reads what is not there", node.kind.name());
        for id in node.kind.outputs() {
            assert!(!std::mem::replace(&mut defined[id.index()], true), "{} writes again", node.kind.name());
        }
    }
    for (value, defined) in graph.values.iter().zip(defined) {
        assert!(defined || value.external.is_none(), "an output that nothing writes");
        assert_eq!(value.quantization.is_some(), value.dtype.is_quantized(), "integers without a meaning");
        let len = value.byte_len().expect("sizes can be counted");
        if let Some(constant) = value.constant {
            assert_eq!(graph.constants[constant.index()].len, len, "a constant of another length");
        }
        if let Some(xnnpack::Scales::Constant { id, count }) = value.quantization.as_ref().and_then(|q| q.scales()) {
            let size = if value.dtype == xnnpack::DataType::QbInt4 { 2 } else { 4 };
            assert_eq!(graph.constants[id.index()].len, u64::from(*count) * size, "scales of another length");
        }
    }
}

/// Writing a verified XNNPACK graph gives a blob that reads as an equal graph.
///
/// # Panics
/// If it does not.
pub fn xnnpack_again(blob: &xnnpack::Blob, bytes: &[u8]) {
    let [start, len] = [blob.stored.start, blob.stored.len].map(|number| number as usize);
    let stored = &bytes[start..start + len];
    let written = xnnpack::write_blob(&blob.graph, stored).expect("a verified graph can be written");
    let again = xnnpack::read_blob(&written).expect("a written graph can be read");
    // A NaN equals itself as text.
    let equal = again.graph == blob.graph || format!("{:?}", again.graph) == format!("{:?}", blob.graph);
    assert!(equal, "a written graph reads as another");
    let start = again.stored.start as usize;
    assert!(len == 0 || &written[start..start + len] == stored, "a written graph has other bytes");
}

/// The program as a file; also assembled from its layout, as a writer of large files would.
fn written_program<D: Data>(program: &Program<D>) -> Vec<u8> {
    let written = write(program).expect("a verified program can be written");
    let plan = layout(program).expect("what can be written can be laid out");
    let mut streamed = plan.head;
    for (place, data) in plan.segments.iter().zip(&program.segments) {
        let bytes = data.bytes().unwrap_or_default();
        if !bytes.is_empty() {
            streamed.resize(place.start as usize, 0);
            streamed.extend_from_slice(bytes);
        }
    }
    assert_eq!(streamed.len() as u64, plan.len, "a layout has another length than its parts");
    assert!(streamed == written, "writing in parts gives another file");
    written
}

/// The same for a delegate's blob.
///
/// # Panics
/// If it does not hold.
pub fn blob_again(blob: &Blob, bytes: &[u8]) {
    let [start, len] = [blob.stored.start, blob.stored.len].map(|number| number as usize);
    let stored = &bytes[start..start + len];
    let written = write_blob(&blob.graph, stored).expect("a verified graph can be written");
    let again = read_blob(&written).expect("a written graph can be read");
    assert!(again.graph == blob.graph, "a written graph reads as another");
    let start = again.stored.start as usize;
    assert!(&written[start..start + len] == stored, "a written graph has other bytes");
}

/// The same for external data.
///
/// # Panics
/// If it does not hold.
pub fn external_again<B: AsRef<[u8]>>(ptd: &Ptd<B>) {
    let data: ExternalData<&[u8]> = ptd.with_data();
    let written = external::write(&data).expect("verified data can be written");
    let again = Ptd::read(written.as_slice()).expect("written data can be read");
    assert!(again.with_data() == data, "written data reads as other data");
    for entry in &data.entries {
        assert!(again.named_bytes(&entry.key) == ptd.named_bytes(&entry.key), "a name has other bytes");
    }
}
