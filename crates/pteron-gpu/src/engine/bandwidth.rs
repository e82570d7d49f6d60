//! What the adapter's memory can do, as a yardstick for kernels.

use std::time::Instant;

use super::buffers::{MemoryBudget, Request, STORAGE};
use super::device::Gpu;
use crate::error::Result;

/// Copies in a short and in a long run: their difference has no start and no end in it.
const FEW: u32 = 5;
const MANY: u32 = 45;
const TRIES: usize = 9;

impl Gpu {
    /// Bytes a second that copies between two buffers of this size move, those read and those written together.
    ///
    /// # Errors
    /// Buffers that the adapter does not allow, or a lost device.
    pub async fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        let mut budget = MemoryBudget::new(None);
        let [a, b] = ["copied from", "copied to"].map(|label| Request::new(label, bytes, STORAGE));
        let buffers = [a.make(self, &mut budget)?, b.make(self, &mut budget)?];
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let end = Request::new("the end of copies", 16, usage).make(self, &mut budget)?;
        let mut seconds = Vec::new();
        for _ in 0..TRIES {
            let few = self.time_copies(&buffers, &end, FEW).await?;
            seconds.push(self.time_copies(&buffers, &end, MANY).await? - few);
        }
        seconds.sort_by(f64::total_cmp);
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        Ok(2.0 * bytes as f64 * f64::from(MANY - FEW) / seconds[TRIES / 2])
    }

    async fn time_copies(&self, buffers: &[wgpu::Buffer; 2], end: &wgpu::Buffer, count: u32) -> Result<f64> {
        let mut encoder = self.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for copy in 0..count {
            // There and back: no copy may overtake the one before.
            let (from, to) = if copy % 2 == 0 { (&buffers[0], &buffers[1]) } else { (&buffers[1], &buffers[0]) };
            encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
        }
        encoder.copy_buffer_to_buffer(&buffers[1], 0, end, 0, 16);
        let start = Instant::now();
        self.inner.queue.submit([encoder.finish()]);
        self.read(end, 16).await?;
        Ok(start.elapsed().as_secs_f64())
    }
}
