//! Writes a program: constants in a stream, tables last.
//!
//! Constants are named by the SHA-256 of their bytes, and equal ones are stored once: how many there are, and what they are
//! called, is known only when all have been computed. So the file is planned for as many as there can be, the constants are
//! written behind the room that leaves for the tables, and then the tables go in front (`tables`). The constants are computed
//! in blocks of rows by all threads (`compute`) while another thread hashes and writes those before them (`sink`): memory
//! holds some blocks and the scales of one weight. All goes to a file that takes its name when it is whole (`storage`).

mod compute;
mod jobs;
mod report;
mod sink;
mod storage;
mod tables;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

use compute::Producer;
use jobs::Jobs;
use pteron_files::AtomicFile;
pub use report::{ConvertedWeight, Report};
use sink::{Sink, Stored};
use storage::Storage;
use tables::Tables;

use crate::config::Weight;
use crate::error::{Error, Result};
use crate::quantise::ScaleMethod;
use crate::source::Source;
use crate::template::ProgramTemplate;

/// Blocks that may wait to be written. More would not help: the slower side decides.
const BLOCKS_AHEAD: usize = 2;

/// How far a conversion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of constants that have been computed.
    pub done: u64,
    /// Bytes of constants in all, each counted once.
    pub total: u64,
    /// The weight they are of; tables and caches are of none.
    pub weight: Option<Weight>,
}

/// Writes the program of `template` with the weights of `source` to `path`, and says how far its weights are from the source's.
///
/// What was at `path` stays until the new file is whole. `progress` is called now and then on this thread; it stops everything
/// by returning [`ControlFlow::Break`]. The same source and template give the same bytes, however many threads compute.
///
/// # Errors
/// Weights that cannot be read or are not finite, groups that do not fit, a file that cannot be written; then there is no new
/// file, under no name.
pub fn convert(
    source: &dyn Source,
    template: ProgramTemplate,
    scales: ScaleMethod,
    path: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report> {
    convert_through(source, template, scales, path, progress, |file| file)
}

/// [`convert`], with something between it and the file.
fn convert_through<S: Storage>(
    source: &dyn Source,
    template: ProgramTemplate,
    scales: ScaleMethod,
    path: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    storage: impl FnOnce(AtomicFile) -> S,
) -> Result<Report> {
    let jobs = Jobs::new(&template, source.config())?;
    let tables = Tables::new(template)?;
    let reserved = tables.reserve(&jobs)?;
    let failed = |error| Error::Write { path: path.to_owned(), error };
    let file = AtomicFile::create(path, storage::OPTIONS).map_err(failed)?;

    let producer = Producer::new(source, scales, &jobs, progress);
    let (stored, weights) = stream(producer, Sink::new(storage(file), reserved.end), failed)?;
    let Stored { mut storage, segments, items } = stored;
    let segment_of: Vec<usize> = jobs.item_of.iter().map(|&item| items[item]).collect();
    let finished = tables.finish(&segments, &segment_of, reserved.room)?;
    for (start, bytes) in &finished.chunks {
        storage.write_at(*start, bytes).map_err(failed)?;
    }
    storage.set_len(finished.len).and_then(|()| storage.commit()).map_err(failed)?;
    Ok(Report::new(finished.len, jobs.item_of.len(), segments.len(), weights))
}

/// Computes on this thread and its helpers, hashes and writes on another.
fn stream<S: Storage>(
    producer: Producer<'_>,
    sink: Sink<S>,
    failed: impl Fn(std::io::Error) -> Error,
) -> Result<(Stored<S>, Vec<report::Measured>)> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
        let writer = scope.spawn(move || sink.run(receiver));
        let weights = producer.run(sender);
        // A writer that fails hangs up, and the producer can only tell that it did: what the writer says comes first.
        let stored = writer.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(failed)?;
        Ok((stored, weights?))
    })
}
