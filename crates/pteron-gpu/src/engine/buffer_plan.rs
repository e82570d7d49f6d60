//! The memory a graph needs, computed from its bounds.

use wgpu::BufferUsages as Usage;

use super::Gpu;
use super::buffers::{BufferRequest, MemoryBudget, STORAGE};
use super::constants::ConstantBuffers;
use super::feedback::FeedbackEdge;
use super::grouped::GroupPlan;
use super::input_staging::LEAST_BYTES;
use super::load::MemoryUse;
use crate::error::Result;
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::plan::PARAM_SLOT;
use crate::resize::Planned;

/// Inputs with more bytes than these in total are written through the queue, in memory that exists for one call.
const MOST_STAGED: u64 = 256 << 20;

/// The location of each operator's parameters in the arena.
#[derive(Debug)]
pub(super) struct ParamSlots {
    pub(super) bases: Vec<Vec<u32>>,
    pub(super) total: u32,
}

pub(super) fn slots(planned: &Planned, memory: &Memory) -> ParamSlots {
    let mut total = 0u32;
    let bases = planned.recipes().iter().zip(&memory.aliased).map(|(recipes, &aliased)| {
        let recipes = if aliased { &[][..] } else { &recipes.list };
        let base = |recipe: &crate::plan::Recipe| {
            let base = total;
            total = total.saturating_add(recipe.max_dispatches);
            base
        };
        recipes.iter().map(base).collect()
    });
    let bases = bases.collect();
    ParamSlots { bases, total }
}

/// Every buffer that lives as long as the graph, computed from bounds alone: a graph that does not fit is rejected before
/// any buffer is created.
#[derive(Debug)]
pub(super) struct BufferPlan {
    pub(super) constants: ConstantBuffers,
    /// Inputs by index; those that outputs are fed back into belong to the state.
    pub(super) inputs: Vec<Option<BufferRequest>>,
    pub(super) outputs: Vec<Option<BufferRequest>>,
    pub(super) objects: Vec<BufferRequest>,
    pub(super) arena: BufferRequest,
    pub(super) step: BufferRequest,
    pub(super) upload: BufferRequest,
    /// Large inputs, where there are any.
    pub(super) input_staging: Option<BufferRequest>,
    pub(super) readback: BufferRequest,
    /// How calls form groups, if they can.
    pub(super) group: Option<GroupPlan>,
}

impl BufferPlan {
    pub(super) fn new(
        graph: &DecodedGraph,
        planned: &Planned,
        memory: &Memory,
        slots: u32,
        feedback: &[FeedbackEdge],
        group: Option<GroupPlan>,
    ) -> Self {
        let bytes = |tensor: TensorId| graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count());
        let padded = |tensors: &[TensorId]| {
            let sizes = tensors.iter().map(|&tensor| crate::memory::padded(bytes(tensor)));
            sizes.fold(0, u64::saturating_add)
        };
        let input = |(index, &tensor): (usize, &TensorId)| {
            let own = feedback.iter().all(|edge| edge.input != index);
            own.then(|| BufferRequest::new(format!("input {index}"), bytes(tensor), STORAGE))
        };
        let output = |(index, &tensor): (usize, &TensorId)| {
            let own = memory.tensors[tensor.index()] == Some(Place::Output(index));
            own.then(|| BufferRequest::new(format!("output {index}"), bytes(tensor), STORAGE))
        };
        let large = graph.inputs.iter().map(|&tensor| bytes(tensor)).filter(|&bytes| bytes >= LEAST_BYTES);
        let large = large.map(crate::memory::padded).fold(0, u64::saturating_add);
        // Browsers copy what is mapped once more.
        let staged = large > 0 && large <= MOST_STAGED && cfg!(not(target_arch = "wasm32"));
        let object = |(index, &size): (usize, &u64)| BufferRequest::new(format!("memory object {index}"), size, STORAGE);
        let arena = u64::from(slots.max(1)) * PARAM_SLOT as u64;
        let step_words: usize = planned.recipes().iter().map(|recipes| recipes.step_words).sum();
        let step = 4 * step_words as u64;
        // Large inputs are staged apart, or written to their own buffers.
        let most_uploaded = if staged { LEAST_BYTES } else { u64::MAX };
        let uploaded = graph.inputs.iter().map(|&tensor| crate::memory::padded(bytes(tensor).min(most_uploaded)));
        let upload = uploaded.fold(arena + step + 16, u64::saturating_add);
        // The lanes of a group come first, and a kernel reads them.
        let upload = upload.saturating_add(group.map_or(0, GroupPlan::upload_bytes));
        let upload_usage = Usage::COPY_DST | Usage::COPY_SRC | group.map_or(Usage::empty(), |_| Usage::STORAGE);
        Self {
            constants: ConstantBuffers::new(graph, planned, memory),
            inputs: graph.inputs.iter().enumerate().map(input).collect(),
            outputs: graph.outputs.iter().enumerate().map(output).collect(),
            objects: memory.objects.iter().enumerate().map(object).collect(),
            arena: BufferRequest::new("parameters", arena, Usage::UNIFORM | Usage::COPY_DST),
            step: BufferRequest::new("step block", step, Usage::STORAGE | Usage::COPY_DST),
            upload: BufferRequest::new("upload", upload, upload_usage),
            input_staging: staged.then(|| BufferRequest::new("input staging", large, Usage::MAP_WRITE | Usage::COPY_SRC)),
            readback: BufferRequest::new("readback", padded(&graph.outputs), Usage::COPY_DST | Usage::MAP_READ),
            group,
        }
    }

    /// Buffers that operators read and write, without constants and state.
    pub(super) fn activations(&self) -> impl Iterator<Item = &BufferRequest> {
        self.inputs.iter().chain(&self.outputs).flatten().chain(&self.objects)
    }

    pub(super) fn needed(&self) -> MemoryUse {
        let activation_bytes = self.activations().map(|request| request.size).fold(0, u64::saturating_add);
        let largest = self.constants.buffers().chain(self.activations()).map(|request| request.size).max();
        MemoryUse { constant_bytes: self.constants.bytes(), activation_bytes, largest_bytes: largest.unwrap_or(0) }
    }

    /// Checks that all of them fit at once, without creating any.
    pub(super) fn reserve(&self, gpu: &Gpu, budget: &mut MemoryBudget) -> Result<()> {
        let others = [&self.arena, &self.step, &self.upload, &self.readback];
        let kept = self.group.map(GroupPlan::kept);
        for request in
            self.constants.buffers().chain(self.activations()).chain(others).chain(&self.input_staging).chain(&kept)
        {
            gpu.reserve(budget, &request.label, request.size, request.usage)?;
        }
        Ok(())
    }
}
