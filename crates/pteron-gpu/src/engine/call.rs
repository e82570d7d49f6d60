//! Running a graph once: plan, one upload, one pass, one submit, readback of live bytes.

use std::borrow::Cow;
use std::sync::PoisonError;

use pteron_format::alloc;

use super::binding::Bound;
use super::buffers::count;
use super::grouped::Lanes;
use super::guards::Region;
use super::input_staging::InputStaging;
use super::inputs::{Input, TensorData, element_bytes, on_device};
use super::load::LoadedGraph;
use super::profile::{Profile, TimestampRecorder, Timing};
use super::state::State;
use super::upload;
use super::uploaded_inputs::UploadedInputs;
use crate::error::{Error, Result};
use crate::graph::Elem;
use crate::live::TensorId;
use crate::plan::PARAM_SLOT;
use crate::resize::{LiveInput, Planned};
use crate::shape::Dims;

/// The plan at the current live shape, and which of its parameters the device does not have yet.
#[derive(Debug)]
pub(super) struct CurrentPlan {
    pub(super) planned: Planned,
    /// The arena as it should be, and the slots that must be uploaded.
    arena: Vec<u8>,
    stale: Vec<bool>,
    step: Vec<u8>,
    step_stale: bool,
    /// The bytes of a call's one upload; reused.
    staging: Vec<u8>,
    /// What need not be uploaded again.
    uploaded: UploadedInputs,
}

impl CurrentPlan {
    pub(super) fn new(planned: Planned, slots: u32, uploaded: UploadedInputs) -> Self {
        let slots = slots as usize;
        let words: usize = planned.recipes().iter().map(|recipes| recipes.step_words).sum();
        Self {
            planned,
            arena: vec![0; slots * PARAM_SLOT],
            stale: vec![true; slots],
            step: vec![0; words * 4],
            step_stale: true,
            staging: Vec::new(),
            uploaded,
        }
    }

    /// The bytes that the last call staged.
    pub(super) fn staged(&self) -> &[u8] {
        &self.staging
    }

    /// Whether the device lacks parameters of the planned call.
    pub(super) fn has_stale_parameters(&self) -> bool {
        self.stale.contains(&true)
    }

    /// After a kernel has written an input.
    pub(super) fn forget_upload(&mut self, input: usize) {
        self.uploaded.forget(input);
    }

    /// The step block, for a caller that writes it.
    pub(super) fn take_step(&mut self) -> &[u8] {
        self.step_stale = false;
        &self.step
    }
}

/// A buffer that a call's upload is copied to.
#[derive(Clone, Copy)]
enum CopyTarget<'a> {
    Region(&'a Region),
    Plain(&'a wgpu::Buffer),
}

/// A range of the staging bytes, or of another buffer, and its destination.
struct StagedCopy<'a> {
    source: Option<&'a wgpu::Buffer>,
    from: u64,
    to: CopyTarget<'a>,
    at: u64,
    len: u64,
}

/// Appends the outputs of a slice of a batch to those of the slices before it.
fn append_rows(outputs: &mut Vec<TensorData<'static>>, more: Vec<TensorData<'static>>) {
    if outputs.is_empty() {
        *outputs = more;
        return;
    }
    for (output, more) in outputs.iter_mut().zip(more) {
        let rows = output.dims.first().unwrap_or(&0) + more.dims.first().unwrap_or(&0);
        output.dims = output.dims.with(0, rows);
        output.bytes.to_mut().extend_from_slice(&more.bytes);
    }
}

