//! Through the browser, which copies what it is given.

use super::{BATCH, Counted, Put, words};
use crate::engine::Gpu;
use crate::engine::progress::Loading;
use crate::error::Result;

/// Writes what `make` puts.
pub(in crate::engine) fn upload<'d, T>(
    gpu: &Gpu,
    loading: &Loading<'_>,
    _bytes: u64,
    make: impl FnOnce(&mut Put<'_, 'd>) -> Result<T>,
) -> Result<T> {
    make(&mut |buffer, start, data, counted| {
        for (chunk, start) in data.chunks(BATCH).zip((start..).step_by(BATCH)) {
            let (whole, rest) = chunk.split_at(chunk.len() - chunk.len() % 4);
            gpu.inner.queue.write_buffer(buffer, start, whole);
            if !rest.is_empty() {
                let mut tail = [0; 4];
                tail[..rest.len()].copy_from_slice(rest);
                gpu.inner.queue.write_buffer(buffer, start + whole.len() as u64, &tail);
            }
            if counted == Counted::Yes {
                loading.uploaded(words(chunk.len()) as u64);
            }
        }
    })
}
