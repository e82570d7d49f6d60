//! How long each dispatch of a call takes on the GPU.
//!
//! A profiled call encodes the same dispatches with timestamps between them. Calls that are not profiled have no overhead:
//! there is no query set, and no command is added.

use super::Gpu;
use super::buffers::MemoryBudget;
use crate::error::{Error, Result};

/// How the dispatches of a call were timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Timestamps between the dispatches of one pass: the call is the same as without profiling.
    InsidePass,
    /// One pass per dispatch, timed as a whole, where timestamps inside a pass are not available. Starting a pass takes
    /// time, so small kernels look slower than they are.
    PassPerDispatch,
}

/// The dispatches of a call on the GPU, with their times.
#[derive(Clone, Debug)]
pub struct Profile {
    /// How it was timed.
    pub timing: Timing,
    /// Nanoseconds per tick of the GPU's clock.
    pub tick_ns: f64,
    /// The dispatches in order.
    pub dispatches: Vec<DispatchTime>,
}

/// One dispatch and its time.
#[derive(Clone, Debug)]
pub struct DispatchTime {
    /// The operator's name in the file.
    pub operator: String,
    /// The index of the call in its graph.
    pub call: usize,
    /// The kernel's label. Kernels with several uses have one label per use.
    pub kernel: &'static str,
    /// Workgroups.
    pub grid: [u32; 2],
    /// The live bytes of all bound tensors, each counted whole: an estimate from shapes. A kernel that touches a part of a
    /// tensor (one that writes a cache, or gathers rows of a table) moves less.
    pub bytes: u64,
    /// Start, in ticks of the GPU's clock. All calls on a device share the clock.
    pub start: u64,
    /// End, in ticks.
    pub end: u64,
}

impl Profile {
    /// Converts ticks to nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.tick_ns
    }

    /// Nanoseconds that a dispatch took.
    #[must_use]
    pub fn duration(&self, dispatch: &DispatchTime) -> f64 {
        self.nanoseconds(dispatch.end.saturating_sub(dispatch.start))
    }

    /// Nanoseconds that all dispatches took.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.dispatches.iter().map(|dispatch| self.duration(dispatch)).sum()
    }
}

/// The largest query set every device allows.
const SET: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// The query sets of one call and the buffers for their results.
#[derive(Debug)]
pub(super) struct TimestampRecorder {
    timing: Timing,
    sets: Vec<wgpu::QuerySet>,
    queries: u32,
    resolved: wgpu::Buffer,
    readback: wgpu::Buffer,
    dispatches: Vec<DispatchTime>,
    tick_ns: f64,
}

impl Gpu {
    /// Returns the best way to time dispatches on this device.
    ///
    /// # Errors
    /// A device without timestamps.
    pub fn timing(&self) -> Result<Timing> {
        let features = self.inner.device.features();
        if features.contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES) {
            Ok(Timing::InsidePass)
        } else if features.contains(wgpu::Features::TIMESTAMP_QUERY) {
            Ok(Timing::PassPerDispatch)
        } else {
            Err(Error::NoTimestamps { adapter: self.adapter().name.clone() })
        }
    }
}

