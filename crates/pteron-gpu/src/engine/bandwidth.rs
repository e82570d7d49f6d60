//! Measured memory bandwidth of the adapter, as a yardstick for kernels.

use std::time::Instant;

use super::buffers::{BufferRequest, MemoryBudget, STORAGE};
use super::device::Gpu;
use crate::error::Result;

/// The same work in a short and in a long run, repeated: the difference of the two excludes the fixed cost of starting and
/// ending.
struct Runs {
    few: u32,
    many: u32,
    tries: usize,
}

const COPIES: Runs = Runs { few: 5, many: 45, tries: 9 };
/// Fewer reads, because users wait for these measurements.
const READS: Runs = Runs { few: 2, many: 14, tries: 5 };

/// Threads per workgroup of a copy kernel, and bytes per thread.
const THREADS: u64 = 256;
const BYTES: u64 = 16;
/// Workgroups that every adapter allows. If more are needed, workgroups loop.
const MOST_GROUPS: u32 = 65_535;
/// Bytes that a workgroup of `plain_read.wgsl` reads.
const READ_BYTES: u64 = 16 * THREADS * BYTES;

impl Gpu {
    /// Bytes per second, read and written, that copies between two buffers of this size move. Takes the faster of driver
    /// copies and a copy kernel, because some drivers run copies on a slower engine.
    ///
    /// # Errors
    /// Buffers that the adapter does not allow, or a lost device.
    pub async fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        let mut budget = MemoryBudget::new(None);
        let [a, b] = ["copied from", "copied to"].map(|label| BufferRequest::new(label, bytes, STORAGE));
        let buffers = [a.make(self, &mut budget)?, b.make(self, &mut budget)?];
        let pipeline = self.pipeline_with_inferred_layout("plain copy", include_str!("plain_copy.wgsl"));
        let bind = |from: usize, to: usize| self.bind_pair(&pipeline, &buffers[from], &buffers[to]);
        let binds = [bind(0, 1), bind(1, 0)];
        let groups = u32::try_from(buffers[0].size().div_ceil(THREADS * BYTES)).unwrap_or(u32::MAX).min(MOST_GROUPS);
        // Copies back and forth, so that each copy depends on the one before.
        let commands = |encoder: &mut wgpu::CommandEncoder, count: u32| {
            for copy in 0..count as usize {
                let [from, to] = [&buffers[copy % 2], &buffers[(copy + 1) % 2]];
                encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
            }
        };
        let kernels = |encoder: &mut wgpu::CommandEncoder, count: u32| {
            dispatch(encoder, &pipeline, (0..count as usize).map(|copy| &binds[copy % 2]), groups);
        };
        let seconds = self.seconds_each(&COPIES, &buffers[1], commands).await?;
        let seconds = seconds.min(self.seconds_each(&COPIES, &buffers[1], kernels).await?);
        Ok(2.0 * as_figure(bytes) / seconds)
    }

    /// Bytes per second that a read-only kernel reads repeatedly from a buffer of about this size. A buffer that fits in a
    /// cache of the adapter measures the cache.
    ///
    /// # Errors
    /// A buffer that the adapter does not allow, or a lost device.
    pub async fn read_bandwidth(&self, bytes: u64) -> Result<f64> {
        let bytes = bytes.next_multiple_of(READ_BYTES).min(READ_BYTES * u64::from(MOST_GROUPS));
        let mut budget = MemoryBudget::new(None);
        let from = BufferRequest::new("read from", bytes, STORAGE).make(self, &mut budget)?;
        let found = BufferRequest::new("read to", 16, STORAGE).make(self, &mut budget)?;
        // Memory that was never written may not be allocated.
        let mut encoder = self.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.clear_buffer(&from, 0, None);
        self.inner.queue.submit([encoder.finish()]);
        let seconds = self.seconds_each(&READS, &found, self.reads(&from, &found)).await?;
        Ok(as_figure(bytes) / seconds)
    }

    /// Reads a buffer that many times, and stores in `found` whether any bit was set.
    fn reads(&self, from: &wgpu::Buffer, found: &wgpu::Buffer) -> impl Fn(&mut wgpu::CommandEncoder, u32) + use<> {
        let pipeline = self.pipeline_with_inferred_layout("plain read", include_str!("plain_read.wgsl"));
        let bind = self.bind_pair(&pipeline, from, found);
        let groups = u32::try_from(from.size() / READ_BYTES).unwrap_or(MOST_GROUPS);
        move |encoder, count| dispatch(encoder, &pipeline, (0..count).map(|_| &bind), groups)
    }

    /// Seconds per repetition of some work, the median of several tries.
    async fn seconds_each(
        &self,
        runs: &Runs,
        written: &wgpu::Buffer,
        encode: impl Fn(&mut wgpu::CommandEncoder, u32),
    ) -> Result<f64> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let end = BufferRequest::new("the end of a run", 16, usage).make(self, &mut MemoryBudget::new(None))?;
        let mut seconds = Vec::new();
        for _ in 0..runs.tries {
            let few = self.seconds(runs.few, written, &end, &encode).await?;
            seconds.push(self.seconds(runs.many, written, &end, &encode).await? - few);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[runs.tries / 2] / f64::from(runs.many - runs.few))
    }

    /// Seconds until the work is done and the first bytes of its output are read back.
    async fn seconds(
        &self,
        count: u32,
        written: &wgpu::Buffer,
        end: &wgpu::Buffer,
        encode: impl Fn(&mut wgpu::CommandEncoder, u32),
    ) -> Result<f64> {
        let mut encoder = self.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encode(&mut encoder, count);
        encoder.copy_buffer_to_buffer(written, 0, end, 0, 16);
        let start = Instant::now();
        self.inner.queue.submit([encoder.finish()]);
        self.read(end, 16).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn bind_pair(&self, pipeline: &wgpu::ComputePipeline, from: &wgpu::Buffer, to: &wgpu::Buffer) -> wgpu::BindGroup {
        let [from, to] = [(0, from), (1, to)]
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
        self.inner.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[from, to],
        })
    }
}

