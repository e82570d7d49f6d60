//! Calls that are started and not waited for: what one leaves on the device is what the next begins with, and the host reads
//! small answers as they arrive.

use std::sync::{Arc, Mutex, PoisonError};

use super::buffers::{BufferRequest, MemoryBudget};
use super::call::InputView;
use super::device::Gpu;
use super::guards::{GuardList, Region};
use super::load::LoadedGraph;
use super::state::State;
use crate::error::{Error, Result};

/// The most bytes of an answer that can be read while later calls current.
const ROOM: u64 = 4096;

/// What a started call does behind its pass, by index of the graph's outputs and inputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartOptions {
    /// The output that is read.
    pub read: usize,
    /// An output whose bytes become those of an input for calls to come, which take it as
    /// [`HostView::Kept`](super::HostView::Kept).
    pub feedback: Option<(usize, usize)>,
}

/// Buffers for answers on their way, which of them are taken, and the clock that times calls where there is one.
#[derive(Debug)]
pub(super) struct ReadbackSlots {
    buffers: Vec<wgpu::Buffer>,
    taken: Mutex<Vec<bool>>,
    clock: Option<Clock>,
}

/// Two timestamps for each answer: before the pass and behind it.
#[derive(Debug)]
struct Clock {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    tick_ns: f64,
}

/// Timestamps of an answer lie behind what it has room for. Resolving asks for such multiples.
const TIMES: u64 = 2 * wgpu::QUERY_SIZE as u64;
const RESOLVE_STRIDE: u64 = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;

impl ReadbackSlots {
    pub(super) fn new(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let buffers = Self::requests(count).map(|request| request.make(gpu, budget)).collect::<Result<Vec<_>>>()?;
        let clock = (count > 0 && gpu.timing().is_ok()).then(|| Clock::new(gpu, count, budget)).transpose()?;
        Ok(Self { buffers, taken: Mutex::new(vec![false; count]), clock })
    }

    /// Books what [`new`](Self::new) makes.
    pub(super) fn reserve(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<()> {
        let clock = (count > 0 && gpu.timing().is_ok()).then(|| Clock::request(count));
        for request in Self::requests(count).chain(clock) {
            gpu.reserve(budget, &request.label, request.size, request.usage)?;
        }
        Ok(())
    }

    fn requests(count: usize) -> impl Iterator<Item = BufferRequest> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        (0..count).map(move |index| BufferRequest::new(format!("answer {index}"), ROOM + TIMES, usage))
    }

    fn take(&self) -> Option<usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = taken.iter().position(|taken| !taken)?;
        taken[free] = true;
        Some(free)
    }

    fn give_back(&self, index: usize) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)[index] = false;
    }
}

impl Clock {
    fn new(gpu: &Gpu, readbacks: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let count = u32::try_from(2 * readbacks).unwrap_or(u32::MAX);
        let (label, ty) = (Some("calls under way"), wgpu::QueryType::Timestamp);
        let queries = gpu.inner.device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count });
        let resolved = Self::request(readbacks).make(gpu, budget)?;
        Ok(Self { queries, resolved, tick_ns: gpu.inner.queue.get_timestamp_period().into() })
    }

    fn request(readbacks: usize) -> BufferRequest {
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        BufferRequest::new("times of calls", RESOLVE_STRIDE * readbacks as u64, usage)
    }

    fn writes(&self, answer: usize) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = u32::try_from(2 * answer).unwrap_or(0);
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder, answer: usize, to: &wgpu::Buffer) {
        let (first, at) = (u32::try_from(2 * answer).unwrap_or(0), RESOLVE_STRIDE * answer as u64);
        encoder.resolve_query_set(&self.queries, first..first + 2, &self.resolved, at);
        encoder.copy_buffer_to_buffer(&self.resolved, at, to, ROOM, TIMES);
    }

    /// Seconds between two timestamps.
    fn seconds(&self, times: &[u8]) -> Option<f64> {
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(times);
        let &[start, end] = ticks.as_slice() else { return None };
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        Some(end.saturating_sub(start) as f64 * self.tick_ns / 1e9)
    }
}

/// A call that was started. Dropping it gives up its answer; the call runs all the same.
#[derive(Debug)]
pub struct PendingCall {
    gpu: Gpu,
    readbacks: Arc<ReadbackSlots>,
    answer: usize,
    len: u64,
    submission: wgpu::SubmissionIndex,
    /// The guards to be compared, and the state's buffers that have some.
    guards: Option<(Arc<GuardList>, Vec<Region>)>,
}

