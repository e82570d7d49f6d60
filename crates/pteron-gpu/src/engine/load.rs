//! Making a graph ready on a device.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use pteron_format::vulkan::ConstantId;

use super::Gpu;
use super::buffers::{MemoryBudget, Request, count};
use super::call::Run;
use super::fill::{Destination, Filler, Sink};
use super::filling::FillingGraph;
use super::follow::Answers;
use super::guards::{GuardList, Region};
use super::pipelines::Pipeline;
use super::precision::Precision;
use super::progress::Loading;
use super::shared_budget::{GraphClaim, SharedBudget};
use super::sizes::{Sizes, Slots, slots};
use super::state::state_bytes;
use super::upload::upload;
use super::wait::Gate;
use crate::error::{Error, Result};
use crate::graph::{Graph, Role};
use crate::half_cache::KvCache;
use crate::kernel::Variant;
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::plan::{Bind, PARAM_SLOT, Recipe};
use crate::resize::Planned;
use crate::shape::Dims;
use crate::tuning::Tuning;

/// How a graph is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Largest dims of each input, where they should be smaller than the file's.
    pub input_bounds: Vec<Option<Dims>>,
    /// The GPU memory that the graph and its states count in, with all else that shares it.
    pub memory: SharedBudget,
    /// How many calls may be under way at once; see [`LoadedGraph::start`].
    pub calls_under_way: usize,
    /// How exactly kernels compute.
    pub precision: Precision,
    /// Which of several kernels that serve the same plan are run.
    pub tuning: Tuning,
    /// How exactly attention remembers.
    pub kv_cache: KvCache,
}

/// Where a constant's bytes come from: the mapped file, external data, anything.
pub type ConstantBytes<'a> = dyn Fn(ConstantId) -> Option<Cow<'a, [u8]>> + 'a;

/// A graph ready to run.
#[derive(Debug)]
pub struct LoadedGraph {
    pub(super) gpu: Gpu,
    pub(super) graph: Graph,
    pub(super) memory: Memory,
    pub(super) fixed: Fixed,
    /// For each operator and recipe: the pipeline, where its parameter slots start, and its bind group unless it needs state.
    pub(super) ready: Vec<Vec<Ready>>,
    /// Where a state's buffers start: what to copy, or nothing for zeros.
    pub(super) initial: Vec<Option<wgpu::Buffer>>,
    pub(super) run: Mutex<Run>,
    pub(super) gate: Gate,
    pub(super) answers: Arc<Answers>,
    pub(super) bytes: u64,
    pub(super) needed: MemoryUse,
    /// What is compared after each call, where the device has guards.
    pub(super) guards: Option<Arc<GuardList>>,
    pub(super) claim: GraphClaim,
}

/// Bytes that a graph cannot do without, states apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Constants, as the device holds them; equal ones count once.
    pub constant_bytes: u64,
    /// Inputs, outputs and everything between them, as far as they live at the same time.
    pub activation_bytes: u64,
    /// The largest single buffer.
    pub largest_bytes: u64,
}

impl MemoryUse {
    /// What two graphs need that are there at the same time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            constant_bytes: self.constant_bytes + other.constant_bytes,
            activation_bytes: self.activation_bytes + other.activation_bytes,
            largest_bytes: self.largest_bytes.max(other.largest_bytes),
        }
    }
}

/// Buffers that live as long as the graph.
#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) constants: HashMap<u32, Region>,
    /// Constants that share a buffer.
    pub(super) joined: Vec<Region>,
    pub(super) inputs: Vec<Region>,
    pub(super) outputs: Vec<Option<Region>>,
    pub(super) objects: Vec<Region>,
    /// Parameters, a slot for each dispatch a plan may make.
    pub(super) arena: wgpu::Buffer,
    /// The per-step block.
    pub(super) step: Region,
    /// What a call writes, in one write, before it is copied to its places.
    pub(super) upload: wgpu::Buffer,
    /// What a call reads back.
    pub(super) readback: wgpu::Buffer,
}

/// A recipe made ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) slot: u32,
    pub(super) binds: Vec<Bound>,
    pub(super) group: Option<wgpu::BindGroup>,
}

/// What a binding is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Place(Place),
    Step,
}

