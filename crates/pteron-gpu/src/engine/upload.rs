//! Uploads from the mapped file to buffers.
//!
//! Natively, threads each write a staging buffer, submit its copy, and reuse it: the host copies each byte once, several threads
//! read pages of the file, and pending copies are bounded however large the constants are. Meanwhile the loading thread creates
//! the next buffers, which takes a driver a few tenths of a millisecond each.

use std::borrow::Cow;

use pteron_format::alloc;

use super::Gpu;
use crate::error::Result;
use crate::packing::Packing;

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub(super) use browser::{flush, upload};
#[cfg(not(target_arch = "wasm32"))]
pub(super) use native::{flush, upload};

/// Bytes per batch: large enough that the overhead is small, small enough that a large constant shows progress.
const BATCH: usize = 8 << 20;

/// Whether bytes count as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Yes,
    No,
}

/// Bytes to write.
pub(super) struct Upload<'d> {
    pub(super) data: Cow<'d, [u8]>,
    /// The layout to pack them in: then they are a piece of the constant that can be packed by itself.
    pub(super) packing: Option<Packing>,
    pub(super) counted: Counted,
}

impl<'d> Upload<'d> {
    /// The bytes as they are written.
    pub(super) fn packed(self) -> Result<Cow<'d, [u8]>> {
        let Some(packing) = self.packing else { return Ok(self.data) };
        let tile = usize::try_from(packing.tile_bytes()).unwrap_or(usize::MAX);
        let mut packed = alloc::zeroed(packing.tiles_of(&self.data).saturating_mul(tile))?;
        packed.chunks_exact_mut(tile.max(1)).enumerate().for_each(|(index, tile)| packing.pack(&self.data, index, tile));
        Ok(Cow::Owned(packed))
    }
}

/// Writes bytes to a buffer, starting at an offset.
pub(super) type WriteFn<'p, 'd> = dyn FnMut(&wgpu::Buffer, u64, Upload<'d>) -> Result<()> + 'p;

/// Writes bytes through the queue, which copies them. The last word is padded with zeros.
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

/// The size of a copy of `bytes` bytes: whole words, which every buffer has room for.
const fn words(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}
