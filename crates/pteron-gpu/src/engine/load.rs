//! Making a graph ready on a device.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::Gpu;
use super::buffer_plan::{BufferPlan, ParamSlots, slots};
use super::buffers::{BufferRequest, MemoryBudget, count};
use super::call::CurrentPlan;
use super::constant_writer::{ConstantWriter, Destination, UploadSink};
use super::guards::{GuardList, Region};
use super::pipelined::ReadbackSlots;
use super::pipelines::Pipeline;
use super::precision::Precision;
use super::progress::ProgressCounter;
use super::shared_budget::{GraphReservation, SharedBudget};
use super::state::state_bytes;
use super::streaming::StreamingGraph;
use super::upload::upload;
use super::wait::AsyncLock;
use crate::error::{Error, Result};
use crate::graph::{Graph, Role};
use crate::ir::ConstantId;
use crate::kernel::Variant;
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::narrow_state::StateDtype;
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
    pub max_in_flight: usize,
    /// How exactly kernels compute.
    pub precision: Precision,
    /// Which of several kernels that serve the same plan are run.
    pub tuning: Tuning,
    /// How exactly attention remembers.
    pub state_dtype: StateDtype,
}

/// Where a constant's bytes come from: the mapped file, external data, anything.
pub type ConstantBytes<'a> = dyn Fn(ConstantId) -> Option<Cow<'a, [u8]>> + 'a;

/// A graph ready to run.
#[derive(Debug)]
pub struct LoadedGraph {
    pub(super) gpu: Gpu,
    pub(super) graph: Graph,
    pub(super) memory: Memory,
    pub(super) buffers: GraphBuffers,
    /// For each operator and recipe: the pipeline, where its parameter slots start, and its bind group unless it needs state.
    pub(super) compiled: Vec<Vec<CompiledRecipe>>,
    /// Where a state's buffers start: what to copy, or nothing for zeros.
    pub(super) initial: Vec<Option<wgpu::Buffer>>,
    pub(super) current: Mutex<CurrentPlan>,
    pub(super) call_lock: AsyncLock,
    pub(super) readbacks: Arc<ReadbackSlots>,
    pub(super) bytes: u64,
    pub(super) needed: MemoryUse,
    /// What is compared after each call, where the device has guards.
    pub(super) guards: Option<Arc<GuardList>>,
    pub(super) reservation: GraphReservation,
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
pub(super) struct GraphBuffers {
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
pub(super) struct CompiledRecipe {
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
    slots: ParamSlots,
    buffer_plan: BufferPlan,
    max_in_flight: usize,
    reserved: u64,
    reservation: GraphReservation,
}

impl PreparedGraph {
    /// Plans a graph at its bounds, and its memory. That counts from now on in [`LoadOptions::memory`], with one state; whether
    /// there is so much is [checked](SharedBudget::check) before any of it is made.
    ///
    /// # Errors
    /// What an operator refuses, a buffer that is too large for the device, or a device that fails.
    pub fn new(gpu: &Gpu, graph: Graph, options: &LoadOptions) -> Result<Self> {
        let graph = options.state_dtype.of(graph, gpu.caps())?;
        let bounds = input_bounds(&graph, options)?;
        let caps = options.tuning.of(options.precision.of(gpu.caps()));
        let planned = Planned::at_bounds(&graph, &bounds, caps)?;
        let memory = Memory::plan(&graph, &planned)?;
        let slots = slots(&planned, &memory);
        let buffer_plan = BufferPlan::new(&graph, &planned, &memory, slots.total);
        let max_in_flight = options.max_in_flight;
        let mut budget = MemoryBudget::new(None);
        buffer_plan.reserve(gpu, &mut budget)?;
        ReadbackSlots::reserve(gpu, max_in_flight, &mut budget)?;
        gpu.check()?;
        let reserved = budget.used();
        let reservation = GraphReservation::plan(gpu, &options.memory, reserved, state_bytes(&graph, &memory));
        Ok(Self { gpu: gpu.clone(), graph, planned, memory, slots, buffer_plan, max_in_flight, reserved, reservation })
    }

    /// Bytes of GPU memory that it will use, states apart.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.reserved
    }

    /// Bytes of GPU memory that each state will use.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(&self.graph, &self.memory)
    }

    /// Counts one more state, for a graph that is used more than once.
    pub fn expect_state(&self) {
        self.reservation.expect_state(&self.gpu, self.state_bytes());
    }

