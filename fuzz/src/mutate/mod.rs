//! Makes a new input from another: by its bytes, its JSON values, its fields, or from tables that share on purpose.

mod atoms;
mod bytes;
mod external;
mod gguf;
mod graph;
mod json;
mod program;
mod sharing;
mod text;
pub mod xnnpack;

use fastrand::Rng;
use pteron_format::program::DataRef;
use pteron_format::{fuzzing, vulkan};

use crate::corpus::{Seed, Typed};
use crate::targets::files::{self, Kind};

pub use gguf::gguf_changed;
pub use json::json_changed;
pub use text::{json_with_prompt, split, text_changed, with_prompt};

/// Changes up to eight places of `bytes`; `other` lends blocks.
#[must_use]
pub fn bytes_changed(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    if changed.is_empty() {
        changed.push(rng.u8(..));
    }
    let whole = 0..changed.len();
    bytes::mutate(rng, &mut changed, std::slice::from_ref(&whole), other);
    changed
}

/// Changes a `.pte`, a `.ptd` or a blob: by its fields if it is valid, by its bytes, or into tables that share on purpose.
///
/// # Panics
/// If typed content is not written or not read back as it is: see [`files::typed`].
#[must_use]
pub fn file(rng: &mut Rng, kind: Option<Kind>, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    if rng.u8(..) < 16 {
        return sharing::input(rng, kind);
    }
    let fields = rng.bool();
    let Some(seed) = Seed::new("", bytes.to_vec()) else { return bytes_changed(rng, bytes, other) };
    let changed = seed.typed.as_ref().filter(|_| fields).and_then(|typed| fields_changed(rng, typed));
    let mut hot = seed.hot;
    let fields = changed.is_some();
    let mut changed = changed.unwrap_or(seed.bytes);
    if !fields || rng.u8(..) < 40 {
        if fields {
            hot = std::iter::once(0..changed.len()).collect();
        }
        bytes::mutate(rng, &mut changed, &hot, other);
    }
    changed
}

fn fields_changed(rng: &mut Rng, typed: &Typed) -> Option<Vec<u8>> {
    let mut typed = typed.clone();
    for _ in 0..=rng.u8(..4) {
        match &mut typed {
            Typed::Program(program) => {
                if rng.u8(..) < 80 {
                    graph_within(rng, program);
                } else {
                    program::mutate(rng, program);
                }
            }
            Typed::Graph(graph, stored) => graph::mutate(rng, graph, stored),
            Typed::Xnnpack(graph, stored) => xnnpack::mutate(rng, graph, stored),
            Typed::External(data) => external::mutate(rng, data),
        }
    }
    files::typed(&typed)
}

/// Changes a field of a graph inside a program.
fn graph_within(rng: &mut Rng, program: &mut pteron_format::Program<Vec<u8>>) {
    let delegates: Vec<DataRef> =
        program.plans.iter().flat_map(|plan| &plan.delegates).map(|delegate| delegate.data).collect();
    let Some(&place) = rng.choice(&delegates) else { return };
    let bytes = match place {
        DataRef::Inline(index) => program.inline_delegates.get_mut(index as usize),
        DataRef::Segment(segment) => program.segments.get_mut(segment.index()),
    };
    let Some(bytes) = bytes else { return };
    if let Ok(mut blob) = pteron_format::xnnpack::read_blob(bytes) {
        let mut stored = bytes[blob.stored.start as usize..][..blob.stored.len as usize].to_vec();
        xnnpack::mutate(rng, &mut blob.graph, &mut stored);
        if let Ok(written) = fuzzing::write_xnnpack_blob(&blob.graph, &stored) {
            *bytes = written;
        }
        return;
    }
    let Ok(mut blob) = vulkan::read_blob(bytes) else { return };
    let mut stored = bytes[blob.stored.start as usize..][..blob.stored.len as usize].to_vec();
    graph::mutate(rng, &mut blob.graph, &mut stored);
    if let Ok(written) = fuzzing::write_blob(&blob.graph, &stored) {
        *bytes = written;
    }
}
