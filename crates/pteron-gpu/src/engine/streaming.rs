//! Streaming load: a graph whose constants arrive after it is loaded.

use std::borrow::Cow;

use super::buffers::MemoryBudget;
use super::constant_writer::{ConstantWriter, UploadSink};
use super::load::LoadedGraph;
use super::upload::{self, Upload};
use crate::error::Result;
use crate::ir::ConstantId;

/// A graph that is ready except for its constants, which arrive in pieces. They are zeros until then.
#[derive(Debug)]
pub struct StreamingGraph {
    pub(super) loaded: LoadedGraph,
    pub(super) writer: ConstantWriter,
    pub(super) budget: MemoryBudget,
    /// Bytes written since the queue was last flushed.
    pub(super) waiting: usize,
}

/// The most bytes that wait in the driver's staging memory.
const MOST_WAITING: usize = 32 << 20;

impl StreamingGraph {
    /// The graph, for benchmarks. Its outputs are meaningless.
    #[must_use]
    pub fn incomplete(&self) -> &LoadedGraph {
        &self.loaded
    }

    /// The constants it waits for, with their lengths in bytes. Equal constants are listed once.
    pub fn constants(&self) -> impl Iterator<Item = (ConstantId, u64)> {
        self.writer.constants()
    }

    /// Writes the next bytes of a constant, of any length. Natively this sometimes blocks until the device has completed
    /// pending writes; in a browser nothing can block here, and [`Gpu::wait_idle`](super::Gpu::wait_idle) waits instead.
    ///
    /// # Errors
    /// A number that the GPU's element type cannot represent, out of memory, or a device that fails. The constant must then
    /// be [restarted](Self::restart).
    pub fn write(&mut self, constant: ConstantId, bytes: &[u8]) -> Result<()> {
        let (gpu, budget) = (&self.loaded.gpu, &mut self.budget);
        let put = &mut |buffer: &wgpu::Buffer, start, bytes: Upload<'_>| {
            upload::write(gpu, buffer, start, &bytes.packed()?);
            Ok(())
        };
        self.writer.feed(&mut UploadSink { gpu, budget, put }, constant, Cow::Borrowed(bytes))?;
        self.waiting += bytes.len();
        if self.waiting >= MOST_WAITING {
            self.waiting = 0;
            upload::flush(&self.loaded.gpu)?;
        }
        Ok(())
    }

    /// Discards the uploaded part of a constant, because it was damaged.
    pub fn restart(&mut self, constant: ConstantId) {
        self.writer.restart(constant);
    }

    /// Returns the graph once all constants have arrived.
    ///
    /// # Errors
    /// A constant that is incomplete, or a device that has failed.
    pub fn finish(self) -> Result<LoadedGraph> {
        self.writer.check_full(&self.loaded.graph)?;
        self.loaded.gpu.check()?;
        Ok(self.into_loaded())
    }

    pub(super) fn into_loaded(mut self) -> LoadedGraph {
        let bytes = self.budget.used();
        self.loaded.reservation.keep(self.budget.into_reservations());
        LoadedGraph { initial: self.writer.into_initial(), bytes, ..self.loaded }
    }
}
