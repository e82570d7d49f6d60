//! Writes a program: constants in a stream, tables last.
//!
//! Constants are named by the SHA-256 of their bytes, and equal ones are stored once, so their number and names are known only when
//! all are computed. The writer reserves space for the largest possible tables, streams the constants after it, and then writes the
//! tables at the front (`tables`). All threads compute constants in blocks of rows (`compute`) while one thread hashes and writes
//! the previous blocks (`sink`): memory holds a few blocks and the scales of one weight. The file appears under its name when it is
//! complete (`storage`).

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

/// Blocks that may wait to be written. More would not help: the slower side limits the speed.
const BLOCKS_AHEAD: usize = 2;

/// The progress of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of constants computed so far.
    pub done: u64,
    /// Bytes of all distinct constants.
    pub total: u64,
    /// The current weight; `None` for tables and caches.
    pub weight: Option<Weight>,
}

/// Writes the program of `template` with the weights of `source` to `path`. Returns sizes and quantisation errors.
///
/// A file at `path` is replaced when the new one is complete. `progress` is called on this thread; returning
/// [`ControlFlow::Break`] stops the conversion. The output does not depend on the number of threads.
///
/// # Errors
/// Weights that cannot be read or are not finite, groups that do not divide a weight, a file that cannot be written, or
/// [`Error::Interrupted`]. No new file remains.
pub fn convert(
    source: &dyn Source,
    template: ProgramTemplate,
    scales: ScaleMethod,
    path: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report> {
    convert_through(source, template, scales, path, progress, |file| file)
}

/// [`convert`] with a wrapper around the file, for tests.
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

/// Computes on the thread pool; hashes and writes on another thread.
fn stream<S: Storage>(
    producer: Producer<'_>,
    sink: Sink<S>,
    failed: impl Fn(std::io::Error) -> Error,
) -> Result<(Stored<S>, Vec<report::Measured>)> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
        let writer = scope.spawn(move || sink.run(receiver));
        let weights = producer.run(sender);
        // A failing writer closes the channel, which the producer reports as an interruption: the writer's error comes first.
        let stored = writer.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(failed)?;
        Ok((stored, weights?))
    })
}
