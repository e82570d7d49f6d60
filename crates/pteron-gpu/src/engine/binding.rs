//! Which buffer each binding of a recipe is bound to.

use std::collections::HashMap;
use std::sync::Arc;

use super::Gpu;
use super::buffer_plan::ParamSlots;
use super::buffers::count;
use super::guards::{GuardList, Region};
use super::input_staging::InputStaging;
use super::pipelines::Pipeline;
use super::state::StateBuffers;
use crate::error::{Error, Result};
use crate::graph::DecodedGraph;
use crate::memory::{Memory, Place};
use crate::plan::{Bind, PARAM_SLOT, Recipe};
use crate::resize::Planned;

/// Buffers that live as long as the graph.
#[derive(Debug)]
pub(super) struct GraphBuffers {
    pub(super) constants: HashMap<u32, Region>,
    /// Constants that share a buffer.
    pub(super) joined: Vec<Region>,
    /// Inputs by index; those that outputs are fed back into belong to the state.
    pub(super) inputs: Vec<Option<Region>>,
    /// Outputs by index, except for those that alias another buffer.
    pub(super) outputs: Vec<Option<Region>>,
    pub(super) objects: Vec<Region>,
    /// Parameters, one slot per dispatch that a plan may make.
    pub(super) arena: wgpu::Buffer,
    /// The per-step block.
    pub(super) step: Region,
    /// A call's one upload, before it is copied to the buffers it belongs to.
    pub(super) upload: wgpu::Buffer,
    /// Large inputs of a call, where there are any.
    pub(super) input_staging: Option<InputStaging>,
    /// Outputs of a call, for the host.
    pub(super) readback: wgpu::Buffer,
}

/// A recipe with its pipeline and buffers.
#[derive(Debug)]
pub(super) struct CompiledRecipe {
    pub(super) pipeline: Arc<Pipeline>,
    /// Its first parameter slot.
    pub(super) slot: u32,
    pub(super) binds: Vec<Bound>,
    /// Its bind group, unless it binds buffers of a state.
    pub(super) group: Option<wgpu::BindGroup>,
}

/// The buffer or buffer range that a binding refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Place(Place),
    Step,
}

impl GraphBuffers {
    /// Resolves a binding to its buffer; `None` for a buffer of a state when no state is given.
    pub(super) fn region<'a>(&'a self, bound: Bound, state: Option<&'a StateBuffers>) -> Option<&'a Region> {
        match bound {
            Bound::Step => Some(&self.step),
            Bound::Place(Place::Constant(constant)) => self.constants.get(&constant),
            Bound::Place(Place::Joined(index)) => self.joined.get(index),
            Bound::Place(Place::Input(index)) => self.input(index, state),
            Bound::Place(Place::Output(index)) => self.outputs.get(index)?.as_ref(),
            Bound::Place(Place::Object(index)) => self.objects.get(index),
            Bound::Place(Place::State(index)) => state?.tensors.get(index),
        }
    }

    /// The buffer of an input.
    pub(super) fn input<'a>(&'a self, index: usize, state: Option<&'a StateBuffers>) -> Option<&'a Region> {
        self.inputs.get(index)?.as_ref().or_else(|| state?.inputs.get(&index))
    }
}

/// Looks up pipeline, parameter slots and buffers of every recipe, and creates the bind groups that need no state.
pub(super) fn bind_recipes(
    gpu: &Gpu,
    planned: &Planned,
    memory: &Memory,
    buffers: &GraphBuffers,
    slots: &ParamSlots,
) -> Result<Vec<Vec<CompiledRecipe>>> {
    let mut compiled = Vec::with_capacity(planned.recipes().len());
    for (node, recipes) in planned.recipes().iter().enumerate() {
        let mut list = Vec::new();
        for (recipe, &slot) in recipes.list.iter().zip(&slots.bases[node]) {
            let Some(pipeline) = gpu.pipeline(&recipe.variant) else {
                return Err(Error::Device(format!("kernel {} did not compile", recipe.variant.label)));
            };
            let binds: Vec<Bound> = recipe.binds.iter().filter_map(|bind| bound(memory, node, *bind)).collect();
            check_lengths(planned, buffers, node, recipe, &binds)?;
            let mut one = CompiledRecipe { pipeline, slot, binds, group: None };
            one.group = bind_group(gpu, buffers, &one, None);
            list.push(one);
        }
        compiled.push(list);
    }
    Ok(compiled)
}

