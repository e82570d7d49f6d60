//! Groups of calls: several calls on one state with one upload, one pass, one submission and one readback.
//!
//! Every submission costs tens of microseconds on the GPU: it waits for the one before, copies the upload, and resolves timestamps. A
//! group pays that once. Between two of its calls a small kernel takes the place of the copies: [`Handoff`].

use super::Gpu;
use super::binding::GraphBuffers;
use super::buffers::{BufferRequest, MemoryBudget, count};
use super::call::CurrentPlan;
use super::feedback::FeedbackEdge;
use super::guards::Region;
use super::inputs::{Input, on_device};
use super::load::LoadedGraph;
use super::state::StateBuffers;
use crate::error::Result;
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::resize::Planned;

/// The most calls of a group.
pub const MAX_GROUP: usize = 8;
/// Bytes reserved for the output of each call of a group.
pub(super) const OUTPUT_ROOM: u64 = 64;
/// The most bytes of the input that changes from call to call.
const INPUT_ROOM: u64 = 256;
/// Words before a lane's data.
const HEADER: usize = 4;
/// Lanes start at the offset alignment of bindings that every device allows.
const LANE_ALIGNMENT: u64 = 256;
/// Calls of a group after the first.
const LANES: u64 = MAX_GROUP as u64 - 1;

/// How calls of a graph form groups, decided from its bounds: one output is fed back, one other input changes from call to call, and
/// both are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPlan {
    /// The input that changes.
    data: usize,
    /// The output that is fed back, and its input.
    output: TensorId,
    fed: usize,
    lane_bytes: u64,
}

impl GroupPlan {
    /// Returns how calls form groups, if they can.
    pub(super) fn new(
        graph: &DecodedGraph,
        planned: &Planned,
        memory: &Memory,
        feedback: &[FeedbackEdge],
        max_in_flight: usize,
    ) -> Option<Self> {
        let &[FeedbackEdge { output, input: fed, .. }] = feedback else { return None };
        let bytes = |tensor: TensorId| graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count());
        let others = graph.inputs.iter().enumerate();
        let mut others = others.filter(|&(index, &input)| index != fed && on_device(graph, input));
        let ((data, &input), None) = (others.next()?, others.next()) else { return None };
        let small = bytes(input) <= INPUT_ROOM && bytes(output) <= OUTPUT_ROOM;
        // No buffer may be bound twice.
        let own = memory.tensors[input.index()] == Some(Place::Input(data))
            && matches!(memory.tensors[output.index()], Some(Place::Output(_)));
        let step: usize = planned.recipes().iter().map(|recipes| recipes.step_words).sum();
        let lane_bytes = (4 * (HEADER + step) as u64 + INPUT_ROOM).next_multiple_of(LANE_ALIGNMENT);
        (max_in_flight > 0 && small && own).then_some(Self { data, output, fed, lane_bytes })
    }

    /// Bytes of the upload that the lanes of a group take.
    pub(super) fn upload_bytes(self) -> u64 {
        LANES * self.lane_bytes
    }

    /// The buffer that keeps the outputs of a group's calls but the last.
    pub(super) fn kept(self) -> BufferRequest {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        BufferRequest::new("outputs of a group", LANES * OUTPUT_ROOM, usage)
    }
}

/// The kernel that runs between two calls of a group, and its buffer.
#[derive(Debug)]
pub(super) struct Handoff {
    plan: GroupPlan,
    pipeline: wgpu::ComputePipeline,
    pub(super) kept: wgpu::Buffer,
}

impl Handoff {
    pub(super) fn new(gpu: &Gpu, plan: GroupPlan, budget: &mut MemoryBudget) -> Result<Self> {
        let kept = plan.kept().make(gpu, budget)?;
        let pipeline = gpu.pipeline_with_inferred_layout("handoff", include_str!("handoff.wgsl"));
        Ok(Self { plan, pipeline, kept })
    }

