//! Pipelined calls: started without waiting, alone or in groups, several in flight at once, their outputs read back later.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::buffers::{BufferRequest, MemoryBudget};
use super::call::CurrentPlan;
use super::device::Gpu;
use super::encode::{MAX_PASSES, Remaining};
use super::grouped::{Lanes, OUTPUT_ROOM};
use super::guards::GuardList;
use super::inputs::{Input, TensorData, element_bytes};
use super::load::LoadedGraph;
use super::second_readback::{FirstElements, FreeBuffers, SecondReadback};
use super::state::{State, StateBuffers};
use super::wait::AsyncLock;
use crate::error::{Error, Result};
use crate::graph::Elem;
use crate::shape::Dims;

/// Bytes reserved for an output in a readback slot.
const ROOM: u64 = 4096;

/// Readback buffers of calls in flight, and the timer of those calls where the device has timestamps.
#[derive(Debug)]
pub(super) struct ReadbackSlots {
    buffers: Vec<wgpu::Buffer>,
    pub(super) second: FreeBuffers,
    taken: Mutex<Vec<bool>>,
    timer: Option<CallTimer>,
}

/// Timestamps of each readback slot: before and after each pass of its call.
#[derive(Debug)]
struct CallTimer {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    tick_ns: f64,
}

/// Timestamps per slot.
const QUERIES: usize = 2 * MAX_PASSES;
/// Bytes of a slot's timestamps, which follow the output.
const TIMES: u64 = QUERIES as u64 * wgpu::QUERY_SIZE as u64;
const _: () = assert!(TIMES <= RESOLVE_STRIDE, "timestamps of slots do not overlap");
const RESOLVE_STRIDE: u64 = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;

impl ReadbackSlots {
    pub(super) fn new(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let buffers = Self::requests(count).map(|request| request.make(gpu, budget)).collect::<Result<Vec<_>>>()?;
        let timer = (count > 0 && gpu.timing().is_ok()).then(|| CallTimer::new(gpu, count, budget)).transpose()?;
        Ok(Self { buffers, second: FreeBuffers::default(), taken: Mutex::new(vec![false; count]), timer })
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

    /// Whether no call is in flight but the one in a slot.
    fn are_idle_but(&self, slot: usize) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().enumerate().all(|(index, &taken)| index == slot || !taken)
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
        let count =
            u32::try_from(QUERIES * slots).map_err(|_| Error::Misuse(format!("{slots} calls in flight are too many")))?;
        let (label, ty) = (Some("calls in flight"), wgpu::QueryType::Timestamp);
        let queries = gpu.inner.device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count });
        let resolved = Self::request(slots).make(gpu, budget)?;
        Ok(Self { queries, resolved, tick_ns: gpu.inner.queue.get_timestamp_period().into() })
    }

    fn request(slots: usize) -> BufferRequest {
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        BufferRequest::new("timestamps of calls", RESOLVE_STRIDE * slots as u64, usage)
    }

    #[expect(clippy::cast_possible_truncation, reason = "`new` has checked that the queries of all slots are 32 bits")]
    fn first_query(slot: usize, pass: usize) -> u32 {
        (QUERIES * slot + 2 * pass) as u32
    }

    fn writes(&self, slot: usize, pass: usize) -> wgpu::ComputePassTimestampWrites<'_> {
        let first = Self::first_query(slot, pass);
        wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder, slot: &TakenSlot, passes: usize) {
        let [first, end] = [0, passes].map(|pass| Self::first_query(slot.index, pass));
        let (at, bytes) = (RESOLVE_STRIDE * slot.index as u64, u64::from(end - first) * u64::from(wgpu::QUERY_SIZE));
        encoder.resolve_query_set(&self.queries, first..end, &self.resolved, at);
        encoder.copy_buffer_to_buffer(&self.resolved, at, slot.buffer(), ROOM, bytes);
    }

    /// Seconds of all passes, given the timestamps before and after each.
    fn seconds(&self, times: &[u8]) -> f64 {
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(times);
        let passes = ticks.chunks_exact(2).map(|pass| pass[1].saturating_sub(pass[0]));
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let ticks = passes.fold(0, u64::saturating_add) as f64;
        ticks * self.tick_ns / 1e9
    }
}

/// A call in flight. Dropping it discards its output; the call still runs.
#[derive(Debug)]
pub struct PendingCall {
    group: Arc<PendingGroup>,
    /// Where its output is in the group's readback slot.
    at: u64,
    dims: Dims,
    elem: Elem,
}