/// A graph that is planned at its bounds and known to fit. Nothing of it is on the device yet.
#[derive(Debug)]
pub struct PreparedGraph {
    gpu: Gpu,
    graph: Graph,
    planned: Planned,
    memory: Memory,
    slots: Slots,
    sizes: Sizes,
    calls_under_way: usize,
    booked: u64,
    claim: GraphClaim,
}

impl PreparedGraph {
    /// Plans a graph at its bounds, and its memory. That counts from now on in [`LoadOptions::memory`], with one state; whether
    /// there is so much is [checked](SharedBudget::check) before any of it is made.
    ///
    /// # Errors
    /// What an operator refuses, a buffer that is too large for the device, or a device that fails.
    pub fn new(gpu: &Gpu, graph: Graph, options: &LoadOptions) -> Result<Self> {
        let graph = options.kv_cache.of(graph, gpu.caps())?;
        let bounds = input_bounds(&graph, options)?;
        let caps = options.tuning.of(options.precision.of(gpu.caps()));
        let planned = Planned::at_bounds(&graph, &bounds, caps)?;
        let memory = Memory::plan(&graph, &planned)?;
        let slots = slots(&planned, &memory);
        let sizes = Sizes::new(&graph, &planned, &memory, slots.total);
        let calls_under_way = options.calls_under_way;
        let mut budget = MemoryBudget::new(None);
        sizes.book(gpu, &mut budget)?;
        Answers::book(gpu, calls_under_way, &mut budget)?;
        gpu.check()?;
        let booked = budget.used();
        let claim = GraphClaim::plan(gpu, &options.memory, booked, state_bytes(&graph, &memory));
        Ok(Self { gpu: gpu.clone(), graph, planned, memory, slots, sizes, calls_under_way, booked, claim })
    }

    /// Bytes of GPU memory that it will use, states apart.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.booked
    }

    /// Bytes of GPU memory that each state will use.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(&self.graph, &self.memory)
    }

    /// Counts one more state, for a graph that is used more than once.
    pub fn expect_state(&self) {
        self.claim.expect_state(&self.gpu, self.state_bytes());
    }

    /// What of it no loader could do without.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.sizes.needed()
    }

    /// Bytes of constants that loading uploads.
    pub(super) fn constant_bytes(&self) -> u64 {
        self.sizes.constants.bytes()
    }

    /// How many pipelines it needs.
    pub(super) fn pipelines(&self) -> u64 {
        variants(&self.planned, &self.memory).len() as u64
    }

    /// Makes memory, uploads constants while pipelines compile, makes bind groups.
    ///
    /// # Errors
    /// A constant that is nowhere, no memory, or a device that fails.
    pub async fn load(self, constants: &ConstantBytes<'_>, loading: &Loading<'_>) -> Result<LoadedGraph> {
        let filling = self.make(loading, |gpu, graph, filler, budget, bytes| {
            upload(gpu, loading, bytes, |put| filler.feed_all(&mut Sink { gpu, budget, put }, graph, constants))
        });
        Ok(filling.await?.into_loaded())
    }

    /// Makes memory, compiles pipelines, makes bind groups. Constants come later, as they arrive.
    ///
    /// # Errors
    /// No memory, or a device that fails.
    pub async fn begin(self, loading: &Loading<'_>) -> Result<FillingGraph> {
        self.make(loading, |_, _, _, _, _| Ok(())).await
    }

    async fn make(
        self,
        loading: &Loading<'_>,
        fill: impl FnOnce(&Gpu, &Graph, &mut Filler, &mut MemoryBudget, u64) -> Result<()>,
    ) -> Result<FillingGraph> {
        let Self { gpu, graph, planned, memory, slots, sizes, calls_under_way, claim, .. } = self;
        claim.budget().check(&gpu)?;
        let mut budget = MemoryBudget::of(claim.budget());
        let scope = gpu.inner.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let made = gpu.compile_beside(&variants(&planned, &memory), loading, || {
            let mut filler = Filler::default();
            let fixed = make_buffers(&gpu, &graph, &sizes, &mut budget, &mut filler)?;
            for (index, &tensor) in memory.states.iter().enumerate() {
                if let Role::State(constant) = graph.role(tensor) {
                    filler.add(&graph, tensor, constant, Destination::State(index));
                }
            }
            let answers = Answers::new(&gpu, calls_under_way, &mut budget)?;
            fill(&gpu, &graph, &mut filler, &mut budget, sizes.constants.bytes())?;
            Ok((fixed, filler, answers))
        });
        // Whatever else went wrong may have gone wrong for want of memory.
        if let Some(error) = scope.pop().await {
            return Err(Error::OutOfMemory(error.to_string()));
        }
        let (fixed, filler, answers) = made?;
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let answers = Arc::new(answers);
        let ready = make_ready(&gpu, &planned, &memory, &fixed, &slots)?;
        gpu.check()?;
        let run = Mutex::new(Run::new(planned, slots.total));
        let (gate, initial) = (Gate::default(), Vec::new());
        let (bytes, needed) = (budget.used(), sizes.needed());
        let guards = gpu.has_guard_bytes().then(|| guard_list(&graph, &memory, &fixed, &ready));
        let loaded =
            LoadedGraph { gpu, graph, memory, fixed, ready, initial, run, gate, answers, bytes, needed, guards, claim };
        loaded.refresh_all();
        Ok(FillingGraph { loaded, filler, budget, waiting: 0 })
    }
}