    /// Creates the bind groups of a state, one per lane.
    pub(super) fn bind(
        &self,
        gpu: &Gpu,
        buffers: &GraphBuffers,
        memory: &Memory,
        state: &StateBuffers,
    ) -> Option<Vec<wgpu::BindGroup>> {
        let most = gpu.inner.summary.limits.max_storage_buffer_binding_size;
        let out = buffers.region(super::binding::Bound::Place(memory.tensors[self.plan.output.index()]?), Some(state))?;
        let [data, fed] = [self.plan.data, self.plan.fed].map(|input| buffers.input(input, Some(state)));
        let regions: [&Region; 4] = [&buffers.step, data?, out, fed?];
        let group = |lane: u64| {
            let (offset, size) = (lane * self.plan.lane_bytes, wgpu::BufferSize::new(self.plan.lane_bytes));
            let lane = wgpu::BufferBinding { buffer: &buffers.upload, offset, size };
            let lane = std::iter::once(wgpu::BindingResource::Buffer(lane));
            let regions = regions.iter().map(|region| region.binding(true, most));
            let all = lane.chain(regions).chain(std::iter::once(self.kept.as_entire_binding()));
            let entries: Vec<wgpu::BindGroupEntry<'_>> =
                (0..).zip(all).map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
            let layout = &self.pipeline.get_bind_group_layout(0);
            count(&gpu.inner.counters.bind_groups, 1);
            gpu.inner.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
        };
        Some((0..LANES).map(group).collect())
    }
}

/// The upload of a group: the lanes of the calls after the first.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    bytes: Vec<u8>,
    pub(super) count: usize,
}

impl LoadedGraph {
    /// Bytes of the upload before a call's own.
    pub(super) fn upload_start(&self) -> u64 {
        self.handoff.as_ref().map_or(0, |handoff| handoff.plan.upload_bytes())
    }

    /// Whether a call can follow another in its group: it takes the output that the other feeds back.
    pub(super) fn can_join(&self, inputs: &[Input<'_>], read: TensorId) -> bool {
        let Some(Handoff { plan, .. }) = &self.handoff else { return false };
        let fed = matches!(inputs.get(plan.fed), Some(Input::Feedback(_)));
        fed && read == plan.output && inputs.get(plan.data).is_some_and(|input| !input.bytes().is_empty())
    }

    /// Adds the lane of a call that is planned, and dispatches the kernel that takes it.
    pub(super) fn hand_off(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        bindings: &wgpu::BindGroup,
        (current, inputs): (&mut CurrentPlan, &[Input<'_>]),
        output_bytes: u64,
        lanes: &mut Lanes,
    ) {
        let Some(Handoff { plan, pipeline, .. }) = &self.handoff else { return };
        let (step, input) = (current.take_step(), inputs.get(plan.data).map_or(&[][..], Input::bytes));
        let kept = OUTPUT_ROOM / 4 * lanes.count as u64;
        let words = [step.len() as u64 / 4, input.len().div_ceil(4) as u64, output_bytes / 4, kept];
        let start = lanes.bytes.len();
        for word in words {
            // All of them are bounded by the plan, which is far below 32 bits.
            lanes.bytes.extend_from_slice(&u32::try_from(word).unwrap_or(0).to_le_bytes());
        }
        lanes.bytes.extend_from_slice(step);
        lanes.bytes.extend_from_slice(input);
        let end = start + usize::try_from(plan.lane_bytes).unwrap_or(usize::MAX - start);
        lanes.bytes.resize(end, 0);
        current.forget_upload(plan.data);
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, bindings, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        count(&self.gpu.inner.counters.dispatches, 1);
        lanes.count += 1;
    }

    /// Uploads the lanes of a group and the first call's own data in one write.
    pub(super) fn write_upload(&self, current: &CurrentPlan, lanes: &mut Lanes) {
        let own = current.staged();
        let start = self.upload_start();
        if lanes.count == 0 {
            self.write_upload_at(start, own);
            return;
        }
        lanes.bytes.resize(usize::try_from(start).unwrap_or(0), 0);
        lanes.bytes.extend_from_slice(own);
        self.write_upload_at(0, &lanes.bytes);
    }

    /// Uploads the lanes of a group whose first call's own data has been uploaded.
    pub(super) fn write_lanes(&self, lanes: &Lanes) {
        self.write_upload_at(0, &lanes.bytes);
    }

    fn write_upload_at(&self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        count(&self.gpu.inner.counters.writes, 1);
        count(&self.gpu.inner.counters.written_bytes, bytes.len() as u64);
        self.gpu.inner.queue.write_buffer(&self.buffers.upload, at, bytes);
    }
}
