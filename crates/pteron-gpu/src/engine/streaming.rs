//! A graph whose constants are on their way.

use std::borrow::Cow;

use super::buffers::MemoryBudget;
use super::constant_writer::{ConstantWriter, UploadSink};
use super::load::LoadedGraph;
use super::upload;
use crate::error::Result;
use crate::ir::ConstantId;

/// A graph that is ready but for its constants: those come in pieces. Until then they are zeros.
#[derive(Debug)]
pub struct StreamingGraph {
    pub(super) loaded: LoadedGraph,
    pub(super) writer: ConstantWriter,
    pub(super) budget: MemoryBudget,
    /// Bytes written since the queue was last told to take them.
    pub(super) waiting: usize,
}

/// So many bytes at most wait in staging memory of the driver.
const MOST_WAITING: usize = 32 << 20;

impl StreamingGraph {
    /// The graph, for trying how fast it is. What it answers means nothing.
    #[must_use]
    pub fn incomplete(&self) -> &LoadedGraph {
        &self.loaded
    }

    /// The constants it waits for, with their lengths in bytes. Of those that are equal one stands for all.
    pub fn constants(&self) -> impl Iterator<Item = (ConstantId, u64)> {
        self.writer.constants()
    }

    /// Writes the next bytes of a constant, however many. Natively this waits now and then until the device has taken what was
    /// written; in a browser nothing can wait here, and [`Gpu::wait_idle`](super::Gpu::wait_idle) does.
    ///
    /// # Errors
    /// A number that GPUs cannot hold, no memory, or a device that fails. What has come of the constant is then to be
    /// [forgotten](Self::restart).
    pub fn write(&mut self, constant: ConstantId, bytes: &[u8]) -> Result<()> {
        let (gpu, budget) = (&self.loaded.gpu, &mut self.budget);
        let put = &mut |buffer: &wgpu::Buffer, start, data: Cow<'_, [u8]>, _| upload::write(gpu, buffer, start, &data);
        self.writer.feed(&mut UploadSink { gpu, budget, put }, constant, Cow::Borrowed(bytes))?;
        self.waiting += bytes.len();
        if self.waiting >= MOST_WAITING {
            self.waiting = 0;
            upload::flush(&self.loaded.gpu)?;
        }
        Ok(())
    }

    /// Forgets what has come of a constant, because it was damaged.
    pub fn restart(&mut self, constant: ConstantId) {
        self.writer.restart(constant);
    }

    /// The graph, now that all constants have come.
    ///
    /// # Errors
    /// A constant of which a part is missing, or a device that has failed.
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