/// What a started call has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Readback {
    /// The bytes of the output that was asked for.
    pub bytes: Vec<u8>,
    /// Seconds the GPU took, where the device tells.
    pub gpu_seconds: Option<f64>,
}

impl PendingCall {
    /// The answer, once the call has current; calls started later may still be running.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<Readback> {
        let buffer = &self.readbacks.buffers[self.answer];
        let len = if self.readbacks.clock.is_some() { ROOM + TIMES } else { self.len };
        let mut bytes = self.gpu.read_after(buffer, len, Some(self.submission.clone())).await?;
        self.gpu.check()?;
        if let Some((guards, states)) = &self.guards {
            guards.check(&self.gpu, states).await?;
        }
        let room = usize::try_from(ROOM).unwrap_or(usize::MAX);
        let gpu_seconds = self.readbacks.clock.as_ref().and_then(|clock| clock.seconds(bytes.get(room..)?));
        bytes.truncate(usize::try_from(self.len).unwrap_or(0));
        Ok(Readback { bytes, gpu_seconds })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.readbacks.give_back(self.answer);
    }
}

impl LoadedGraph {
    /// Starts a call and returns at once. Calls run in the order they are started in.
    ///
    /// # Errors
    /// As [`call`](Self::call); an output that does not fit, or as many calls under way as the graph was loaded for.
    pub fn start(&self, state: &State, inputs: &[InputView<'_>], after: StartOptions) -> Result<PendingCall> {
        self.gpu.check()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = self.readbacks.take() else {
            let reason = format!("{} calls are under way, as many as were asked for at load", self.readbacks.buffers.len());
            return Err(Error::Device(reason));
        };
        let started = self.start_into(&mut current, state, inputs, after, answer);
        if started.is_err() {
            self.readbacks.give_back(answer);
        }
        started
    }

    fn start_into(
        &self,
        current: &mut super::call::CurrentPlan,
        state: &State,
        inputs: &[InputView<'_>],
        after: StartOptions,
        answer: usize,
    ) -> Result<PendingCall> {
        let output = |index: usize| {
            let tensor = self.graph.outputs.get(index).copied();
            tensor.ok_or_else(|| Error::Device(format!("there is no output {index} to read or feedback back")))
        };
        let (wanted, feedback) = (output(after.read)?, after.feedback.map(|(from, _)| output(from)).transpose()?);
        self.prepare(current, inputs)?;
        let bytes = |tensor| self.graph.info(tensor).elem.bytes(current.planned.live().dims(tensor).count());
        let len = bytes(wanted);
        if len == 0 || len > ROOM {
            return Err(Error::Device(format!("output {} has {len} bytes, allowed are 1 to {ROOM}", after.read)));
        }
        let fed = feedback.map_or(0, bytes);
        let target = |input: usize| {
            let target = self.buffers.inputs.get(input).filter(|target| target.len >= fed);
            target.ok_or_else(|| Error::Device(format!("input {input} has no room for {fed} bytes")))
        };
        let target = after.feedback.map(|(_, input)| target(input)).transpose()?;
        let mut encoder = self.encode_writes(current, inputs);
        self.encode_pass(&mut encoder, current, state, self.readbacks.clock.as_ref().map(|clock| clock.writes(answer)));
        if let Some(source) = self.buffer_of(wanted, state) {
            source.copy_to(&mut encoder, (&self.readbacks.buffers[answer], 0), len);
        }
        if let (Some(source), Some(target)) = (feedback.and_then(|tensor| self.buffer_of(tensor, state)), target) {
            target.copy_from(&mut encoder, (&source.buffer, source.start), 0, fed);
        }
        if let Some(clock) = &self.readbacks.clock {
            clock.resolve(&mut encoder, answer, &self.readbacks.buffers[answer]);
        }
        let submission = self.submit(encoder);
        let (gpu, readbacks) = (self.gpu.clone(), Arc::clone(&self.readbacks));
        let guards = self.guards.as_ref().map(|guards| (Arc::clone(guards), state.buffers.clone()));
        Ok(PendingCall { gpu, readbacks, answer, len, submission, guards })
    }
}
