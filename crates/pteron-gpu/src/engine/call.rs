//! Running a graph once: plan, write once, one pass, one submit, read live bytes back.

use std::sync::PoisonError;

use pteron_format::alloc;

use super::buffers::count;
use super::guards::Region;
use super::load::LoadedGraph;
use super::profile::{Profile, TimestampRecorder, Timing};
use super::state::State;
use crate::error::{Error, Result};
use crate::graph::Elem;
use crate::live::{Live, TensorId};
use crate::memory::Place;
use crate::plan::PARAM_SLOT;
use crate::resize::{LiveInput, Planned};
use crate::shape::Dims;

/// Elements on the host, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum HostView<'a> {
    /// Floats.
    F32(&'a [f32]),
    /// Integers.
    I32(&'a [i32]),
    /// Bytes: unsigned, signed or truth values, as the graph has them.
    Bytes(&'a [u8]),
    /// None: what the device has of this input, from an earlier call or fed back by one.
    Kept,
}

impl HostView<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            Self::F32(values) => Some(values.len()),
            Self::I32(values) => Some(values.len()),
            Self::Bytes(values) => Some(values.len()),
            Self::Kept => None,
        }
    }

    fn fits(&self, elem: Elem) -> bool {
        match self {
            Self::F32(_) => elem == Elem::F32,
            Self::I32(_) => elem == Elem::I32,
            Self::Bytes(_) => matches!(elem, Elem::U8 | Elem::I8 | Elem::Bool),
            Self::Kept => true,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::F32(_) => "floats",
            Self::I32(_) => "integers",
            Self::Bytes(_) => "bytes",
            Self::Kept => "what was kept",
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::I32(values) => bytemuck::cast_slice(values),
            Self::Bytes(values) => values,
            Self::Kept => &[],
        }
    }
}

/// An input of a call.
#[derive(Clone, Copy, Debug)]
pub struct InputView<'a> {
    /// Its dims in this call.
    pub dims: Dims,
    /// Its elements, contiguous.
    pub data: HostView<'a>,
}

/// An output of a call, at its live shape.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputData {
    /// Its dims.
    pub dims: Dims,
    /// Its elements' type.
    pub elem: Elem,
    /// Its elements, as bytes.
    pub bytes: Vec<u8>,
}

/// What a graph is planned for now, and what of that is on the device.
#[derive(Debug)]
pub(super) struct CurrentPlan {
    pub(super) planned: Planned,
    /// The arena as it should be, and which slots the device does not have yet.
    arena: Vec<u8>,
    stale: Vec<bool>,
    step: Vec<u8>,
    step_stale: bool,
    /// Reused for every write.
    staging: Vec<u8>,
}

impl CurrentPlan {
    pub(super) fn new(planned: Planned, slots: u32) -> Self {
        let slots = slots as usize;
        let words: usize = planned.recipes().iter().map(|recipes| recipes.step_words).sum();
        Self {
            planned,
            arena: vec![0; slots * PARAM_SLOT],
            stale: vec![true; slots],
            step: vec![0; words * 4],
            step_stale: true,
            staging: Vec::new(),
        }
    }
}

/// A buffer that is written by the host.
#[derive(Clone, Copy)]
enum CopyTarget<'a> {
    Region(&'a Region),
    Plain(&'a wgpu::Buffer),
}

/// A piece of the staging bytes and where it goes.
struct StagedCopy<'a> {
    from: u64,
    to: CopyTarget<'a>,
    at: u64,
    len: u64,
}