    /// What of it no loader could do without.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.buffer_plan.needed()
    }

    /// Bytes of constants that loading uploads.
    pub(super) fn constant_bytes(&self) -> u64 {
        self.buffer_plan.constants.bytes()
    }

    /// How many pipelines it needs.
    pub(super) fn pipelines(&self) -> u64 {
        variants(&self.planned, &self.memory).len() as u64
    }

    /// Makes memory, uploads constants while pipelines compile, makes bind groups.
    ///
    /// # Errors
    /// A constant that is nowhere, no memory, or a device that fails.
    pub async fn load(self, constants: &ConstantBytes<'_>, loading: &ProgressCounter<'_>) -> Result<LoadedGraph> {
        let filling = self.make(loading, |gpu, graph, writer, budget, bytes| {
            upload(gpu, loading, bytes, |put| writer.feed_all(&mut UploadSink { gpu, budget, put }, graph, constants))
        });
        Ok(filling.await?.into_loaded())
    }

    /// Makes memory, compiles pipelines, makes bind groups. Constants come later, as they arrive.
    ///
    /// # Errors
    /// No memory, or a device that fails.
    pub async fn load_streaming(self, loading: &ProgressCounter<'_>) -> Result<StreamingGraph> {
        self.make(loading, |_, _, _, _, _| Ok(())).await
    }

    async fn make(
        self,
        loading: &ProgressCounter<'_>,
        fill: impl FnOnce(&Gpu, &Graph, &mut ConstantWriter, &mut MemoryBudget, u64) -> Result<()>,
    ) -> Result<StreamingGraph> {
        let Self { gpu, graph, planned, memory, slots, buffer_plan, max_in_flight, reservation, .. } = self;
        reservation.budget().check(&gpu)?;
        let mut budget = MemoryBudget::of(reservation.budget());
        let scope = gpu.inner.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let made = gpu.compile_beside(&variants(&planned, &memory), loading, || {
            let mut writer = ConstantWriter::default();
            let buffers = make_buffers(&gpu, &graph, &buffer_plan, &mut budget, &mut writer)?;
            for (index, &tensor) in memory.states.iter().enumerate() {
                if let Role::State(constant) = graph.role(tensor) {
                    writer.add(&graph, tensor, constant, Destination::State(index));
                }
            }
            let readbacks = ReadbackSlots::new(&gpu, max_in_flight, &mut budget)?;
            fill(&gpu, &graph, &mut writer, &mut budget, buffer_plan.constants.bytes())?;
            Ok((buffers, writer, readbacks))
        });
        // Whatever else went wrong may have gone wrong for want of memory.
        if let Some(error) = scope.pop().await {
            return Err(Error::OutOfMemory(error.to_string()));
        }
        let (buffers, writer, readbacks) = made?;
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let readbacks = Arc::new(readbacks);
        let compiled = make_ready(&gpu, &planned, &memory, &buffers, &slots)?;
        gpu.check()?;
        let current = Mutex::new(CurrentPlan::new(planned, slots.total));
        let (call_lock, initial) = (AsyncLock::default(), Vec::new());
        let (bytes, needed) = (budget.used(), buffer_plan.needed());
        let guards = gpu.has_guard_bytes().then(|| guard_list(&graph, &memory, &buffers, &compiled));
        let loaded = LoadedGraph {
            gpu,
            graph,
            memory,
            buffers,
            compiled,
            initial,
            current,
            call_lock,
            readbacks,
            bytes,
            needed,
            guards,
            reservation,
        };
        loaded.refresh_all();
        Ok(StreamingGraph { loaded, writer, budget, waiting: 0 })
    }
}