/// Calls that were submitted together and are read back together.
#[derive(Debug)]
struct PendingGroup {
    gpu: Gpu,
    slot: TakenSlot,
    submission: wgpu::SubmissionIndex,
    /// The number of calls, of their passes, and the bytes of all their outputs in the slot.
    calls: u32,
    passes: usize,
    bytes: u64,
    second: Option<SecondReadback>,
    /// The guards to compare, and the state's guarded buffers.
    guards: Option<(Arc<GuardList>, StateBuffers)>,
    /// One of its calls reads the outputs of all.
    reading: AsyncLock,
    outputs: Mutex<Option<GroupOutputs>>,
}

/// The outputs of a group's calls, and the seconds of each call.
#[derive(Clone, Debug)]
struct GroupOutputs {
    bytes: Arc<[u8]>,
    second: Option<Arc<[u8]>>,
    gpu_seconds: Option<f64>,
}

/// The output of a pipelined call.
#[derive(Clone, Debug, PartialEq)]
pub struct Readback {
    /// The requested output.
    pub output: TensorData<'static>,
    /// The first elements of a second output, if the call asked for them.
    pub first_elements: Option<TensorData<'static>>,
    /// Seconds that the GPU took, if the device has timestamps. Calls of a group share the group's time evenly.
    pub gpu_seconds: Option<f64>,
}

impl PendingCall {
    /// Waits for the call's output, and for the other calls of its group; calls started later may still be in flight.
    ///
    /// Natively the future blocks the thread that polls it until the call has run; in a browser it never does.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<Readback> {
        let GroupOutputs { bytes, second, gpu_seconds } = self.group.outputs().await?;
        let end = self.at + self.dims.count() * element_bytes(self.elem);
        let range = || bytes.get(usize::try_from(self.at).ok()?..usize::try_from(end).ok()?);
        let bytes = Cow::Owned(range().unwrap_or_default().to_vec());
        let first_elements = second.zip(self.group.second.as_ref()).and_then(|(bytes, second)| second.tensor(&bytes));
        Ok(Readback { output: TensorData { dims: self.dims, elem: self.elem, bytes }, first_elements, gpu_seconds })
    }
}

impl PendingGroup {
    /// Reads the outputs, unless another call of the group has.
    async fn outputs(&self) -> Result<GroupOutputs> {
        let _serial = self.reading.lock().await;
        let known = self.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let read = self.read().await?;
        *self.outputs.lock().unwrap_or_else(PoisonError::into_inner) = Some(read.clone());
        Ok(read)
    }

    async fn read(&self) -> Result<GroupOutputs> {
        let timer = self.slot.slots.timer.as_ref();
        let times = ROOM + (2 * self.passes) as u64 * u64::from(wgpu::QUERY_SIZE);
        let mapped = if timer.is_some() { times } else { self.bytes };
        let read = |view: &[u8]| {
            let range = |start: u64, end: u64| view.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
            let seconds = timer.and_then(|timer| Some(timer.seconds(range(ROOM, times)?)));
            let gpu_seconds = seconds.map(|seconds| seconds / f64::from(self.calls));
            GroupOutputs { bytes: range(0, self.bytes).unwrap_or_default().into(), second: None, gpu_seconds }
        };
        let submission = Some(self.submission.clone());
        let mut outputs = self.gpu.read_mapped(self.slot.buffer(), mapped, submission.clone(), read).await?;
        if let Some(second) = &self.second {
            outputs.second = second.read(&self.gpu, submission).await?;
        }
        self.gpu.check()?;
        if let Some((guards, state)) = &self.guards {
            guards.check(&self.gpu, state).await?;
        }
        Ok(outputs)
    }
}

