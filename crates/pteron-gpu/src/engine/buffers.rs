//! Buffers, with counters of created resources and a memory budget.

use std::sync::atomic::{AtomicU64, Ordering};

use pteron_format::alloc;
use wgpu::BufferUsages as Usage;

use super::Gpu;
use super::guards::Region;
use super::shared_budget::{Reservation, SharedBudget};
use super::wait::OneShot;
use crate::error::{Error, Result};

/// Counts of resources created and work done on a device since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Buffers created.
    pub buffers: u64,
    /// Bytes of buffers created.
    pub buffer_bytes: u64,
    /// Bind groups created.
    pub bind_groups: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Submissions.
    pub submits: u64,
    /// Compute passes.
    pub passes: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Writes from the host.
    pub writes: u64,
    /// Bytes written from the host.
    pub written_bytes: u64,
}

/// Memory statistics of a device's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes of all live buffers.
    pub used_bytes: u64,
    /// Bytes it has reserved, used or not.
    pub reserved_bytes: u64,
}

/// The counters of [`Counts`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) buffers: AtomicU64,
    pub(crate) buffer_bytes: AtomicU64,
    pub(crate) bind_groups: AtomicU64,
    pub(crate) pipelines: AtomicU64,
    pub(crate) submits: AtomicU64,
    pub(crate) passes: AtomicU64,
    pub(crate) dispatches: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    #[cfg(test)]
    pub(crate) faults: std::sync::Mutex<Faults>,
}

/// The buffer allocation that fails, for tests.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The number of buffers created before the failure.
    pub(crate) after: Option<u64>,
    /// The labels of the buffers that failed.
    pub(crate) failed: Vec<String>,
}

#[cfg(test)]
impl Counters {
    fn fail_injected(&self, label: &str) -> Result<()> {
        let mut faults = self.faults.lock().unwrap();
        match faults.after {
            Some(0) => {
                faults.after = None;
                faults.failed.push(label.to_owned());
                Err(Error::OutOfMemory(format!("{label} was not made, as a test asked for")))
            }
            after => {
                faults.after = after.map(|after| after - 1);
                Ok(())
            }
        }
    }
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            buffers: read(&self.buffers),
            buffer_bytes: read(&self.buffer_bytes),
            bind_groups: read(&self.bind_groups),
            pipelines: read(&self.pipelines),
            submits: read(&self.submits),
            passes: read(&self.passes),
            dispatches: read(&self.dispatches),
            writes: read(&self.writes),
            written_bytes: read(&self.written_bytes),
        }
    }
}

impl Gpu {
    /// Memory that the device's allocator holds for everything loaded on it; `None` where it is not reported (Metal,
    /// browsers).
    #[must_use]
    pub fn allocated(&self) -> Option<Allocated> {
        // Unused memory is released when the device is polled.
        let _ = self.inner.device.poll(wgpu::PollType::Poll);
        let report = self.inner.device.generate_allocator_report()?;
        Some(Allocated { used_bytes: report.total_allocated_bytes, reserved_bytes: report.total_reserved_bytes })
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// The memory a graph may still allocate.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: u64,
    used: u64,
    shared: SharedBudget,
    reservations: Vec<Reservation>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), used: 0, shared: SharedBudget::default(), reservations: Vec::new() }
    }

    /// Creates a budget for memory that another one counts already, except for memory that is [claimed](Self::claim).
    pub(super) fn of(shared: &SharedBudget) -> Self {
        Self { shared: shared.clone(), ..Self::new(None) }
    }

    /// Reserves memory that was not planned.
    pub(super) fn reservation(&mut self, gpu: &Gpu, what: &str, bytes: u64) -> Result<()> {
        self.reservations.push(self.shared.reservation(what, gpu, crate::memory::padded(bytes))?);
        Ok(())
    }

    pub(super) fn into_reservations(self) -> Vec<Reservation> {
        self.reservations
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }
}