impl LoadedGraph {
    /// Loads a graph: plans it at its bounds, makes memory, uploads constants, compiles pipelines, makes bind groups.
    /// [`PreparedGraph`] does the same in two steps, and can say how far it is.
    ///
    /// # Errors
    /// What an operator refuses, what does not fit, a constant that is nowhere, or a device that fails.
    pub async fn load(gpu: &Gpu, graph: Graph, constants: &ConstantBytes<'_>, options: &LoadOptions) -> Result<Self> {
        PreparedGraph::new(gpu, graph, options)?.load(constants, &ProgressCounter::default()).await
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

fn make_buffers(
    gpu: &Gpu,
    graph: &Graph,
    buffer_plan: &BufferPlan,
    budget: &mut MemoryBudget,
    writer: &mut ConstantWriter,
) -> Result<GraphBuffers> {
    let (constants, joined) = buffer_plan.constants.make(gpu, graph, budget, writer)?;
    let mut all = |requests: &[BufferRequest]| {
        requests.iter().map(|request| request.make_storage(gpu, budget)).collect::<Result<Vec<_>>>()
    };
    let (inputs, objects) = (all(&buffer_plan.inputs)?, all(&buffer_plan.objects)?);
    let output = |output: &Option<BufferRequest>| output.as_ref().map(|output| output.make_storage(gpu, budget)).transpose();
    let outputs = buffer_plan.outputs.iter().map(output);
    Ok(GraphBuffers {
        constants,
        joined,
        inputs,
        outputs: outputs.collect::<Result<_>>()?,
        objects,
        arena: buffer_plan.arena.make(gpu, budget)?,
        step: buffer_plan.step.make_storage(gpu, budget)?,
        upload: buffer_plan.upload.make(gpu, budget)?,
        readback: buffer_plan.readback.make(gpu, budget)?,
    })
}

/// Every variant that operators may run, each once.
fn variants<'a>(planned: &'a Planned, memory: &Memory) -> Vec<&'a Variant> {
    let active = planned.recipes().iter().zip(&memory.aliased).filter(|&(_, &aliased)| !aliased);
    let all = active.flat_map(|(recipes, _)| recipes.list.iter().map(|recipe| &recipe.variant));
    let mut seen = HashSet::new();
    all.filter(|&variant| seen.insert(variant)).collect()
}

fn make_ready(
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
            one.group = bind_group(gpu, buffers, &one, &[]);
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

/// Plans were checked with lengths that followed from bounds: the buffers are that long. States are made later, from bounds alone.
fn check_lengths(planned: &Planned, buffers: &GraphBuffers, node: usize, recipe: &Recipe, binds: &[Bound]) -> Result<()> {
    let lengths = planned.lengths(node);
    for (bind, bound) in recipe.binds.iter().zip(binds) {
        let (needed, found) = (lengths.length(*bind), region(buffers, *bound, &[]).map(|region| region.len));
        if let Some(found) = found.filter(|found| *found < needed) {
            let what = format!("{bind:?} of kernel {} has {found} bytes, planned were {needed}", recipe.variant.label);
            return Err(Error::Device(what));
        }
    }
    Ok(())
}

/// The buffer of a binding, if it is there.
fn region<'a>(buffers: &'a GraphBuffers, bound: Bound, states: &'a [Region]) -> Option<&'a Region> {
    match bound {
        Bound::Step => Some(&buffers.step),
        Bound::Place(Place::Constant(constant)) => buffers.constants.get(&constant),
        Bound::Place(Place::Joined(index)) => buffers.joined.get(index),
        Bound::Place(Place::Input(index)) => buffers.inputs.get(index),
        Bound::Place(Place::Output(index)) => buffers.outputs.get(index)?.as_ref(),
        Bound::Place(Place::Object(index)) => buffers.objects.get(index),
        Bound::Place(Place::State(index)) => states.get(index),
    }
}

/// The guarded buffers of a graph and who uses them.
fn guard_list(graph: &Graph, memory: &Memory, buffers: &GraphBuffers, compiled: &[Vec<CompiledRecipe>]) -> Arc<GuardList> {
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

/// The bind group of a recipe; `None` if it binds state and `states` has none.
pub(super) fn bind_group(
    gpu: &Gpu,
    buffers: &GraphBuffers,
    compiled: &CompiledRecipe,
    states: &[Region],
) -> Option<wgpu::BindGroup> {
    let most = gpu.inner.summary.limits.max_storage_buffer_binding_size;
    count(&gpu.inner.counters.bind_groups, 1);
    bind_group_of(gpu, buffers, compiled, states, |_, region| region.binding(compiled.pipeline.checked, most))
}

/// The same, with what of each region is bound.
pub(super) fn bind_group_of<'a>(
    gpu: &Gpu,
    buffers: &'a GraphBuffers,
    compiled: &CompiledRecipe,
    states: &'a [Region],
    part: impl Fn(usize, &'a Region) -> wgpu::BindingResource<'a>,
) -> Option<wgpu::BindGroup> {
    let params = wgpu::BufferBinding { buffer: &buffers.arena, offset: 0, size: wgpu::BufferSize::new(PARAM_SLOT as u64) };
    let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) }];
    for (index, (binding, bound)) in (1u32..).zip(&compiled.binds).enumerate() {
        let resource = part(index, region(buffers, *bound, states)?);
        entries.push(wgpu::BindGroupEntry { binding, resource });
    }
    let layout = &compiled.pipeline.layout;
    Some(gpu.inner.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries }))
}