impl LoadedGraph {
    /// Loads a graph: plans it at its bounds, makes memory, uploads constants, compiles pipelines, makes bind groups.
    /// [`PreparedGraph`] does the same in two steps, and can say how far it is.
    ///
    /// # Errors
    /// What an operator refuses, what does not fit, a constant that is nowhere, or a device that fails.
    pub async fn load(gpu: &Gpu, graph: Graph, constants: &ConstantBytes<'_>, options: &LoadOptions) -> Result<Self> {
        PreparedGraph::new(gpu, graph, options)?.load(constants, &Loading::default()).await
    }

    /// The decoded graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The device it is loaded on.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Bytes of GPU memory it uses, states apart.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// What of it no loader could do without.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.needed
    }
}

fn input_bounds(graph: &Graph, options: &LoadOptions) -> Result<Vec<Dims>> {
    let bound = |(index, &input): (usize, &TensorId)| {
        let file = graph.info(input).bound;
        match options.input_bounds.get(index).copied().flatten() {
            Some(smaller) if smaller.fits(&file) => Ok(smaller),
            Some(other) => {
                Err(Error::Input { index, reason: format!("is to be bound by {other}, but the file's bound is {file}") })
            }
            None => Ok(file),
        }
    };
    graph.inputs.iter().enumerate().map(bound).collect()
}

fn make_buffers(gpu: &Gpu, graph: &Graph, sizes: &Sizes, budget: &mut MemoryBudget, filler: &mut Filler) -> Result<Fixed> {
    let (constants, joined) = sizes.constants.make(gpu, graph, budget, filler)?;
    let mut all =
        |requests: &[Request]| requests.iter().map(|request| request.make_storage(gpu, budget)).collect::<Result<Vec<_>>>();
    let (inputs, objects) = (all(&sizes.inputs)?, all(&sizes.objects)?);
    let output = |output: &Option<Request>| output.as_ref().map(|output| output.make_storage(gpu, budget)).transpose();
    let outputs = sizes.outputs.iter().map(output);
    Ok(Fixed {
        constants,
        joined,
        inputs,
        outputs: outputs.collect::<Result<_>>()?,
        objects,
        arena: sizes.arena.make(gpu, budget)?,
        step: sizes.step.make_storage(gpu, budget)?,
        upload: sizes.upload.make(gpu, budget)?,
        readback: sizes.readback.make(gpu, budget)?,
    })
}

/// Every variant that operators may run, each once.
fn variants<'a>(planned: &'a Planned, memory: &Memory) -> Vec<&'a Variant> {
    let active = planned.recipes().iter().zip(&memory.aliased).filter(|&(_, &aliased)| !aliased);
    let all = active.flat_map(|(recipes, _)| recipes.list.iter().map(|recipe| &recipe.variant));
    let mut seen = HashSet::new();
    all.filter(|&variant| seen.insert(variant)).collect()
}

fn make_ready(gpu: &Gpu, planned: &Planned, memory: &Memory, fixed: &Fixed, slots: &Slots) -> Result<Vec<Vec<Ready>>> {
    let mut ready = Vec::with_capacity(planned.recipes().len());
    for (node, recipes) in planned.recipes().iter().enumerate() {
        let mut list = Vec::new();
        for (recipe, &slot) in recipes.list.iter().zip(&slots.bases[node]) {
            let Some(pipeline) = gpu.pipeline(&recipe.variant) else {
                return Err(Error::Device(format!("kernel {} did not compile", recipe.variant.label)));
            };
            let binds: Vec<Bound> = recipe.binds.iter().filter_map(|bind| bound(memory, node, *bind)).collect();
            check_lengths(planned, fixed, node, recipe, &binds)?;
            let mut one = Ready { pipeline, slot, binds, group: None };
            one.group = bind_group(gpu, fixed, &one, &[]);
            list.push(one);
        }
        ready.push(list);
    }
    Ok(ready)
}

