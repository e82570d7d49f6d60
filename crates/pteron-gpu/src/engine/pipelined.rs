//! Pipelined calls: started without waiting, several in flight at once, their outputs read back later.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::buffers::{BufferRequest, MemoryBudget};
use super::call::CurrentPlan;
use super::device::Gpu;
use super::guards::GuardList;
use super::inputs::{Input, TensorData, element_bytes};
use super::load::LoadedGraph;
use super::state::{State, StateBuffers};
use crate::error::{Error, Result};
use crate::graph::Elem;
use crate::shape::Dims;

/// Bytes reserved for an output in a readback slot.
const ROOM: u64 = 4096;

/// Readback buffers of calls in flight, and the timer of those calls where the device has timestamps.
#[derive(Debug)]
pub(super) struct ReadbackSlots {
    buffers: Vec<wgpu::Buffer>,
    taken: Mutex<Vec<bool>>,
    timer: Option<CallTimer>,
}

/// Two timestamps per readback slot: before the pass and after it.
#[derive(Debug)]
struct CallTimer {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    tick_ns: f64,
}

/// Bytes of a slot's timestamps, which follow the output.
const TIMES: u64 = 2 * wgpu::QUERY_SIZE as u64;
const RESOLVE_STRIDE: u64 = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;

impl ReadbackSlots {
    pub(super) fn new(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let buffers = Self::requests(count).map(|request| request.make(gpu, budget)).collect::<Result<Vec<_>>>()?;
        let timer = (count > 0 && gpu.timing().is_ok()).then(|| CallTimer::new(gpu, count, budget)).transpose()?;
        Ok(Self { buffers, taken: Mutex::new(vec![false; count]), timer })
    }

    /// Reserves the memory that [`new`](Self::new) allocates.
    pub(super) fn reserve(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<()> {
        let timer = (count > 0 && gpu.timing().is_ok()).then(|| CallTimer::request(count));
        for request in Self::requests(count).chain(timer) {
            gpu.reserve(budget, &request.label, request.size, request.usage)?;
        }
        Ok(())
    }

    fn requests(count: usize) -> impl Iterator<Item = BufferRequest> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        (0..count).map(move |index| BufferRequest::new(format!("readback slot {index}"), ROOM + TIMES, usage))
    }

    fn take(self: &Arc<Self>) -> Option<TakenSlot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let index = taken.iter().position(|taken| !taken)?;
        taken[index] = true;
        Some(TakenSlot { slots: Arc::clone(self), index })
    }
}

/// A readback slot, free again when this is dropped.
#[derive(Debug)]
struct TakenSlot {
    slots: Arc<ReadbackSlots>,
    index: usize,
}

impl TakenSlot {
    fn buffer(&self) -> &wgpu::Buffer {
        &self.slots.buffers[self.index]
    }
}

impl Drop for TakenSlot {
    fn drop(&mut self) {
        self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner)[self.index] = false;
    }
}

impl CallTimer {
    fn new(gpu: &Gpu, slots: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let count = u32::try_from(2 * slots).map_err(|_| Error::Misuse(format!("{slots} calls in flight are too many")))?;
        let (label, ty) = (Some("calls in flight"), wgpu::QueryType::Timestamp);
        let queries = gpu.inner.device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count });
        let resolved = Self::request(slots).make(gpu, budget)?;
        Ok(Self { queries, resolved, tick_ns: gpu.inner.queue.get_timestamp_period().into() })
    }

    fn request(slots: usize) -> BufferRequest {
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        BufferRequest::new("timestamps of calls", RESOLVE_STRIDE * slots as u64, usage)
    }

    #[expect(clippy::cast_possible_truncation, reason = "`new` has checked that twice the slots are 32 bits")]
    fn first_query(slot: usize) -> u32 {
        2 * slot as u32
    }

    fn writes(&self, slot: usize) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = Self::first_query(slot);
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder, slot: &TakenSlot) {
        let (first, at) = (Self::first_query(slot.index), RESOLVE_STRIDE * slot.index as u64);
        encoder.resolve_query_set(&self.queries, first..first + 2, &self.resolved, at);
        encoder.copy_buffer_to_buffer(&self.resolved, at, slot.buffer(), ROOM, TIMES);
    }

    /// Seconds between two timestamps.
    fn seconds(&self, times: &[u8]) -> Option<f64> {
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(times);
        let &[start, end] = ticks.as_slice() else { return None };
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        Some(end.saturating_sub(start) as f64 * self.tick_ns / 1e9)
    }
}