impl LoadedGraph {
    /// Runs the graph on a state.
    ///
    /// # Errors
    /// Inputs or live shapes the graph does not take (nothing has changed then, on the device or off it), or a device that
    /// fails.
    pub async fn call(&self, state: &State, inputs: &[InputView<'_>]) -> Result<Vec<OutputData>> {
        Ok(self.call_with(state, inputs, None).await?.0)
    }

    /// Runs the graph on a state and says how long each dispatch took. The answers are those of [`call`](Self::call).
    ///
    /// # Errors
    /// As [`call`](Self::call), or a device without timestamps.
    pub async fn call_profiled(&self, state: &State, inputs: &[InputView<'_>]) -> Result<(Vec<OutputData>, Profile)> {
        self.call_timed(state, inputs, self.gpu.timing()?).await
    }

    /// The same, timed in a way that may not be the best.
    pub(super) async fn call_timed(
        &self,
        state: &State,
        inputs: &[InputView<'_>],
        timing: Timing,
    ) -> Result<(Vec<OutputData>, Profile)> {
        let (outputs, recorder) = self.call_with(state, inputs, Some(timing)).await?;
        match recorder {
            Some(recorder) => Ok((outputs, recorder.finish(&self.gpu).await?)),
            None => Err(Error::Device("nothing was timed".to_owned())),
        }
    }

    async fn call_with(
        &self,
        state: &State,
        inputs: &[InputView<'_>],
        timing: Option<Timing>,
    ) -> Result<(Vec<OutputData>, Option<TimestampRecorder>)> {
        self.gpu.check()?;
        // The upload and readback buffers serve one call at a time.
        let _pass = self.call_lock.lock().await;
        let (pending, recorder) = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            self.prepare(&mut current, inputs)?;
            let recorder =
                timing.map(|timing| TimestampRecorder::new(&self.gpu, timing, self.untimed(&current))).transpose()?;
            (self.encode(&mut current, state, inputs, recorder.as_ref()), recorder)
        };
        let outputs = self.read_back(pending).await?;
        if let Some(guards) = &self.guards {
            guards.check(&self.gpu, &state.buffers).await?;
        }
        Ok((outputs, recorder))
    }

    /// Plans a call and brings the arena in line with it. An error has changed nothing.
    pub(super) fn prepare(&self, current: &mut CurrentPlan, inputs: &[InputView<'_>]) -> Result<()> {
        self.check_inputs(inputs)?;
        let values = |data| if let HostView::I32(values) = data { Some(values) } else { None };
        let live = inputs.iter().map(|input| LiveInput { dims: input.dims, values: values(input.data) });
        let change = current.planned.resize(&self.graph, &live.collect::<Vec<_>>())?;
        self.check_indices(inputs, change.live())?;
        let differ = current.planned.commit(change);
        self.refresh(current, &differ);
        Ok(())
    }

    /// Everything about inputs that can be said before any shape is planned.
    fn check_inputs(&self, inputs: &[InputView<'_>]) -> Result<()> {
        if inputs.len() != self.graph.inputs.len() {
            let reason = format!("is missing or too many: {} came, {} are needed", inputs.len(), self.graph.inputs.len());
            return Err(Error::Input { index: inputs.len().min(self.graph.inputs.len()), reason });
        }
        for (index, (input, &tensor)) in inputs.iter().zip(&self.graph.inputs).enumerate() {
            let elem = self.graph.info(tensor).elem;
            let fail = |reason: String| Err(Error::Input { index, reason });
            if !input.data.fits(elem) {
                return fail(format!("holds {}, but the graph takes {elem:?}", input.data.name()));
            }
            match input.data.len() {
                Some(len) if len as u64 != input.dims.count() => {
                    let count = input.dims.count();
                    return fail(format!("has {len} elements, but shape {} has {count}", input.dims));
                }
                None if self.graph.nodes.iter().any(|node| node.flow.host_reads.contains(&tensor)) => {
                    return fail("is kept on the device, but its value is needed before the graph runs".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Integers that name elements of a tensor name some that it has.
    fn check_indices(&self, inputs: &[InputView<'_>], live: &Live) -> Result<()> {
        for taken in self.graph.nodes.iter().flat_map(|node| &node.flow.index_inputs) {
            let Some(index) = self.graph.inputs.iter().position(|&input| input == taken.indices) else { continue };
            let HostView::I32(values) = inputs[index].data else { continue };
            let (start, end) = taken.range(&live.dims(taken.of));
            if let Some(bad) = values.iter().find(|&&value| !(start..end).contains(&value.into())) {
                return Err(Error::Input { index, reason: format!("holds {bad}, allowed is {start} to {}", end - 1) });
            }
        }
        Ok(())
    }

    /// The same for every operator, once: the graph was planned before there was an arena.
    pub(super) fn refresh_all(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<usize> = (0..self.graph.nodes.len()).collect();
        self.refresh(&mut current, &all);
    }

    /// Brings the arena and the step block in line with plans that differ from before.
    fn refresh(&self, current: &mut CurrentPlan, differ: &[usize]) {
        let CurrentPlan { planned, arena, stale, step, step_stale, .. } = current;
        for &node in differ {
            if self.memory.aliased[node] {
                continue;
            }
            let plan = &planned.plans()[node];
            let mut used = vec![0; self.compiled[node].len()];
            for dispatch in &plan.steps {
                let slot = (self.compiled[node][dispatch.recipe].slot + used[dispatch.recipe]) as usize;
                used[dispatch.recipe] += 1;
                let room = &mut arena[slot * PARAM_SLOT..][..dispatch.params.len()];
                if *room != *dispatch.params {
                    room.copy_from_slice(&dispatch.params);
                    stale[slot] = true;
                }
            }
            let words: &[u8] = bytemuck::cast_slice(&plan.step_words);
            let room = &mut step[planned.step_bases()[node] as usize * 4..][..words.len()];
            if *room != *words {
                room.copy_from_slice(words);
                *step_stale = true;
            }
        }
    }

    /// Gathers what the device needs into one write: inputs that kernels read, the step block, stale parameters.
    fn stage<'a>(&'a self, current: &mut CurrentPlan, inputs: &[InputView<'_>]) -> Vec<StagedCopy<'a>> {
        let mut pieces = Vec::new();
        let staging = &mut current.staging;
        staging.clear();
        let mut put = |bytes: &[u8], to: CopyTarget<'a>, at: u64| {
            let from = staging.len() as u64;
            staging.extend_from_slice(bytes);
            staging.resize(staging.len().next_multiple_of(4), 0);
            let len = staging.len() as u64 - from;
            if len > 0 {
                pieces.push(StagedCopy { from, to, at, len });
            }
        };
        for (index, (input, &tensor)) in inputs.iter().zip(&self.graph.inputs).enumerate() {
            if self.on_device(tensor) {
                put(input.data.bytes(), CopyTarget::Region(&self.buffers.inputs[index]), 0);
            }
        }
        if std::mem::take(&mut current.step_stale) {
            put(&current.step, CopyTarget::Region(&self.buffers.step), 0);
        }
        let mut slot = 0;
        while slot < current.stale.len() {
            let start = slot;
            while slot < current.stale.len() && std::mem::take(&mut current.stale[slot]) {
                slot += 1;
            }
            if slot > start {
                let to = CopyTarget::Plain(&self.buffers.arena);
                put(&current.arena[start * PARAM_SLOT..slot * PARAM_SLOT], to, (start * PARAM_SLOT) as u64);
            }
            slot += 1;
        }
        pieces
    }

    /// Whether anything on the device looks at an input; a position may matter to the host alone.
    fn on_device(&self, input: TensorId) -> bool {
        let read = |node: &crate::graph::Node| {
            let flow = &node.flow;
            (flow.reads.contains(&input) && !flow.host_reads.contains(&input)) || flow.mutates.contains(&input)
        };
        self.graph.outputs.contains(&input) || self.graph.nodes.iter().any(read)
    }

    fn encode(
        &self,
        current: &mut CurrentPlan,
        state: &State,
        inputs: &[InputView<'_>],
        recorder: Option<&TimestampRecorder>,
    ) -> Vec<OutputReadback> {
        let mut encoder = self.encode_writes(current, inputs);
        match recorder {
            None => self.encode_pass(&mut encoder, current, state, None),
            Some(recorder) => self.encode_timed(&mut encoder, current, state, recorder),
        }
        let wanted = self.encode_readback(&mut encoder, current, state);
        self.submit(encoder);
        wanted
    }

    /// One write, and copies from there to where its pieces belong.
    pub(super) fn encode_writes(&self, current: &mut CurrentPlan, inputs: &[InputView<'_>]) -> wgpu::CommandEncoder {
        let counters = &self.gpu.inner.counters;
        let pieces = self.stage(current, inputs);
        if !current.staging.is_empty() {
            count(&counters.writes, 1);
            count(&counters.written_bytes, current.staging.len() as u64);
            self.gpu.inner.queue.write_buffer(&self.buffers.upload, 0, &current.staging);
        }
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for piece in pieces {
            match piece.to {
                CopyTarget::Region(to) => {
                    to.copy_from(&mut encoder, (&self.buffers.upload, piece.from), piece.at, piece.len)
                }
                CopyTarget::Plain(to) => {
                    encoder.copy_buffer_to_buffer(&self.buffers.upload, piece.from, to, piece.at, piece.len);
                }
            }
        }
        encoder
    }

    /// Copies the live bytes of each output behind one another.
    fn encode_readback(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        current: &CurrentPlan,
        state: &State,
    ) -> Vec<OutputReadback> {
        let mut at = 0;
        let mut all = Vec::with_capacity(self.graph.outputs.len());
        for &output in &self.graph.outputs {
            let elem = self.graph.info(output).elem;
            let dims = current.planned.live().dims(output);
            let wanted = OutputReadback { dims, elem, at, len: elem.bytes(dims.count()) };
            if let (Some(source), true) = (self.buffer_of(output, state), wanted.len > 0) {
                source.copy_to(encoder, (&self.buffers.readback, at), wanted.len);
            }
            at += crate::memory::padded(wanted.len);
            all.push(wanted);
        }
        all
    }

    /// Where a tensor is.
    pub(super) fn buffer_of<'a>(&'a self, tensor: TensorId, state: &'a State) -> Option<&'a Region> {
        match self.memory.tensors[tensor.index()]? {
            Place::Output(index) => self.buffers.outputs.get(index).and_then(Option::as_ref),
            Place::Input(index) => self.buffers.inputs.get(index),
            Place::Constant(constant) => self.buffers.constants.get(&constant),
            Place::Joined(index) => self.buffers.joined.get(index),
            Place::State(index) => state.buffers.get(index),
            Place::Object(index) => self.buffers.objects.get(index),
        }
    }

    async fn read_back(&self, wanted: Vec<OutputReadback>) -> Result<Vec<OutputData>> {
        let total = wanted.iter().map(|wanted| wanted.at + wanted.len).max().unwrap_or(0);
        let bytes = if total == 0 { Vec::new() } else { self.gpu.read(&self.buffers.readback, total).await? };
        self.gpu.check()?;
        let mut outputs = alloc::vec(wanted.len())?;
        for wanted in wanted {
            let OutputReadback { dims, elem, .. } = wanted;
            let Some(own) = wanted.of(&bytes) else {
                return Err(Error::Device("fewer bytes came back than were asked for".to_owned()));
            };
            outputs.push(OutputData { dims, elem, bytes: alloc::copied(own)? });
        }
        Ok(outputs)
    }
}

/// An output in the readback buffer.
struct OutputReadback {
    dims: Dims,
    elem: Elem,
    at: u64,
    len: u64,
}

impl OutputReadback {
    /// Its bytes among those that were read back.
    fn of<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (start, mut len) = (usize::try_from(self.at).ok()?, usize::try_from(self.len).ok()?);
        if !matches!(self.elem, Elem::F32 | Elem::I32) {
            len = len.min(usize::try_from(self.dims.count()).ok()?);
        }
        bytes.get(start..start.checked_add(len)?)
    }
}
