//! Uploads through the browser, which copies the data.

use super::{BATCH, Counted, WriteFn, words, write};
use crate::engine::Gpu;
use crate::engine::progress::ProgressCounter;
use crate::error::Result;

/// Writes the data that `make` puts.
pub(in crate::engine) fn upload<'d, T>(
    gpu: &Gpu,
    loading: &ProgressCounter<'_>,
    _bytes: u64,
    make: impl FnOnce(&mut WriteFn<'_, 'd>) -> Result<T>,
) -> Result<T> {
    make(&mut |buffer, start, upload| {
        let (counted, source, packing) = (upload.counted, upload.data.len(), upload.packing);
        let data = upload.packed()?;
        // Packed bytes count as those of the file.
        if counted == Counted::Yes && packing.is_some() {
            loading.uploaded(source as u64);
        }
        for (chunk, start) in data.chunks(BATCH).zip((start..).step_by(BATCH)) {
            write(gpu, buffer, start, chunk);
            if counted == Counted::Yes && packing.is_none() {
                loading.uploaded(words(chunk.len()) as u64);
            }
        }
        Ok(())
    })
}

/// Flushes the queue. Browsers do so by themselves, and nothing can wait for them here.
#[allow(clippy::unnecessary_wraps, reason = "natively this can fail")]
pub(in crate::engine) fn flush(_gpu: &Gpu) -> Result<()> {
    Ok(())
}