fn bound(memory: &Memory, node: usize, bind: Bind) -> Option<Bound> {
    Some(match bind {
        Bind::Tensor(tensor) => Bound::Place(memory.tensors[tensor.index()]?),
        Bind::Scratch(index) => Bound::Place(*memory.scratch[node].get(index)?),
        Bind::Joined(index) => Bound::Place(*memory.joined[node].get(index)?),
        Bind::Step => Bound::Step,
    })
}

/// Plans were checked with lengths that followed from bounds: the buffers are that long. States are made later, from bounds alone.
fn check_lengths(planned: &Planned, fixed: &Fixed, node: usize, recipe: &Recipe, binds: &[Bound]) -> Result<()> {
    let lengths = planned.lengths(node);
    for (bind, bound) in recipe.binds.iter().zip(binds) {
        let (needed, found) = (lengths.length(*bind), region(fixed, *bound, &[]).map(|region| region.len));
        if let Some(found) = found.filter(|found| *found < needed) {
            let what = format!("{bind:?} of kernel {} has {found} bytes, planned were {needed}", recipe.variant.label);
            return Err(Error::Device(what));
        }
    }
    Ok(())
}

/// The buffer of a binding, if it is there.
fn region<'a>(fixed: &'a Fixed, bound: Bound, states: &'a [Region]) -> Option<&'a Region> {
    match bound {
        Bound::Step => Some(&fixed.step),
        Bound::Place(Place::Constant(constant)) => fixed.constants.get(&constant),
        Bound::Place(Place::Joined(index)) => fixed.joined.get(index),
        Bound::Place(Place::Input(index)) => fixed.inputs.get(index),
        Bound::Place(Place::Output(index)) => fixed.outputs.get(index)?.as_ref(),
        Bound::Place(Place::Object(index)) => fixed.objects.get(index),
        Bound::Place(Place::State(index)) => states.get(index),
    }
}

/// The guarded buffers of a graph and who uses them.
fn guard_list(graph: &Graph, memory: &Memory, fixed: &Fixed, ready: &[Vec<Ready>]) -> Arc<GuardList> {
    let mut uses = Vec::new();
    for (node, recipes) in graph.nodes.iter().zip(ready) {
        for (index, bound, recipe) in recipes.iter().flat_map(|one| (0..).zip(&one.binds).map(move |(i, b)| (i, b, one))) {
            if let Bound::Place(place) = *bound {
                uses.push((format!("{} (call {})", node.name, node.call), place, recipe.pipeline.writes(index)));
            }
        }
    }
    #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
    Arc::new(GuardList::new(fixed, memory.states.len(), &uses))
}

/// The bind group of a recipe; `None` if it binds state and `states` has none.
pub(super) fn bind_group(gpu: &Gpu, fixed: &Fixed, ready: &Ready, states: &[Region]) -> Option<wgpu::BindGroup> {
    let most = gpu.inner.summary.limits.max_storage_buffer_binding_size;
    count(&gpu.inner.counters.bind_groups, 1);
    bind_group_of(gpu, fixed, ready, states, |_, region| region.binding(ready.pipeline.checked, most))
}

/// The same, with what of each region is bound.
pub(super) fn bind_group_of<'a>(
    gpu: &Gpu,
    fixed: &'a Fixed,
    ready: &Ready,
    states: &'a [Region],
    part: impl Fn(usize, &'a Region) -> wgpu::BindingResource<'a>,
) -> Option<wgpu::BindGroup> {
    let params = wgpu::BufferBinding { buffer: &fixed.arena, offset: 0, size: wgpu::BufferSize::new(PARAM_SLOT as u64) };
    let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) }];
    for (index, (binding, bound)) in (1u32..).zip(&ready.binds).enumerate() {
        let resource = part(index, region(fixed, *bound, states)?);
        entries.push(wgpu::BindGroupEntry { binding, resource });
    }
    let layout = &ready.pipeline.layout;
    Some(gpu.inner.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries }))
}