impl TimestampRecorder {
    pub(super) fn new(gpu: &Gpu, timing: Timing, dispatches: Vec<DispatchTime>) -> Result<Self> {
        let count = u32::try_from(dispatches.len()).unwrap_or(u32::MAX);
        let queries = match timing {
            Timing::InsidePass => count.saturating_add(1),
            Timing::PassPerDispatch => count.saturating_mul(2),
        };
        let device = &gpu.inner.device;
        let set = |first: u32| {
            let count = (queries - first).min(SET);
            device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count,
            })
        };
        let sets = (0..queries).step_by(SET as usize).map(set).collect();
        let bytes = u64::from(queries) * u64::from(wgpu::QUERY_SIZE);
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let mut budget = MemoryBudget::new(None);
        let resolved = gpu.buffer(&mut budget, "timestamps", bytes, usage)?;
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let readback = gpu.buffer(&mut budget, "timestamps", bytes, usage)?;
        let tick_ns = gpu.inner.queue.get_timestamp_period().into();
        Ok(Self { timing, sets, queries, resolved, readback, dispatches, tick_ns })
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    /// Writes a timestamp between the dispatches of a pass.
    pub(super) fn write(&self, pass: &mut wgpu::ComputePass<'_>, query: u32) {
        if let Some(set) = self.sets.get((query / SET) as usize) {
            pass.write_timestamp(set, query % SET);
        }
    }

    /// The timestamps of a pass with one dispatch. Sets hold an even number, so that both are in one set.
    pub(super) fn both_sides(&self, dispatch: u32) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let query = dispatch.saturating_mul(2);
        let query_set = self.sets.get((query / SET) as usize)?;
        Some(wgpu::ComputePassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: Some(query % SET),
            end_of_pass_write_index: Some(query % SET + 1),
        })
    }

    /// Resolves the queries into a buffer that the host can map.
    pub(super) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        for (first, set) in (0..self.queries).step_by(SET as usize).zip(&self.sets) {
            let count = (self.queries - first).min(SET);
            encoder.resolve_query_set(set, 0..count, &self.resolved, u64::from(first) * u64::from(wgpu::QUERY_SIZE));
        }
        if self.queries > 0 {
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, self.bytes());
        }
    }

    fn bytes(&self) -> u64 {
        u64::from(self.queries) * u64::from(wgpu::QUERY_SIZE)
    }

    /// Reads the results, once the call is submitted.
    pub(super) async fn finish(mut self, gpu: &Gpu) -> Result<Profile> {
        let bytes = if self.queries == 0 { Vec::new() } else { gpu.read(&self.readback, self.bytes()).await? };
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
        for (index, dispatch) in self.dispatches.iter_mut().enumerate() {
            let start = if self.timing == Timing::InsidePass { index } else { 2 * index };
            if let Some(&[start, end]) = ticks.get(start..start + 2) {
                (dispatch.start, dispatch.end) = (start, end);
            }
        }
        Ok(Profile { timing: self.timing, tick_ns: self.tick_ns, dispatches: self.dispatches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{LoadOptions, TensorData, block_on};
    use crate::ir::DataType;
    use crate::testing::{GraphBuilder, dims, gpu};

    /// A chain of sigmoids, one dispatch per sigmoid.
    fn chain(length: usize) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let mut last = builder.input(DataType::Float32, &[5, 3]);
        for _ in 0..length {
            let next = builder.tensor(DataType::Float32, &[5, 3]);
            builder.call("aten.sigmoid.default", &[last, next]);
            last = next;
        }
        builder.output(last);
        builder
    }

    /// Outputs are the same with both kinds of timing and without, and every dispatch has a time, past the end of one query
    /// set.
    #[test]
    fn every_dispatch_has_a_time() {
        let loaded = chain(SET as usize + 3).load(&LoadOptions::default()).unwrap();
        let mut state = loaded.new_state().unwrap();
        let values = [0.5; 6];
        let inputs = [TensorData::f32(dims(&[2, 3]), &values).into()];
        let plain = block_on(loaded.call(&mut state, &inputs)).unwrap();
        for timing in [Timing::InsidePass, Timing::PassPerDispatch] {
            if timing == Timing::InsidePass && gpu().timing().unwrap() != timing {
                continue;
            }
            let (outputs, profile) = block_on(loaded.call_timed(&mut state, &inputs, timing)).unwrap();
            assert_eq!(outputs, plain, "{timing:?}");
            assert_eq!((profile.timing, profile.dispatches.len()), (timing, SET as usize + 3));
            assert!(profile.tick_ns > 0.0 && profile.total() > 0.0, "{timing:?}: {}", profile.total());
            for (index, dispatch) in profile.dispatches.iter().enumerate() {
                assert_eq!((dispatch.operator.as_str(), dispatch.call), ("aten.sigmoid.default", index));
                assert!(dispatch.kernel.contains("sigmoid") && dispatch.grid == [1, 1], "{dispatch:?}");
                assert_eq!(dispatch.bytes, 2 * 6 * 4, "an input and an output at their live shape");
                assert!(dispatch.start > 0 && dispatch.end >= dispatch.start, "{timing:?}: {dispatch:?}");
            }
            let ordered = profile.dispatches.windows(2).all(|pair| pair[0].end <= pair[1].start);
            assert!(ordered, "{timing:?}: dispatches follow one another");
        }
    }
}