impl Gpu {
    /// Reserves `size` bytes, rounded up to a multiple of 16, if they are within the adapter's limits and the budget.
    /// Allocates nothing.
    pub(crate) fn reserve(
        &self,
        budget: &mut MemoryBudget,
        label: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<u64> {
        let size = crate::memory::padded(size);
        let limits = &self.inner.summary.limits;
        let too_large = |limit, by| Err(Error::TooLarge { what: label.to_owned(), need: size, limit, by });
        let binding: u64 = limits.max_storage_buffer_binding_size;
        if usage.contains(wgpu::BufferUsages::STORAGE) && size > binding {
            return too_large(binding, "the adapter, for one binding");
        }
        if size > limits.max_buffer_size {
            return too_large(limits.max_buffer_size, "the adapter, for one buffer");
        }
        let used = budget.used.saturating_add(size);
        if used > budget.limit {
            let what = format!("{label} with all before it");
            return Err(Error::TooLarge { what, need: used, limit: budget.limit, by: "the memory budget" });
        }
        budget.used = used;
        Ok(size)
    }

    /// Creates a buffer of `size` bytes, rounded up to a multiple of 16, within the adapter's limits and the budget.
    pub(crate) fn buffer(
        &self,
        budget: &mut MemoryBudget,
        label: &str,
        size: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer> {
        let size = self.reserve(budget, label, size, usage)?;
        #[cfg(test)]
        self.inner.counters.fail_injected(label)?;
        count(&self.inner.counters.buffers, 1);
        count(&self.inner.counters.buffer_bytes, size);
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        Ok(self.inner.device.create_buffer(&descriptor))
    }
}

impl Gpu {
    /// Creates a buffer for kernels: with guards around it where the device has them. Guards do not count towards the
    /// budget.
    pub(super) fn storage(&self, budget: &mut MemoryBudget, label: &str, size: u64, usage: Usage) -> Result<Region> {
        let padded = crate::memory::padded(size);
        if !self.inner.guards.on || !Region::can_guard(self, padded) {
            return self.buffer(budget, label, size, usage).map(Region::whole);
        }
        let size = self.reserve(budget, label, size, usage)?;
        #[cfg(test)]
        self.inner.counters.fail_injected(label)?;
        count(&self.inner.counters.buffers, 1);
        count(&self.inner.counters.buffer_bytes, size);
        Ok(Region::guarded(self, label, size, usage))
    }
}

impl Gpu {
    /// Reads the first bytes of a buffer, after everything submitted so far has run.
    pub(super) async fn read(&self, buffer: &wgpu::Buffer, len: u64) -> Result<Vec<u8>> {
        Ok(self.read_mapped(buffer, len, None, alloc::copied).await??)
    }

    /// Maps the first bytes of a buffer and passes them to `read`, after everything submitted so far, or that one
    /// submission, has run.
    ///
    /// Natively this blocks the thread until then: a device completes work only while it is polled.
    pub(super) async fn read_mapped<T>(
        &self,
        buffer: &wgpu::Buffer,
        len: u64,
        submission: Option<wgpu::SubmissionIndex>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let slice = buffer.slice(0..len);
        let mapped = OneShot::new();
        slice.map_async(wgpu::MapMode::Read, mapped.sender());
        let _unmap = Unmap(buffer);
        // Native devices complete callbacks when they are polled; browsers do so by themselves.
        #[cfg(not(target_arch = "wasm32"))]
        if let Err(error) = self.inner.device.poll(wgpu::PollType::Wait { submission_index: submission, timeout: None }) {
            self.check()?;
            return Err(Error::Device(error.to_string()));
        }
        #[cfg(target_arch = "wasm32")]
        let _ = submission;
        if let Err(error) = mapped.wait().await {
            self.check()?;
            return Err(Error::Device(error.to_string()));
        }
        match slice.get_mapped_range() {
            Ok(view) => Ok(read(&view)),
            Err(error) => {
                self.check()?;
                Err(Error::Device(error.to_string()))
            }
        }
    }
}

/// Unmaps a buffer, also when the future that reads it is dropped.
struct Unmap<'a>(&'a wgpu::Buffer);

impl Drop for Unmap<'_> {
    fn drop(&mut self) {
        self.0.unmap();
    }
}

/// The usages of a tensor's buffer.
pub(super) const STORAGE: Usage = Usage::STORAGE.union(Usage::COPY_DST).union(Usage::COPY_SRC);

/// A buffer to be created: its label, its bytes, and its usages.
#[derive(Debug)]
pub(super) struct BufferRequest {
    pub(super) label: String,
    pub(super) size: u64,
    pub(super) usage: Usage,
}

impl BufferRequest {
    pub(super) fn new(label: impl Into<String>, size: u64, usage: Usage) -> Self {
        Self { label: label.into(), size, usage }
    }

    pub(super) fn make(&self, gpu: &Gpu, budget: &mut MemoryBudget) -> Result<wgpu::Buffer> {
        gpu.buffer(budget, &self.label, self.size, self.usage)
    }

    /// Creates the buffer for kernels.
    pub(super) fn make_storage(&self, gpu: &Gpu, budget: &mut MemoryBudget) -> Result<Region> {
        gpu.storage(budget, &self.label, self.size, self.usage)
    }
}
