//! Bytes on their way from the mapped file to buffers.
//!
//! Natively, a few threads each fill a staging buffer, have it copied, and fill it again: a byte is copied once by the host, pages of
//! the file are read by several threads, and what waits to be copied is bounded however large the constants are.

use std::borrow::Cow;

use super::Gpu;

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub(super) use browser::{flush, upload};
#[cfg(not(target_arch = "wasm32"))]
pub(super) use native::{flush, upload};

/// Bytes that are handed over at once: so many that each hand-over costs little, so few that a large constant is seen to move.
const BATCH: usize = 8 << 20;

/// Whether bytes count as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Yes,
    No,
}

/// Writes bytes from a place in a buffer on.
pub(super) type WriteFn<'p, 'd> = dyn FnMut(&wgpu::Buffer, u64, Cow<'d, [u8]>, Counted) + 'p;

/// Writes bytes through the queue, which copies what it is given. The last word is filled up with zeros.
pub(super) fn write(gpu: &Gpu, buffer: &wgpu::Buffer, start: u64, data: &[u8]) {
    let (whole, rest) = data.split_at(data.len() - data.len() % 4);
    if !whole.is_empty() {
        gpu.inner.queue.write_buffer(buffer, start, whole);
    }
    if !rest.is_empty() {
        let mut tail = [0; 4];
        tail[..rest.len()].copy_from_slice(rest);
        gpu.inner.queue.write_buffer(buffer, start + whole.len() as u64, &tail);
    }
}

/// What a copy of so many bytes moves: whole words, which every buffer has room for.
const fn words(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}
