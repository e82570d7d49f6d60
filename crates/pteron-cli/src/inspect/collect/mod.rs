//! Collects the report from a verified program. Reads no weights.

mod constants;
mod delegates;
mod literal;
mod methods;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pteron_format::{ByteRange, Bytes, Data, Pte};

use super::report::{Delegate, External, ExternalKey, Header, Memory, Method, OperatorCount, Report, Support, VERSION};

/// Collects the report of a program, with the `most` largest constants.
pub(super) fn report<B: Bytes>(path: &Path, pte: &Pte<B>, data: &[PathBuf], most: usize) -> Report {
    let delegates = delegates::collect(pte);
    let summaries = methods::summaries(pte);
    let methods = methods::collect(pte, &delegates, &summaries);
    let delegates = delegates.list;
    let constants = constants::collect(pte, most);
    let (caches, state_bytes) = state::collect(pte);
    Report {
        report_version: VERSION,
        file: path.display().to_string(),
        bytes: pte.file().file_len(),
        header: header(pte),
        memory: memory(&delegates, &methods, constants.unique_bytes, state_bytes),
        constant_methods: literal::constant_methods(pte),
        external: external(pte, data),
        support: unsupported(&summaries),
        methods,
        delegates,
        constants,
        caches,
    }
}

/// Reads the header's fields, which were verified when the file was opened.
fn header<B: Bytes>(pte: &Pte<B>) -> Header {
    let (file, program) = (pte.file(), pte.program());
    let number = |start: u64, len: u64| {
        let bytes = file.get(ByteRange { start, len }).unwrap_or_default();
        bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    };
    let extended = file.get(ByteRange { start: 8, len: 4 }) == Some(b"eh00");
    Header {
        identifier: "ET12",
        schema_version: program.version,
        extended_bytes: extended.then(|| number(12, 4)),
        tables_bytes: if extended { number(16, 8) } else { file.file_len() },
        segments: program.segments.len(),
        segments_bytes: sum(program.segments.iter().map(Data::byte_len)),
    }
}

fn memory(delegates: &[Delegate], methods: &[Method], constants_bytes: u64, state_bytes: u64) -> Memory {
    let graphs = || delegates.iter().filter_map(|delegate| delegate.graph.as_ref());
    let activations_bytes = sum(graphs().map(|graph| graph.activations_bytes));
    let host_bytes = sum(methods.iter().map(|method| method.planned_bytes));
    Memory {
        constants_bytes,
        state_bytes,
        activations_bytes,
        activations_unshared_bytes: sum(graphs().map(|graph| graph.activations_unshared_bytes)),
        host_bytes,
        total_bytes: sum([constants_bytes, state_bytes, activations_bytes, host_bytes]),
    }
}

fn external<B: Bytes>(pte: &Pte<B>, data: &[PathBuf]) -> External {
    let needed: Vec<_> =
        pte.external_keys().into_iter().map(|(key, bytes)| ExternalKey { key: key.to_owned(), bytes }).collect();
    External {
        bytes: sum(needed.iter().map(|key| key.bytes)),
        needed,
        files: data.iter().map(|path| path.display().to_string()).collect(),
        verified: !data.is_empty(),
    }
}

fn unsupported(summaries: &[pteron::MethodSummary]) -> Support {
    let mut counts = BTreeMap::<String, usize>::new();
    for (name, count) in summaries.iter().flat_map(|summary| &summary.missing) {
        *counts.entry(clip(name)).or_default() += count;
    }
    let refused: BTreeSet<&String> = summaries.iter().filter_map(|summary| summary.refused.as_ref()).collect();
    let (unsupported, unsupported_calls) = counts.into_iter().unzip();
    Support { unsupported, unsupported_calls, refused: refused.into_iter().cloned().collect() }
}

/// Counts names, most frequent first, then by name.
fn tally(names: impl Iterator<Item = String>) -> Vec<OperatorCount> {
    let mut counts = BTreeMap::<String, usize>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(name, count)| OperatorCount { name, count }).collect();
    counts.sort_by_key(|operator| std::cmp::Reverse(operator.count));
    counts
}

/// Adds up with saturation: a file can claim more bytes than a u64 holds.
fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Shortens a name that the report repeats. A hostile file's could be a megabyte long.
fn clip(name: &str) -> String {
    const LIMIT: usize = 100;
    match name.char_indices().nth(LIMIT) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}