/// Encodes one dispatch per bind group, all in one pass.
fn dispatch<'a>(
    encoder: &mut wgpu::CommandEncoder,
    pipeline: &wgpu::ComputePipeline,
    binds: impl Iterator<Item = &'a wgpu::BindGroup>,
    groups: u32,
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(pipeline);
    for bind in binds {
        pass.set_bind_group(0, bind, &[]);
        pass.dispatch_workgroups(groups, 1, 1);
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_figure(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::block_on;
    use crate::testing::gpu;

    /// A set bit anywhere, including in the last word of the last workgroup, is found: the kernel reads everything.
    #[test]
    fn a_plain_read_reads_everything() {
        let gpu = gpu();
        let buffer =
            |label, bytes| BufferRequest::new(label, bytes, STORAGE).make(&gpu, &mut MemoryBudget::new(None)).unwrap();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let end = BufferRequest::new("end", 16, usage).make(&gpu, &mut MemoryBudget::new(None)).unwrap();
        for bit_at in [None, Some(0), Some(READ_BYTES - 4), Some(READ_BYTES), Some(3 * READ_BYTES - 4)] {
            let (from, found) = (buffer("from", 3 * READ_BYTES), buffer("found", 16));
            if let Some(at) = bit_at {
                gpu.inner.queue.write_buffer(&from, at, &[0, 0, 2, 0]);
            }
            block_on(gpu.seconds(1, &found, &end, gpu.reads(&from, &found))).unwrap();
            let seen = block_on(gpu.read(&end, 16)).unwrap();
            assert_eq!(seen[0], u8::from(bit_at.is_some()), "{bit_at:?}");
        }
    }

    #[test]
    fn reading_has_a_speed() {
        let speed = block_on(gpu().read_bandwidth(32 << 20)).unwrap();
        assert!(speed.is_finite() && speed > 1e6, "{speed} bytes a second");
    }
}
