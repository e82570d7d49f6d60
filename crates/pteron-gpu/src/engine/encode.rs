//! Encoding of a call between its writes and its readback: the dispatches of the current plans, timed or not.

use super::binding::CompiledRecipe;
#[cfg(test)]
use super::binding::bind_group_of;
use super::buffers::count;
use super::call::CurrentPlan;
use super::grouped::Lanes;
#[cfg(test)]
use super::guards::Region;
use super::load::LoadedGraph;
use super::profile::{DispatchTime, TimestampRecorder, Timing};
use super::state::State;
use crate::plan::{Bind, Dispatch, PARAM_SLOT};

const PARAM_SLOT_U32: u32 = 256;
const _: () = assert!(PARAM_SLOT_U32 as usize == PARAM_SLOT, "a dynamic offset counts slots");

/// Calls with fewer dispatches than these are submitted whole, even if the GPU is idle.
const LONG_CALL: usize = 64;
/// Dispatches of a long call that an idle GPU starts with while the others are encoded.
const FIRST_DISPATCHES: usize = 32;
/// The most passes of a call.
pub(super) const MAX_PASSES: usize = 8;

/// The part of a call that is yet to be submitted.
pub(super) struct Remaining {
    pub(super) encoder: wgpu::CommandEncoder,
    /// The number of dispatches that have been submitted, and of their passes.
    pub(super) submitted: usize,
    pub(super) passes: usize,
}

/// A dispatch of the current plans, with its resources on the device.
pub(super) struct PlannedDispatch<'a> {
    pub(super) node: usize,
    pub(super) dispatch: &'a Dispatch,
    pub(super) compiled: &'a CompiledRecipe,
    /// The slot of its parameters in the arena.
    slot: u32,
    /// Its reach, where no more is to be bound.
    #[cfg(test)]
    reached: Option<crate::kernel::reach::Reached>,
}

impl LoadedGraph {
    /// Every dispatch, in order. Operators that became aliases have none.
    pub(super) fn steps<'a>(&'a self, current: &'a CurrentPlan) -> impl Iterator<Item = PlannedDispatch<'a>> + 'a {
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

    pub(super) fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>, state: &State, step: &PlannedDispatch<'_>) {
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

    /// Encodes the dispatches of the planned call but the first `skipped`.
    pub(super) fn dispatch_rest(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        current: &CurrentPlan,
        state: &State,
        skipped: usize,
    ) {
        for step in self.steps(current).skip(skipped) {
            self.dispatch(pass, state, &step);
        }
    }

    /// Submits the first dispatches of a long call on an idle GPU: it runs them while the others are encoded, which takes the host a few
    /// microseconds each. Each submission has twice the dispatches of the one before, so that the GPU is not idle again. `times` are
    /// the timestamps of each pass. Adapters that compute on the host gain nothing by it.
    pub(super) fn submit_first<'t>(
        &self,
        encoder: wgpu::CommandEncoder,
        current: &CurrentPlan,
        state: &State,
        times: impl Fn(usize) -> Option<wgpu::ComputePassTimestampWrites<'t>>,
    ) -> Remaining {
        #[cfg(test)]
        if let Some(emulation) = self.gpu.emulation() {
            return self.submit_emulated(encoder, current, state, emulation);
        }
        let mut rest = Remaining { encoder, submitted: 0, passes: 0 };
        let dispatches = self.steps(current).count();
        if self.gpu.caps().software || dispatches < LONG_CALL {
            return rest;
        }
        self.write_upload(current, &mut Lanes::default());
        let mut count = FIRST_DISPATCHES;
        while rest.submitted + 2 * count < dispatches && rest.passes + 1 < MAX_PASSES {
            let next = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut encoder = std::mem::replace(&mut rest.encoder, next);
            let mut pass = self.begin(&mut encoder, times(rest.passes));
            for step in self.steps(current).skip(rest.submitted).take(count) {
                self.dispatch(&mut pass, state, &step);
            }
            drop(pass);
            self.submit(encoder);
            rest.submitted += count;
            rest.passes += 1;
            count *= 2;
        }
        rest
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

#[cfg(test)]
mod tests {
    use crate::engine::{LoadOptions, TensorData, block_on};
    use crate::ir::DataType;
    use crate::plan::Caps;
    use crate::testing::{GraphBuilder, dims, gpu};

    /// A GPU that is idle starts with a part of a long call; outputs and the number of dispatches are those of a call that is
    /// submitted whole, and the time of every pass counts.
    #[test]
    fn long_calls_on_an_idle_gpu_are_submitted_in_parts() {
        let mut builder = GraphBuilder::new();
        let mut last = builder.input(DataType::Float32, &[5, 3]);
        for _ in 0..200 {
            let next = builder.tensor(DataType::Float32, &[5, 3]);
            builder.call("aten.sigmoid.default", &[last, next]);
            last = next;
        }
        builder.output(last);
        let options = LoadOptions { max_in_flight: 3, ..LoadOptions::default() };
        let inputs = [TensorData::f32(dims(&[2, 3]), &[0.5; 6]).into()];
        let whole = builder.load(&options).unwrap();
        let expected = block_on(whole.call(&mut whole.new_state().unwrap(), &inputs)).unwrap();
        let other = gpu().with_caps(Caps { software: false, ..gpu().caps() });
        let loaded = builder.load_on(&other, &options).unwrap();
        let mut state = loaded.new_state().unwrap();
        let counted = |before: crate::engine::Counts| {
            let now = other.counts();
            (now.submits - before.submits, now.passes - before.passes, now.dispatches - before.dispatches)
        };
        // 32, 64, and the 104 that are left.
        let before = other.counts();
        assert_eq!(block_on(loaded.call(&mut state, &inputs)).unwrap(), expected);
        assert_eq!(counted(before), (3, 3, 200));
        let before = other.counts();
        let first = loaded.start(&mut state, &inputs, 0).unwrap();
        assert_eq!(counted(before), (3, 3, 200));
        let before = other.counts();
        let second = loaded.start(&mut state, &inputs, 0).unwrap();
        assert_eq!(counted(before), (1, 1, 200), "the GPU is busy with the first call");
        for call in [first, second] {
            let readback = block_on(call.wait()).unwrap();
            assert_eq!(readback.output, expected[0]);
            assert!(readback.gpu_seconds.is_none_or(|seconds| seconds > 0.0 && seconds < 60.0), "{readback:?}");
        }
    }
}