fn bound(memory: &Memory, node: usize, bind: Bind) -> Option<Bound> {
    Some(match bind {
        Bind::Tensor(tensor) => Bound::Place(memory.tensors[tensor.index()]?),
        Bind::Scratch(index) => Bound::Place(*memory.scratch[node].get(index)?),
        Bind::Joined(index) => Bound::Place(*memory.joined[node].get(index)?),
        Bind::Step => Bound::Step,
    })
}

/// Checks that buffers are as long as the plans assumed. Buffers of a state are created later, from the same bounds.
fn check_lengths(planned: &Planned, buffers: &GraphBuffers, node: usize, recipe: &Recipe, binds: &[Bound]) -> Result<()> {
    let lengths = planned.lengths(node);
    for (bind, bound) in recipe.binds.iter().zip(binds) {
        let (needed, found) = (lengths.length(*bind), buffers.region(*bound, None).map(|region| region.len));
        if let Some(found) = found.filter(|found| *found < needed) {
            let what = format!("{bind:?} of kernel {} has {found} bytes, planned were {needed}", recipe.variant.label);
            return Err(Error::Device(what));
        }
    }
    Ok(())
}

/// Lists the guarded buffers of a graph and the operators that use them.
pub(super) fn guard_list(
    graph: &DecodedGraph,
    memory: &Memory,
    buffers: &GraphBuffers,
    compiled: &[Vec<CompiledRecipe>],
) -> Arc<GuardList> {
    let mut uses = Vec::new();
    for (node, recipes) in graph.nodes.iter().zip(compiled) {
        for (index, bound, recipe) in recipes.iter().flat_map(|one| (0..).zip(&one.binds).map(move |(i, b)| (i, b, one))) {
            if let Bound::Place(place) = *bound {
                uses.push((format!("{} (call {})", node.name, node.call), place, recipe.pipeline.writes(index)));
            }
        }
    }
    #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
    Arc::new(GuardList::new(buffers, memory.states.len(), &uses))
}

/// Creates the bind group of a recipe; `None` if it binds buffers of a state and none is given.
pub(super) fn bind_group(
    gpu: &Gpu,
    buffers: &GraphBuffers,
    compiled: &CompiledRecipe,
    state: Option<&StateBuffers>,
) -> Option<wgpu::BindGroup> {
    let most = gpu.inner.summary.limits.max_storage_buffer_binding_size;
    let group = bind_group_of(gpu, buffers, compiled, state, |_, region| region.binding(compiled.pipeline.checked, most))?;
    count(&gpu.inner.counters.bind_groups, 1);
    Some(group)
}

/// Creates a bind group in which `part` selects the bound range of each buffer.
pub(super) fn bind_group_of<'a>(
    gpu: &Gpu,
    buffers: &'a GraphBuffers,
    compiled: &CompiledRecipe,
    state: Option<&'a StateBuffers>,
    part: impl Fn(usize, &'a Region) -> wgpu::BindingResource<'a>,
) -> Option<wgpu::BindGroup> {
    let params = wgpu::BufferBinding { buffer: &buffers.arena, offset: 0, size: wgpu::BufferSize::new(PARAM_SLOT as u64) };
    let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) }];
    for (index, (binding, bound)) in (1u32..).zip(&compiled.binds).enumerate() {
        let resource = part(index, buffers.region(*bound, state)?);
        entries.push(wgpu::BindGroupEntry { binding, resource });
    }
    let layout = &compiled.pipeline.layout;
    Some(gpu.inner.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries }))
}
