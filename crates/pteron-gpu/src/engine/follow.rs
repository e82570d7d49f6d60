//! Calls that are started and not waited for: what one leaves on the device is what the next begins with, and the host reads
//! small answers as they arrive.

use std::sync::{Mutex, PoisonError};

use super::buffers::{MemoryBudget, Request};
use super::call::InputView;
use super::device::Gpu;
use super::load::LoadedGraph;
use super::state::State;
use crate::error::{Error, Result};

/// The most bytes of an answer that can be read while later calls run.
const ROOM: u64 = 4096;

/// What a started call does behind its pass, by index of the graph's outputs and inputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct After {
    /// The output that is read.
    pub read: usize,
    /// An output whose bytes become those of an input for calls to come, which take it as
    /// [`HostView::Kept`](super::HostView::Kept).
    pub feed: Option<(usize, usize)>,
}

/// Buffers for answers on their way, and which of them are taken.
#[derive(Debug)]
pub(super) struct Answers {
    buffers: Vec<wgpu::Buffer>,
    taken: Mutex<Vec<bool>>,
}

impl Answers {
    pub(super) fn new(gpu: &Gpu, count: usize, budget: &mut MemoryBudget) -> Result<Self> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = |index| Request::new(format!("answer {index}"), ROOM, usage).make(gpu, budget);
        let buffers = (0..count).map(buffer).collect::<Result<Vec<_>>>()?;
        Ok(Self { buffers, taken: Mutex::new(vec![false; count]) })
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

/// A call that was started. Dropping it gives up its answer; the call runs all the same.
#[derive(Debug)]
pub struct Pending<'a> {
    graph: &'a LoadedGraph,
    answer: usize,
    len: u64,
    submission: wgpu::SubmissionIndex,
}

impl Pending<'_> {
    /// The bytes of the output that was asked for, once the call has run; calls started later may still be running.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<Vec<u8>> {
        let gpu = &self.graph.gpu;
        let bytes =
            gpu.read_after(&self.graph.answers.buffers[self.answer], self.len, Some(self.submission.clone())).await?;
        gpu.check()?;
        Ok(bytes)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.graph.answers.give_back(self.answer);
    }
}

impl LoadedGraph {
    /// Starts a call and returns at once. Calls run in the order they are started in.
    ///
    /// # Errors
    /// As [`call`](Self::call); an output that does not fit, or as many calls under way as the graph was loaded for.
    pub fn start(&self, state: &State, inputs: &[InputView<'_>], after: After) -> Result<Pending<'_>> {
        self.gpu.check()?;
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = self.answers.take() else {
            let reason = format!("{} calls are under way, as many as were asked for at load", self.answers.buffers.len());
            return Err(Error::Device(reason));
        };
        let started = self.start_into(&mut run, state, inputs, after, answer);
        if started.is_err() {
            self.answers.give_back(answer);
        }
        started
    }

    fn start_into<'a>(
        &'a self,
        run: &mut super::call::Run,
        state: &State,
        inputs: &[InputView<'_>],
        after: After,
        answer: usize,
    ) -> Result<Pending<'a>> {
        let output = |index: usize| {
            let tensor = self.graph.outputs.get(index).copied();
            tensor.ok_or_else(|| Error::Device(format!("there is no output {index} to read or feed back")))
        };
        let (wanted, feed) = (output(after.read)?, after.feed.map(|(from, _)| output(from)).transpose()?);
        self.prepare(run, inputs)?;
        let bytes = |tensor| self.graph.info(tensor).elem.bytes(run.planned.live().dims(tensor).count());
        let len = bytes(wanted);
        if len == 0 || len > ROOM {
            return Err(Error::Device(format!("output {} has {len} bytes, allowed are 1 to {ROOM}", after.read)));
        }
        let fed = feed.map_or(0, bytes);
        let target = |input: usize| {
            let target = self.fixed.inputs.get(input).filter(|target| target.size() >= fed);
            target.ok_or_else(|| Error::Device(format!("input {input} has no room for {fed} bytes")))
        };
        let target = after.feed.map(|(_, input)| target(input)).transpose()?;
        let mut encoder = self.encode_writes(run, inputs);
        self.encode_pass(&mut encoder, run, state);
        if let Some(source) = self.buffer_of(wanted, state) {
            encoder.copy_buffer_to_buffer(source, 0, &self.answers.buffers[answer], 0, len);
        }
        if let (Some(source), Some(target)) = (feed.and_then(|tensor| self.buffer_of(tensor, state)), target) {
            encoder.copy_buffer_to_buffer(source, 0, target, 0, fed);
        }
        let submission = self.submit(encoder);
        Ok(Pending { graph: self, answer, len, submission })
    }
}
