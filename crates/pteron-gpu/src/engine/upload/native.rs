//! Uploads through staging buffers, on several threads.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use wgpu::BufferUsages as Usage;

use super::{BATCH, Counted, Upload, WriteFn, words};
use crate::engine::Gpu;
use crate::engine::buffers::count;
use crate::engine::progress::ProgressCounter;
use crate::engine::wait::OneShot;
use crate::error::{Error, Result};
use crate::packing::Packing;

/// The most staging buffers, each written by a thread. One thread saturates memory neither when it copies nor when it packs; more
/// than these are no faster.
const MAX_STAGING_BUFFERS: usize = 16;

/// Bytes and their destination.
struct UploadChunk<'d> {
    data: Arc<Cow<'d, [u8]>>,
    /// Bytes of the data, or tiles of it.
    range: Range<usize>,
    packing: Option<Packing>,
    /// The length in the staging buffer, whole words.
    len: usize,
    buffer: wgpu::Buffer,
    start: u64,
    /// Bytes of the file that count as progress.
    counted: u64,
}

/// Collects the data to write, and cuts it into batches that fit a staging buffer.
struct Batches<'d, 's> {
    batch: Vec<UploadChunk<'d>>,
    room: usize,
    size: usize,
    lanes: SyncSender<Vec<UploadChunk<'d>>>,
    /// Starts another thread, if there are to be more.
    start_lane: &'s mut dyn FnMut(),
}

/// Writes the data that `make` puts, about `bytes` in total. On return everything is submitted, but may not have run.
pub(in crate::engine) fn upload<'d, T>(
    gpu: &Gpu,
    loading: &ProgressCounter<'_>,
    bytes: u64,
    make: impl FnOnce(&mut WriteFn<'_, 'd>) -> Result<T>,
) -> Result<T> {
    let size = usize::try_from(bytes).unwrap_or(BATCH).next_multiple_of(16).clamp(1 << 16, BATCH);
    let batches = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(size);
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_STAGING_BUFFERS).min(batches).max(1);
    let (sender, batches) = sync_channel(lanes);
    // Only the threads hold the receiver once all of them run: when all have ended, sends fail. Before that, the channel has room.
    let mut batches = Some(Arc::new(Mutex::new(batches)));
    std::thread::scope(|scope| {
        let mut workers = Vec::with_capacity(lanes);
        // One for each of the first batches, so that the first is written while further staging buffers are created. They are created
        // here and not by the threads: out-of-memory errors belong to the scope that the caller has opened on this one.
        let mut start_lane = || {
            if let Some(batches) = batches.clone() {
                let stage = StagingBuffer::new(gpu, size);
                workers.push(scope.spawn(move || stage.run(gpu, &batches, loading)));
            }
            if workers.len() == lanes {
                batches = None;
            }
        };
        let mut batches = Batches { batch: Vec::new(), room: size, size, lanes: sender, start_lane: &mut start_lane };
        let made = make(&mut |buffer, start, upload| batches.put(buffer, start, upload));
        batches.flush();
        drop(batches);
        let written =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let written = written.fold(Ok(()), Result::and);
        made.and_then(|made| written.map(|()| made))
    })
}

impl<'d> Batches<'d, '_> {
    /// Writes bytes to a buffer, starting at an offset.
    fn put(&mut self, buffer: &wgpu::Buffer, start: u64, upload: Upload<'d>) -> Result<()> {
        match upload.packing.map(|packing| usize::try_from(packing.tile_bytes())) {
            Some(Ok(tile)) if tile <= self.size => {
                let tiles = upload.packing.map_or(0, |packing| packing.tiles_of(&upload.data));
                self.put_items(buffer, start, upload, (tiles, tile));
            }
            // Tiles that no staging buffer holds, of rows with millions of bytes, are packed first.
            Some(_) => {
                let counted = upload.counted;
                let data = upload.packed()?;
                let bytes = data.len();
                self.put_items(buffer, start, Upload { data, packing: None, counted }, (bytes, 1));
            }
            None => {
                let bytes = upload.data.len();
                self.put_items(buffer, start, upload, (bytes, 1));
            }
        }
        Ok(())
    }

    /// Cuts data into chunks of items that each take `size` bytes in the buffer.
    fn put_items(&mut self, buffer: &wgpu::Buffer, start: u64, upload: Upload<'d>, (items, size): (usize, usize)) {
        let Upload { data, packing, counted } = upload;
        let (data, mut from) = (Arc::new(data), 0);
        // Bytes of the file up to an item.
        let source = |item: usize| if items == 0 { 0 } else { data.len() as u64 * item as u64 / items as u64 };
        while from < items && size > 0 {
            if self.room < size {
                self.flush();
            }
            let to = items.min(from + self.room / size);
            let len = words((to - from) * size);
            let counted = match counted {
                Counted::Yes if packing.is_some() => source(to) - source(from),
                Counted::Yes => len as u64,
                Counted::No => 0,
            };
            let (buffer, start) = (buffer.clone(), start + (from * size) as u64);
            self.batch.push(UploadChunk { data: Arc::clone(&data), range: from..to, packing, len, buffer, start, counted });
            self.room = self.room.saturating_sub(len);
            from = to;
        }
        if self.room == 0 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.room = self.size;
        if !batch.is_empty() {
            (self.start_lane)();
            // A send fails only if all threads have failed, and they return the reason.
            let _ = self.lanes.send(batch);
        }
    }
}