impl LoadedGraph {
    /// Starts a call and returns at once. Calls run in the order in which they are started, also across states. Output
    /// `read` is kept for [`PendingCall::wait`].
    ///
    /// # Errors
    /// As [`call`](Self::call); an output of more than 4,096 bytes; [`Error::Misuse`] if as many calls or groups are in flight
    /// as the graph was loaded for.
    pub fn start(&self, state: &mut State, inputs: &[Input<'_>], read: usize) -> Result<PendingCall> {
        let mut started = self.start_group(state, &[inputs], read)?;
        started.pop().ok_or_else(|| Error::Misuse("no call was started".to_owned()))
    }

    /// Starts a call as [`start`](Self::start) does, and keeps the first elements of another output as well.
    ///
    /// # Errors
    /// As [`start`](Self::start); more elements than the output has.
    pub fn start_with_first(
        &self,
        state: &mut State,
        inputs: &[Input<'_>],
        read: usize,
        first: FirstElements,
    ) -> Result<PendingCall> {
        let mut started = self.start_calls(state, &[inputs], read, Some(first))?;
        started.pop().ok_or_else(|| Error::Misuse("no call was started".to_owned()))
    }

    /// Starts calls on one state, which run in order, with one submission. The first is started as by [`start`](Self::start).
    /// Each other call joins if it takes the output that the one before feeds back, and if only its step block and one small
    /// input differ; the group ends before the first call that cannot join, that is rejected, or that is one too many (a group has
    /// at most [`MAX_GROUP`](super::MAX_GROUP) calls). Returns the calls that were started: at least one.
    ///
    /// # Errors
    /// As [`start`](Self::start), for the first call; nothing is started then.
    pub fn start_group(&self, state: &mut State, calls: &[&[Input<'_>]], read: usize) -> Result<Vec<PendingCall>> {
        self.start_calls(state, calls, read, None)
    }

    fn start_calls(
        &self,
        state: &mut State,
        calls: &[&[Input<'_>]],
        read: usize,
        second: Option<FirstElements>,
    ) -> Result<Vec<PendingCall>> {
        self.gpu.check()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = self.readbacks.take() else {
            let most = self.readbacks.buffers.len();
            return Err(Error::Misuse(format!(
                "{most} calls are in flight, as many as the graph was loaded for; wait for one"
            )));
        };
        let Some((first, others)) = calls.split_first() else { return Ok(Vec::new()) };
        self.start_into(&mut current, state, (first, others), (read, second), slot)
    }

    fn start_into(
        &self,
        current: &mut CurrentPlan,
        state: &mut State,
        (first, others): (&[Input<'_>], &[&[Input<'_>]]),
        (read, second): (usize, Option<FirstElements>),
        slot: TakenSlot,
    ) -> Result<Vec<PendingCall>> {
        let Some(&output) = self.graph.outputs.get(read) else {
            return Err(Error::Misuse(format!("there is no output {read} to read back")));
        };
        self.prepare(current, state, first)?;
        let (elem, dims) = (self.graph.info(output).elem, current.planned.live().dims(output));
        let len = elem.bytes(dims.count());
        if len == 0 || len > ROOM {
            return Err(Error::Misuse(format!("output {read} has {len} bytes, pipelined calls read back 1 to {ROOM}")));
        }
        let second = second.map(|second| self.second_readback(current, second)).transpose()?;
        let timer = self.readbacks.timer.as_ref();
        let encoder = self.encode_copies(current, state, first, None);
        let times = |pass| timer.map(|timer| timer.writes(slot.index, pass));
        let Remaining { mut encoder, submitted, passes } = match self.readbacks.are_idle_but(slot.index) {
            true => self.submit_first(encoder, current, state, times),
            false => Remaining { encoder, submitted: 0, passes: 0 },
        };
        let mut lanes = Lanes::default();
        {
            let mut pass = self.begin(&mut encoder, times(passes));
            self.dispatch_rest(&mut pass, current, state, submitted);
            self.mark_fed(current, state);
            for inputs in others {
                let Some(bindings) = state.handoffs.get(lanes.count) else { break };
                let joins = self.can_join(inputs, output) && self.prepare(current, state, inputs).is_ok();
                if !joins || current.has_stale_parameters() || current.planned.live().dims(output) != dims {
                    break;
                }
                self.hand_off(&mut pass, bindings, (&mut *current, inputs), len, &mut lanes);
                self.dispatch_rest(&mut pass, current, state, 0);
            }
        }
        if submitted > 0 {
            self.write_lanes(&lanes);
        } else {
            self.write_upload(current, &mut lanes);
        }
        let calls = lanes.count + 1;
        let last = OUTPUT_ROOM * lanes.count as u64;
        if let (Some(handoff), true) = (&self.handoff, lanes.count > 0) {
            encoder.copy_buffer_to_buffer(&handoff.kept, 0, slot.buffer(), 0, last);
        }
        if let Some(source) = self.region_of(output, state) {
            source.copy_to(&mut encoder, (slot.buffer(), last), len);
        }
        let second = second.map(|(output, second)| {
            self.region_of(output, state).into_iter().for_each(|source| second.copy_from(&mut encoder, source));
            second
        });
        if let Some(timer) = timer {
            timer.resolve(&mut encoder, &slot, passes + 1);
        }
        let submission = self.submit_on(encoder, state);
        let guards = self.guards.as_ref().map(|guards| (Arc::clone(guards), state.buffers.clone()));
        let (reading, outputs) = (AsyncLock::default(), Mutex::new(None));
        let (gpu, bytes) = (self.gpu.clone(), last + len);
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let group = Arc::new(PendingGroup {
            gpu,
            slot,
            submission,
            calls,
            passes: passes + 1,
            bytes,
            second,
            guards,
            reading,
            outputs,
        });
        let call = |index: u32| PendingCall { group: Arc::clone(&group), at: OUTPUT_ROOM * u64::from(index), dims, elem };
        Ok((0..calls).map(call).collect())
    }
}
