//! What the adapter's memory can do, as a yardstick for kernels.

use std::time::Instant;

use super::buffers::{MemoryBudget, Request, STORAGE};
use super::device::Gpu;
use crate::error::Result;

/// Copies in a short and in a long run: their difference has no start and no end in it.
const FEW: u32 = 5;
const MANY: u32 = 45;
const TRIES: usize = 9;

/// Threads of a workgroup that copies, and the bytes each of them moves.
const THREADS: u64 = 256;
const BYTES: u64 = 16;
/// Workgroups that every adapter allows. Where more are needed, they go round again.
const MOST_GROUPS: u32 = 65_535;

/// A way to copy.
enum Way<'a> {
    /// The driver's own.
    Command,
    /// A kernel that does nothing else, bound to copy there and back.
    Kernel(&'a wgpu::ComputePipeline, [wgpu::BindGroup; 2]),
}

impl Gpu {
    /// Bytes a second that copies between two buffers of this size move, those read and those written together: the better of
    /// the driver's copies and a kernel's, since some drivers leave copies to a slower engine.
    ///
    /// # Errors
    /// Buffers that the adapter does not allow, or a lost device.
    pub async fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        let mut budget = MemoryBudget::new(None);
        let [a, b] = ["copied from", "copied to"].map(|label| Request::new(label, bytes, STORAGE));
        let buffers = [a.make(self, &mut budget)?, b.make(self, &mut budget)?];
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let end = Request::new("the end of copies", 16, usage).make(self, &mut budget)?;
        let pipeline = self.copy_pipeline();
        let bind = |from: usize, to: usize| self.bind_copy(&pipeline, &buffers[from], &buffers[to]);
        let kernel = Way::Kernel(&pipeline, [bind(0, 1), bind(1, 0)]);
        let command = self.best_seconds(&buffers, &end, &Way::Command).await?;
        let seconds = command.min(self.best_seconds(&buffers, &end, &kernel).await?);
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        Ok(2.0 * bytes as f64 / seconds)
    }

    /// Seconds for one copy, the median of some tries.
    async fn best_seconds(&self, buffers: &[wgpu::Buffer; 2], end: &wgpu::Buffer, way: &Way<'_>) -> Result<f64> {
        let mut seconds = Vec::new();
        for _ in 0..TRIES {
            let few = self.time_copies(buffers, end, way, FEW).await?;
            seconds.push(self.time_copies(buffers, end, way, MANY).await? - few);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[TRIES / 2] / f64::from(MANY - FEW))
    }

    async fn time_copies(&self, buffers: &[wgpu::Buffer; 2], end: &wgpu::Buffer, way: &Way<'_>, count: u32) -> Result<f64> {
        let mut encoder = self.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        // There and back: no copy may overtake the one before.
        match way {
            Way::Command => {
                for copy in 0..count as usize {
                    let [from, to] = [&buffers[copy % 2], &buffers[(copy + 1) % 2]];
                    encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
                }
            }
            Way::Kernel(pipeline, binds) => {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(pipeline);
                let groups = u32::try_from(buffers[0].size().div_ceil(THREADS * BYTES)).unwrap_or(u32::MAX).min(MOST_GROUPS);
                for copy in 0..count as usize {
                    pass.set_bind_group(0, &binds[copy % 2], &[]);
                    pass.dispatch_workgroups(groups, 1, 1);
                }
            }
        }
        encoder.copy_buffer_to_buffer(&buffers[1], 0, end, 0, 16);
        let start = Instant::now();
        self.inner.queue.submit([encoder.finish()]);
        self.read(end, 16).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn copy_pipeline(&self) -> wgpu::ComputePipeline {
        let device = &self.inner.device;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("plain copy"),
            source: wgpu::ShaderSource::Wgsl(include_str!("plain_copy.wgsl").into()),
        });
        device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("plain copy"),
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn bind_copy(&self, pipeline: &wgpu::ComputePipeline, from: &wgpu::Buffer, to: &wgpu::Buffer) -> wgpu::BindGroup {
        let [from, to] = [(0, from), (1, to)]
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
        self.inner.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("plain copy"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[from, to],
        })
    }
}