/// A staging buffer, mapped while it is written.
struct StagingBuffer {
    buffer: wgpu::Buffer,
}

impl StagingBuffer {
    fn new(gpu: &Gpu, size: usize) -> Self {
        let buffer = gpu.inner.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("staging"),
            size: size as u64,
            usage: Usage::MAP_WRITE | Usage::COPY_SRC,
            mapped_at_creation: true,
        });
        Self { buffer }
    }

    /// Processes batches until there are no more.
    fn run(self, gpu: &Gpu, batches: &Mutex<Receiver<Vec<UploadChunk<'_>>>>, loading: &ProgressCounter<'_>) -> Result<()> {
        let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let (mut submitted, mut tile) = (None, Vec::new());
        while let Ok(batch) = next() {
            if let Some(submission) = submitted.take() {
                self.map(gpu, submission)?;
            }
            submitted = Some(self.write(gpu, &batch, &mut tile)?);
            loading.uploaded(batch.iter().map(|chunk| chunk.counted).sum());
        }
        Ok(())
    }

    /// Maps the buffer again once the submitted copies have completed.
    fn map(&self, gpu: &Gpu, submission: wgpu::SubmissionIndex) -> Result<()> {
        let mapped = OneShot::new();
        self.buffer.slice(..).map_async(wgpu::MapMode::Write, mapped.sender());
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        let polled = gpu.inner.device.poll(wait).map_err(|error| error.to_string());
        let mapped = polled.and_then(|_| pollster::block_on(mapped.wait()).map_err(|error| error.to_string()));
        mapped.or_else(|reason| failed(gpu, reason))
    }

    fn write(&self, gpu: &Gpu, batch: &[UploadChunk<'_>], tile: &mut Vec<u8>) -> Result<wgpu::SubmissionIndex> {
        let mut view = match self.buffer.get_mapped_range_mut(..) {
            Ok(view) => view,
            Err(error) => return failed(gpu, error.to_string()),
        };
        let mut encoder = gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut at = 0;
        for UploadChunk { data, range, packing, len, buffer, start, .. } in batch {
            let next = at + len;
            match packing {
                Some(packing) => write_tiles(&mut view, at, packing, (data, range.clone()), tile),
                None => {
                    let bytes = &data[range.clone()];
                    let end = at + bytes.len();
                    view.slice(at..end).copy_from_slice(bytes);
                    view.slice(end..next).copy_from_slice(&[0; 3][..next - end]);
                }
            }
            encoder.copy_buffer_to_buffer(&self.buffer, at as u64, buffer, *start, *len as u64);
            at = next;
        }
        drop(view);
        self.buffer.unmap();
        count(&gpu.inner.counters.submits, 1);
        Ok(gpu.inner.queue.submit([encoder.finish()]))
    }
}

/// Packs tiles into a mapped buffer. It can only be written, and is written fastest in order, so each tile is packed in `tile`
/// first, which stays in the processor's cache.
fn write_tiles(
    view: &mut wgpu::BufferViewMut,
    at: usize,
    packing: &Packing,
    (data, tiles): (&[u8], Range<usize>),
    tile: &mut Vec<u8>,
) {
    let Ok(size) = usize::try_from(packing.tile_bytes()) else { return };
    // At most as long as a staging buffer.
    tile.resize(size, 0);
    for (index, start) in tiles.zip((at..).step_by(size.max(1))) {
        packing.pack(data, index, tile);
        view.slice(start..start + size).copy_from_slice(tile);
    }
}

/// Flushes writes of the queue and waits for them: until then they occupy staging memory.
pub(in crate::engine) fn flush(gpu: &Gpu) -> Result<()> {
    let submission_index = Some(gpu.inner.queue.submit([]));
    count(&gpu.inner.counters.submits, 1);
    let waited = gpu.inner.device.poll(wgpu::PollType::Wait { submission_index, timeout: None });
    waited.map(|_| ()).or_else(|error| failed(gpu, error.to_string()))
}

/// Reports a lost device in preference to an error that it caused.
fn failed<T>(gpu: &Gpu, reason: String) -> Result<T> {
    gpu.check()?;
    Err(Error::Device(reason))
}