impl LoadedGraph {
    /// Runs the graph on a state and waits for its outputs.
    ///
    /// Natively the future blocks the thread that polls it while the GPU works; in a browser it never does. A future that is
    /// dropped before its first poll has no effect; afterwards the call may have run, and its outputs are lost.
    ///
    /// # Errors
    /// Inputs or live shapes the graph does not take (nothing changes then, on the host or the device), a state of another
    /// graph, or a device that fails.
    pub async fn call(&self, state: &mut State, inputs: &[Input<'_>]) -> Result<Vec<TensorData<'static>>> {
        Ok(self.call_with(state, inputs, None).await?.0)
    }

    /// Runs the graph on a state and measures how long each dispatch takes. The outputs are those of [`call`](Self::call).
    ///
    /// # Errors
    /// As [`call`](Self::call), or a device without timestamps.
    pub async fn call_profiled(
        &self,
        state: &mut State,
        inputs: &[Input<'_>],
    ) -> Result<(Vec<TensorData<'static>>, Profile)> {
        self.call_timed(state, inputs, self.gpu.timing()?).await
    }

    /// Runs the graph with the given kind of timing, which may not be the best the device offers.
    pub(super) async fn call_timed(
        &self,
        state: &mut State,
        inputs: &[Input<'_>],
        timing: Timing,
    ) -> Result<(Vec<TensorData<'static>>, Profile)> {
        let (outputs, recorders) = self.call_with(state, inputs, Some(timing)).await?;
        let mut whole: Option<Profile> = None;
        for recorder in recorders {
            let profile = recorder.finish(&self.gpu).await?;
            match &mut whole {
                Some(whole) => whole.dispatches.extend(profile.dispatches),
                None => whole = Some(profile),
            }
        }
        whole.map_or_else(|| Err(Error::Device("nothing was timed".to_owned())), |profile| Ok((outputs, profile)))
    }

    async fn call_with(
        &self,
        state: &mut State,
        inputs: &[Input<'_>],
        timing: Option<Timing>,
    ) -> Result<(Vec<TensorData<'static>>, Vec<TimestampRecorder>)> {
        self.gpu.check()?;
        // The readback buffer serves one call at a time.
        let _serial = self.call_lock.lock().await;
        let slices = self.batch_slices(state, inputs)?;
        let whole = [inputs];
        let each: Vec<&[Input<'_>]> =
            slices.as_ref().map_or(whole.to_vec(), |slices| slices.iter().map(Vec::as_slice).collect());
        let (mut outputs, mut recorders) = (Vec::new(), Vec::new());
        for inputs in each {
            let (readbacks, recorder) = self.submit_call(state, inputs, timing)?;
            append_rows(&mut outputs, self.read_back(readbacks).await?);
            if let Some(guards) = &self.guards {
                guards.check(&self.gpu, &state.buffers).await?;
            }
            recorders.extend(recorder);
        }
        Ok((outputs, recorders))
    }

    /// The inputs of each slice of a batch that has more rows than run at a time.
    fn batch_slices<'i>(&self, state: &State, inputs: &'i [Input<'_>]) -> Result<Option<Vec<Vec<Input<'i>>>>> {
        let rows_of = |input: &Input<'_>| input.dims().first().copied().unwrap_or(0);
        let (Some(most), Some(batch)) = (self.slice_rows, inputs.iter().map(rows_of).max()) else { return Ok(None) };
        if batch <= most {
            return Ok(None);
        }
        self.check_state(state)?;
        self.check_inputs(state, inputs)?;
        for (index, (input, &tensor)) in inputs.iter().zip(&self.graph.inputs).enumerate() {
            let (dims, bound) = (input.dims(), self.graph.info(tensor).bound);
            if rows_of(input) != batch || !dims.fits(&bound) {
                let reason = format!("has shape {dims}, expected a batch of {batch} within {bound}");
                return Err(Error::Input { index, reason });
            }
        }
        let slice = |start: u32| {
            let rows = most.min(batch - start);
            inputs.iter().map(|input| input.rows(start, rows)).collect()
        };
        Ok(Some((0..batch).step_by(most as usize).map(slice).collect()))
    }

    /// Plans, encodes and submits a call whose outputs go to the readback buffer.
    fn submit_call(
        &self,
        state: &mut State,
        inputs: &[Input<'_>],
        timing: Option<Timing>,
    ) -> Result<(Vec<OutputReadback>, Option<TimestampRecorder>)> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare(&mut current, state, inputs)?;
        let recorder = timing.map(|timing| TimestampRecorder::new(&self.gpu, timing, self.untimed(&current))).transpose()?;
        let large = self.buffers.input_staging.as_ref();
        let mut encoder = self.encode_copies(&mut current, state, inputs, large);
        match &recorder {
            None => {
                let first = self.submit_first(encoder, &current, state, |_| None);
                encoder = first.encoder;
                if first.submitted == 0 {
                    self.write_upload(&current, &mut Lanes::default());
                }
                self.dispatch_rest(&mut self.begin(&mut encoder, None), &current, state, first.submitted);
            }
            Some(recorder) => {
                self.write_upload(&current, &mut Lanes::default());
                self.encode_timed(&mut encoder, &current, state, recorder);
            }
        }
        let readbacks = self.encode_readback(&mut encoder, &current, state);
        self.mark_fed(&current, state);
        self.submit_on(encoder, state);
        large.into_iter().for_each(InputStaging::map_again);
        Ok((readbacks, recorder))
    }

    /// Records how many elements the planned call feeds back.
    pub(super) fn mark_fed(&self, current: &CurrentPlan, state: &mut State) {
        for (fed, edge) in state.fed.iter_mut().zip(&self.feedback) {
            *fed = Some(current.planned.live().dims(edge.output).count());
        }
    }

    /// Copies the outputs that are fed back into the state's inputs, and submits.
    pub(super) fn submit_on(&self, mut encoder: wgpu::CommandEncoder, state: &State) -> wgpu::SubmissionIndex {
        for (fed, edge) in state.fed.iter().zip(&self.feedback) {
            let bytes = self.graph.info(edge.output).elem.bytes(fed.unwrap_or(0));
            let (source, target) = (self.region_of(edge.output, state), state.buffers.inputs.get(&edge.input));
            if let (Some(source), Some(target), true) = (source, target, bytes > 0) {
                target.copy_from(&mut encoder, (&source.buffer, source.start), 0, bytes);
            }
        }
        self.submit(encoder)
    }

    /// Plans a call and updates the arena. On error nothing has changed.
    pub(super) fn prepare(&self, current: &mut CurrentPlan, state: &State, inputs: &[Input<'_>]) -> Result<()> {
        self.check_state(state)?;
        self.check_inputs(state, inputs)?;
        let values: Vec<Option<Cow<'_, [i32]>>> = inputs.iter().map(Input::i32_values).collect();
        let live = inputs.iter().zip(&values);
        let live = live.map(|(input, values)| LiveInput { dims: input.dims(), values: values.as_deref() });
        let change = current.planned.resize(&self.graph, &live.collect::<Vec<_>>())?;
        self.check_indices(inputs, change.live())?;
        let differ = current.planned.commit(change);
        self.refresh(current, &differ);
        Ok(())
    }

    /// Writes the arena for every operator, once: the graph was planned before there was an arena.
    pub(super) fn refresh_all(&self) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<usize> = (0..self.graph.nodes.len()).collect();
        self.refresh(&mut current, &all);
    }

    /// Updates the arena and the step block for plans that have changed.
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

    /// Gathers all data for the device into one upload: inputs that kernels read, the step block, stale parameters.
    /// Large inputs go to `large`, if it is given and free.
    fn stage<'a>(
        &'a self,
        current: &mut CurrentPlan,
        state: &'a State,
        inputs: &[Input<'_>],
        large: Option<&'a InputStaging>,
    ) -> Vec<StagedCopy<'a>> {
        let (mut copies, mut large_copies) = (Vec::new(), Vec::new());
        let mut writer = large.and_then(InputStaging::writer);
        let staging = &mut current.staging;
        staging.clear();
        let mut put = |bytes: &[u8], to: CopyTarget<'a>, at: u64| {
            let from = staging.len() as u64;
            staging.extend_from_slice(bytes);
            staging.resize(staging.len().next_multiple_of(4), 0);
            let len = staging.len() as u64 - from;
            if len > 0 {
                copies.push(StagedCopy { source: None, from, to, at, len });
            }
        };
        for (index, (input, &tensor)) in inputs.iter().zip(&self.graph.inputs).enumerate() {
            let region = self.buffers.input(index, Some(&state.buffers)).filter(|_| on_device(&self.graph, tensor));
            let Some(region) = region else { continue };
            // Inputs of a state are fed back to.
            if self.buffers.inputs[index].is_some() && !current.uploaded.is_new(index, input.bytes()) {
                continue;
            }
            let to = CopyTarget::Region(region);
            match writer.as_mut().and_then(|writer| writer.put(&self.gpu, input.bytes())) {
                // The upload has no room for it.
                None if self.buffers.input_staging.is_some() && InputStaging::takes(input.bytes()) => {
                    self.write_input(region, input.bytes());
                }
                None => put(input.bytes(), to, 0),
                Some(from) => {
                    let len = input.bytes().len().next_multiple_of(4) as u64;
                    large_copies.push(StagedCopy { source: large.map(InputStaging::buffer), from, to, at: 0, len });
                }
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
        copies.append(&mut large_copies);
        copies
    }

    /// Writes an input to its buffer through the queue, before what is submitted next.
    fn write_input(&self, region: &Region, bytes: &[u8]) {
        count(&self.gpu.inner.counters.writes, 1);
        count(&self.gpu.inner.counters.written_bytes, bytes.len() as u64);
        upload::write(&self.gpu, &region.buffer, region.start, bytes);
    }

    /// Stages everything that a call uploads, and encodes copies from the upload to the destination buffers. The upload is to be
    /// [written](Self::write_upload) before the encoder is submitted.
    pub(super) fn encode_copies(
        &self,
        current: &mut CurrentPlan,
        state: &State,
        inputs: &[Input<'_>],
        large: Option<&InputStaging>,
    ) -> wgpu::CommandEncoder {
        let copies = self.stage(current, state, inputs, large);
        let start = self.upload_start();
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for StagedCopy { source, from, to, at, len } in copies {
            let (source, from) = source.map_or((&self.buffers.upload, start + from), |source| (source, from));
            match to {
                CopyTarget::Region(to) => to.copy_from(&mut encoder, (source, from), at, len),
                CopyTarget::Plain(to) => encoder.copy_buffer_to_buffer(source, from, to, at, len),
            }
        }
        encoder
    }

    /// Copies the live bytes of each output into the readback buffer, one after another.
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
            if let (Some(source), true) = (self.region_of(output, state), wanted.len > 0) {
                source.copy_to(encoder, (&self.buffers.readback, at), wanted.len);
            }
            at += crate::memory::padded(wanted.len);
            all.push(wanted);
        }
        all
    }

    /// The buffer of a tensor.
    pub(super) fn region_of<'a>(&'a self, tensor: TensorId, state: &'a State) -> Option<&'a Region> {
        self.buffers.region(Bound::Place(self.memory.tensors[tensor.index()]?), Some(&state.buffers))
    }

    /// Copies each output out of the mapped readback buffer, once.
    async fn read_back(&self, readbacks: Vec<OutputReadback>) -> Result<Vec<TensorData<'static>>> {
        let total = readbacks.iter().map(|readback| readback.at + readback.len).max().unwrap_or(0);
        let outputs = |mapped: &[u8]| readbacks.iter().map(|readback| readback.copy_from(mapped)).collect();
        let outputs: Result<Vec<_>> = match total {
            0 => outputs(&[]),
            _ => self.gpu.read_mapped(&self.buffers.readback, total, None, outputs).await?,
        };
        self.gpu.check()?;
        outputs
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
    /// Copies its elements, without padding, out of the mapped bytes.
    fn copy_from(&self, mapped: &[u8]) -> Result<TensorData<'static>> {
        let range = || {
            let start = usize::try_from(self.at).ok()?;
            let len = usize::try_from(self.dims.count().checked_mul(element_bytes(self.elem))?).ok()?;
            mapped.get(start..start.checked_add(len)?)
        };
        let bytes = range().ok_or_else(|| Error::Device("fewer bytes came back than were asked for".to_owned()))?;
        Ok(TensorData { dims: self.dims, elem: self.elem, bytes: Cow::Owned(alloc::copied(bytes)?) })
    }
}
