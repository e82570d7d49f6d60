//! Large inputs of a call, in memory that the host writes and the device copies from.
//!
//! The queue's own writes take new memory for each call, which a driver must first pin: slower than the copy itself where inputs are
//! megabytes. This buffer is created once. It is mapped while no call reads it; a call that finds it in use writes large inputs through the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Gpu;
use super::buffers::{BufferRequest, MemoryBudget, count};
use crate::error::Result;

/// Fewer bytes are written with the rest of a call's upload.
pub(super) const LEAST_BYTES: u64 = 256 << 10;

/// A buffer for the large inputs of one call.
#[derive(Debug)]
pub(super) struct InputStaging {
    buffer: wgpu::Buffer,
    /// Whether the host may write.
    mapped: Arc<AtomicBool>,
    /// Whether a call has written, and has not been submitted yet.
    written: AtomicBool,
}

impl InputStaging {
    pub(super) fn new(request: &BufferRequest, gpu: &Gpu, budget: &mut MemoryBudget) -> Result<Self> {
        let staging = Self { buffer: request.make(gpu, budget)?, mapped: Arc::default(), written: AtomicBool::default() };
        staging.map();
        Ok(staging)
    }

    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Whether an input is large enough.
    pub(super) fn takes(bytes: &[u8]) -> bool {
        bytes.len() as u64 >= LEAST_BYTES
    }

    /// Begins to write the inputs of a call; `None` while another call reads the buffer.
    pub(super) fn writer(&self) -> Option<InputWriter<'_>> {
        let free = self.mapped.swap(false, Ordering::Acquire);
        free.then_some(InputWriter { staging: self, next: 0 })
    }

    /// After a submission: maps the buffer for the next call, once the device is done with it.
    pub(super) fn map_again(&self) {
        if self.written.swap(false, Ordering::AcqRel) {
            self.map();
        }
    }

    fn map(&self) {
        let mapped = Arc::clone(&self.mapped);
        self.buffer.map_async(wgpu::MapMode::Write, .., move |result| mapped.store(result.is_ok(), Ordering::Release));
    }
}

/// Writes inputs one after another. Dropping it unmaps the buffer, so that the call can be submitted.
pub(super) struct InputWriter<'s> {
    staging: &'s InputStaging,
    next: u64,
}

impl InputWriter<'_> {
    /// Writes an input, padded to whole words. Returns its offset; `None` if it is small, or if there is no room.
    pub(super) fn put(&mut self, gpu: &Gpu, bytes: &[u8]) -> Option<u64> {
        let (at, len) = (self.next, bytes.len() as u64);
        let end = at.checked_add(crate::memory::padded(len)).filter(|&end| end <= self.staging.buffer.size())?;
        if !InputStaging::takes(bytes) {
            return None;
        }
        let mut view = self.staging.buffer.get_mapped_range_mut(at..end).ok()?;
        view.slice(..bytes.len()).copy_from_slice(bytes);
        // Copies are of whole words.
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        view.slice(bytes.len()..bytes.len() + padding).copy_from_slice(&[0; 3][..padding]);
        drop(view);
        count(&gpu.inner.counters.written_bytes, len);
        self.next = end;
        Some(at)
    }
}

impl Drop for InputWriter<'_> {
    fn drop(&mut self) {
        if self.next > 0 {
            self.staging.buffer.unmap();
            self.staging.written.store(true, Ordering::Release);
        } else {
            self.staging.mapped.store(true, Ordering::Release);
        }
    }
}