/// A call in flight. Dropping it discards its output; the call still runs.
#[derive(Debug)]
pub struct PendingCall {
    gpu: Gpu,
    slot: TakenSlot,
    dims: Dims,
    elem: Elem,
    submission: wgpu::SubmissionIndex,
    /// The guards to compare, and the state's guarded buffers.
    guards: Option<(Arc<GuardList>, StateBuffers)>,
}

/// The output of a pipelined call.
#[derive(Clone, Debug, PartialEq)]
pub struct Readback {
    /// The requested output.
    pub output: TensorData<'static>,
    /// Seconds that the GPU took, if the device has timestamps.
    pub gpu_seconds: Option<f64>,
}

impl PendingCall {
    /// Waits for the call's output; calls started later may still be in flight.
    ///
    /// Natively the future blocks the thread that polls it until the call has run; in a browser it never does.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<Readback> {
        let timer = self.slot.slots.timer.as_ref();
        let bytes = self.dims.count() * element_bytes(self.elem);
        let mapped = if timer.is_some() { ROOM + TIMES } else { self.elem.bytes(self.dims.count()) };
        let read = |view: &[u8]| {
            let range = |start: u64, end: u64| view.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
            let seconds = timer.and_then(|timer| timer.seconds(range(ROOM, ROOM + TIMES)?));
            (range(0, bytes).unwrap_or_default().to_vec(), seconds)
        };
        let submission = Some(self.submission.clone());
        let (bytes, gpu_seconds) = self.gpu.read_mapped(self.slot.buffer(), mapped, submission, read).await?;
        self.gpu.check()?;
        if let Some((guards, state)) = &self.guards {
            guards.check(&self.gpu, state).await?;
        }
        Ok(Readback { output: TensorData { dims: self.dims, elem: self.elem, bytes: Cow::Owned(bytes) }, gpu_seconds })
    }
}

impl LoadedGraph {
    /// Starts a call and returns at once. Calls run in the order in which they are started, also across states. Output
    /// `read` is kept for [`PendingCall::wait`].
    ///
    /// # Errors
    /// As [`call`](Self::call); an output of more than 4,096 bytes; [`Error::Misuse`] if as many calls are in flight as the
    /// graph was loaded for.
    pub fn start(&self, state: &mut State, inputs: &[Input<'_>], read: usize) -> Result<PendingCall> {
        self.gpu.check()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = self.readbacks.take() else {
            let most = self.readbacks.buffers.len();
            return Err(Error::Misuse(format!(
                "{most} calls are in flight, as many as the graph was loaded for; wait for one"
            )));
        };
        self.start_into(&mut current, state, inputs, read, slot)
    }

    fn start_into(
        &self,
        current: &mut CurrentPlan,
        state: &mut State,
        inputs: &[Input<'_>],
        read: usize,
        slot: TakenSlot,
    ) -> Result<PendingCall> {
        let Some(&output) = self.graph.outputs.get(read) else {
            return Err(Error::Misuse(format!("there is no output {read} to read back")));
        };
        self.prepare(current, state, inputs)?;
        let (elem, dims) = (self.graph.info(output).elem, current.planned.live().dims(output));
        let len = elem.bytes(dims.count());
        if len == 0 || len > ROOM {
            return Err(Error::Misuse(format!("output {read} has {len} bytes, pipelined calls read back 1 to {ROOM}")));
        }
        let timer = self.readbacks.timer.as_ref();
        let mut encoder = self.encode_writes(current, state, inputs);
        self.encode_pass(&mut encoder, current, state, timer.map(|timer| timer.writes(slot.index)));
        if let Some(source) = self.region_of(output, state) {
            source.copy_to(&mut encoder, (slot.buffer(), 0), len);
        }
        if let Some(timer) = timer {
            timer.resolve(&mut encoder, &slot);
        }
        let submission = self.submit_on(encoder, current, state);
        let guards = self.guards.as_ref().map(|guards| (Arc::clone(guards), state.buffers.clone()));
        Ok(PendingCall { gpu: self.gpu.clone(), slot, dims, elem, submission, guards })
    }
}
