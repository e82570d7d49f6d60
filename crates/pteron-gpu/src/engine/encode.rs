//! Encoding of a call between its writes and its readback: the dispatches of the current plans, timed or not.

use super::binding::CompiledRecipe;
#[cfg(test)]
use super::binding::bind_group_of;
use super::buffers::count;
use super::call::CurrentPlan;
#[cfg(test)]
use super::guards::Region;
use super::load::LoadedGraph;
use super::profile::{DispatchTime, TimestampRecorder, Timing};
use super::state::State;
use crate::plan::{Bind, Dispatch, PARAM_SLOT};

const PARAM_SLOT_U32: u32 = 256;
const _: () = assert!(PARAM_SLOT_U32 as usize == PARAM_SLOT, "a dynamic offset counts slots");

/// A dispatch of the current plans, with its resources on the device.
struct PlannedDispatch<'a> {
    node: usize,
    dispatch: &'a Dispatch,
    compiled: &'a CompiledRecipe,
    /// The slot of its parameters in the arena.
    slot: u32,
    /// Its reach, where no more is to be bound.
    #[cfg(test)]
    reached: Option<crate::kernel::reach::Reached>,
}

impl LoadedGraph {
    /// Every dispatch, in order. Operators that became aliases have none.
    fn steps<'a>(&'a self, current: &'a CurrentPlan) -> impl Iterator<Item = PlannedDispatch<'a>> + 'a {
        let plans = current.planned.plans().iter().enumerate().filter(|&(node, _)| !self.memory.aliased[node]);
        plans.flat_map(move |(node, plan)| {
            let recipes = &self.compiled[node];
            let mut used = vec![0; recipes.len()];
            plan.steps.iter().map(move |dispatch| {
                let compiled = &recipes[dispatch.recipe];
                let slot = compiled.slot + used[dispatch.recipe];
                used[dispatch.recipe] += 1;
                PlannedDispatch {
                    node,
                    dispatch,
                    compiled,
                    slot,
                    #[cfg(test)]
                    reached: current.planned.reached(node, plan, dispatch).filter(|_| self.gpu.inner.binds_reach),
                }
            })
        })
    }

    fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>, state: &State, step: &PlannedDispatch<'_>) {
        let group = step.compiled.group.as_ref().or_else(|| state.groups.get(&(step.node, step.dispatch.recipe)));
        pass.set_pipeline(&step.compiled.pipeline.pipeline);
        #[cfg(test)]
        let exact = step.reached.and_then(|reached| {
            bind_group_of(&self.gpu, &self.buffers, step.compiled, Some(&state.buffers), |index, region: &Region| {
                region.binding_of(reached.bytes()[index])
            })
        });
        #[cfg(test)]
        let group = exact.as_ref().or(group);
        pass.set_bind_group(0, group, &[step.slot * PARAM_SLOT_U32]);
        pass.dispatch_workgroups(step.dispatch.grid.x, step.dispatch.grid.y, 1);
        count(&self.gpu.inner.counters.dispatches, 1);
    }

    pub(super) fn begin<'e>(
        &self,
        encoder: &'e mut wgpu::CommandEncoder,
        timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) -> wgpu::ComputePass<'e> {
        count(&self.gpu.inner.counters.passes, 1);
        encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes })
    }

    /// Encodes all dispatches in one pass, with timestamps before and after it if requested.
    pub(super) fn encode_pass(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        current: &CurrentPlan,
        state: &State,
        times: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) {
        self.dispatch_all(&mut self.begin(encoder, times), current, state);
    }

    /// Encodes all dispatches of the planned call.
    pub(super) fn dispatch_all(&self, pass: &mut wgpu::ComputePass<'_>, current: &CurrentPlan, state: &State) {
        for step in self.steps(current) {
            self.dispatch(pass, state, &step);
        }
    }

    /// Encodes all dispatches with a timestamp before and after each.
    pub(super) fn encode_timed(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        current: &CurrentPlan,
        state: &State,
        recorder: &TimestampRecorder,
    ) {
        match recorder.timing() {
            Timing::InsidePass => {
                let mut pass = self.begin(encoder, None);
                recorder.write(&mut pass, 0);
                for (index, step) in (1..).zip(self.steps(current)) {
                    self.dispatch(&mut pass, state, &step);
                    recorder.write(&mut pass, index);
                }
            }
            Timing::PassPerDispatch => {
                for (index, step) in (0..).zip(self.steps(current)) {
                    let mut pass = self.begin(encoder, recorder.both_sides(index));
                    self.dispatch(&mut pass, state, &step);
                }
            }
        }
        recorder.resolve(encoder);
    }

    /// The dispatches of the current plans, without times.
    pub(super) fn untimed(&self, current: &CurrentPlan) -> Vec<DispatchTime> {
        let time = |step: PlannedDispatch<'_>| {
            let node = &self.graph.nodes[step.node];
            let recipe = &current.planned.recipes()[step.node].list[step.dispatch.recipe];
            DispatchTime {
                operator: node.name.to_owned(),
                call: node.call,
                kernel: recipe.variant.label,
                grid: [step.dispatch.grid.x, step.dispatch.grid.y],
                bytes: recipe.binds.iter().map(|bind| self.live_bytes(current, step.node, *bind)).sum(),
                start: 0,
                end: 0,
            }
        };
        self.steps(current).map(time).collect()
    }

    fn live_bytes(&self, current: &CurrentPlan, node: usize, bind: Bind) -> u64 {
        let bytes = |tensor| self.graph.info(tensor).elem.bytes(current.planned.live().dims(tensor).count());
        match bind {
            Bind::Tensor(tensor) => bytes(tensor),
            Bind::Joined(index) => {
                let parts = current.planned.recipes()[node].joined.get(index);
                parts.into_iter().flat_map(|joined| &joined.parts).map(|part| bytes(part.tensor)).sum()
            }
            Bind::Scratch(index) => current.planned.plans()[node].scratch.get(index).copied().unwrap_or(0),
            Bind::Step => 0,
        }
    }
}
