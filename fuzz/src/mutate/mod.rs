//! Makes an input from a seed: by its bytes, by its fields, or from tables that share on purpose.

mod atoms;
mod bytes;
mod external;
mod graph;
mod program;
mod sharing;

use fastrand::Rng;
use pteron_format::program::DataRef;
use pteron_format::{fuzzing, vulkan};

use crate::body::{self, Kind};
use crate::corpus::{Corpus, Typed};

/// Inputs do not grow beyond this: constant data is not what is tested.
pub const MAX_LEN: usize = 256 * 1024;

/// An input and what it claims to be.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it claims to be.
    pub kind: Kind,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How it was made, for the report of a find.
    pub how: String,
}

/// The input number `index` of the run with this seed number: the same numbers give the same input.
///
/// # Panics
/// If typed content is not written or not read back as it is: see [`body::typed`].
#[must_use]
pub fn input(corpus: &Corpus, seed: u64, index: u64) -> Input {
    // An odd factor spreads neighbouring numbers over all of the generator's states.
    let mut rng = Rng::with_seed(seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let rng = &mut rng;
    if rng.u8(..) < 16 {
        let (kind, bytes) = sharing::input(rng);
        return Input { kind, bytes, how: "tables that share".to_owned() };
    }
    let seed = &corpus.seeds[rng.usize(..corpus.seeds.len())];
    let other = &corpus.seeds[rng.usize(..corpus.seeds.len())];
    let fields = rng.bool();
    let mut bytes = match &seed.typed {
        Some(typed) if fields => fields_changed(rng, typed).unwrap_or_else(|| seed.bytes.clone()),
        _ => seed.bytes.clone(),
    };
    let damaged = !fields || rng.u8(..) < 40;
    if damaged {
        let hot = if fields { std::iter::once(0..bytes.len()).collect() } else { seed.hot.clone() };
        bytes::mutate(rng, &mut bytes, &hot, &other.bytes);
    }
    bytes.truncate(MAX_LEN);
    let how = match (fields, damaged) {
        (true, true) => "fields, then bytes",
        (true, false) => "fields",
        _ => "bytes",
    };
    Input { kind: seed.kind, bytes, how: format!("{how} of {}", seed.name) }
}

/// libFuzzer's hook: half of the steps are its own, half know what the bytes mean.
#[cfg(feature = "libfuzzer")]
pub fn libfuzzer(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let changed = step(&data[..size], seed.into());
    let len = changed.len().min(max_size);
    data[..len].copy_from_slice(&changed[..len]);
    len
}

/// One more input from `bytes`, by its fields if it is valid.
#[cfg(feature = "libfuzzer")]
fn step(bytes: &[u8], seed: u64) -> Vec<u8> {
    let rng = &mut Rng::with_seed(seed);
    let typed = crate::corpus::Seed::new("", bytes.to_vec()).and_then(|seed| seed.typed);
    if let Some(changed) = typed.and_then(|typed| fields_changed(rng, &typed)) {
        return changed;
    }
    let mut changed = bytes.to_vec();
    bytes::mutate(rng, &mut changed, std::slice::from_ref(&(0..bytes.len())), bytes);
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
            Typed::External(data) => external::mutate(rng, data),
        }
    }
    body::typed(&typed)
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
    let Ok(mut blob) = vulkan::read_blob(bytes) else { return };
    let mut stored = bytes[blob.stored.start as usize..][..blob.stored.len as usize].to_vec();
    graph::mutate(rng, &mut blob.graph, &mut stored);
    if let Ok(written) = fuzzing::write_blob(&blob.graph, &stored) {
        *bytes = written;
    }
}
