//! Loading of a graph on a device.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::Gpu;
use super::binding::{CompiledRecipe, GraphBuffers, bind_recipes, guard_list};
use super::buffer_plan::{BufferPlan, ParamSlots, slots};
use super::buffers::{BufferRequest, MemoryBudget};
use super::call::CurrentPlan;
use super::constant_writer::{ConstantWriter, Destination, FeedFn, UploadSink};
use super::feedback::{Feedback, FeedbackEdge};
use super::grouped::{GroupPlan, Handoff};
use super::guards::GuardList;
use super::input_staging::InputStaging;
use super::pipelined::ReadbackSlots;
use super::precision::Precision;
use super::progress::ProgressCounter;
use super::shared_budget::{GraphReservation, SharedBudget};
use super::state::{largest_state_bytes, state_bytes};
use super::streaming::StreamingGraph;
use super::upload::upload;
use super::uploaded_inputs::UploadedInputs;
use super::wait::AsyncLock;
use crate::batch;
use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, Role};
use crate::ir::ConstantId;
use crate::kernel::Variant;
use crate::live::TensorId;
use crate::memory::Memory;
use crate::narrow_state::StateDtype;
use crate::plan::Caps;
use crate::resize::Planned;
use crate::shape::Dims;
use crate::tuning::Tuning;

/// Options for loading a graph.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Largest dims of each input, where they should be smaller than the file's.
    pub input_bounds: Vec<Option<Dims>>,
    /// The GPU memory budget that the graph and its states count towards, shared with everything else in it.
    pub memory: SharedBudget,
    /// How many calls may be in flight at once; see [`LoadedGraph::start`].
    pub max_in_flight: usize,
    /// Outputs that each call feeds back into inputs of the next call on the same state.
    pub feedback: Vec<Feedback>,
    /// The precision of kernels.
    pub precision: Precision,
    /// Which of several kernels for the same plan run.
    pub tuning: Tuning,
    /// The element type of mutable tensors.
    pub state_dtype: StateDtype,
}

/// Returns the bytes of a constant, from the mapped file, external data or elsewhere.
pub type ConstantBytes<'a> = dyn Fn(ConstantId) -> Option<Cow<'a, [u8]>> + Sync + 'a;

/// A graph ready to run.
#[derive(Debug)]
pub struct LoadedGraph {
    pub(super) gpu: Gpu,
    pub(super) graph: DecodedGraph,
    pub(super) memory: Memory,
    pub(super) buffers: GraphBuffers,
    /// For each operator and recipe: the pipeline, where its parameter slots start, and its bind group unless it needs state.
    pub(super) compiled: Vec<Vec<CompiledRecipe>>,
    /// Initial values of a state's tensors; `None` for zeros.
    pub(super) initial: Vec<Option<wgpu::Buffer>>,
    pub(super) current: Mutex<CurrentPlan>,
    pub(super) call_lock: AsyncLock,
    pub(super) readbacks: Arc<ReadbackSlots>,
    /// The kernel between calls of a group, where calls can form groups.
    pub(super) handoff: Option<Handoff>,
    pub(super) bytes: u64,
    pub(super) needed: MemoryUse,
    /// The guards compared after each call, where the device has guards.
    pub(super) guards: Option<Arc<GuardList>>,
    pub(super) reservation: GraphReservation,
    pub(super) feedback: Vec<FeedbackEdge>,
    /// The most rows of a batch that run at a time, where a whole batch is too large for the device.
    pub(super) slice_rows: Option<u32>,
    /// Distinguishes this graph's states from those of others.
    pub(super) identity: Arc<()>,
}

/// Bytes that any loader of the graph would need, without states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Constants, in their form on the device; equal ones count once.
    pub constant_bytes: u64,
    /// Inputs, outputs and all intermediates, as far as they are live at the same time.
    pub activation_bytes: u64,
    /// The largest single buffer.
    pub largest_bytes: u64,
}

impl MemoryUse {
    /// The memory of two graphs that are loaded at the same time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            constant_bytes: self.constant_bytes + other.constant_bytes,
            activation_bytes: self.activation_bytes + other.activation_bytes,
            largest_bytes: self.largest_bytes.max(other.largest_bytes),
        }
    }
}

/// A graph that is planned at its bounds and known to fit. Nothing is on the device yet.
#[derive(Debug)]
pub struct PreparedGraph {
    gpu: Gpu,
    graph: DecodedGraph,
    planned: Planned,
    memory: Memory,
    slots: ParamSlots,
    buffer_plan: BufferPlan,
    max_in_flight: usize,
    feedback: Vec<FeedbackEdge>,
    slice_rows: Option<u32>,
    reserved: u64,
    reservation: GraphReservation,
}

impl PreparedGraph {
    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &DecodedGraph {
        &self.graph
    }

    /// Plans a graph and its memory at its bounds. The memory counts in [`LoadOptions::memory`] from now on, with one state;
    /// the budget is [checked](SharedBudget::check) before anything is allocated.
    ///
    /// # Errors
    /// An argument that an operator rejects, a buffer that is too large for the device, or a device that fails.
    pub fn new(gpu: &Gpu, graph: DecodedGraph, options: &LoadOptions) -> Result<Self> {
        let state_dtype = options.state_dtype.resolve(options.precision == Precision::Fast, gpu.caps());
        let graph = state_dtype.of(graph, gpu.caps())?;
        let bounds = input_bounds(&graph, options)?;
        let caps = options.tuning.of(options.precision.of(gpu.caps()));
        let (planned, slice_rows) = batch::plan(&graph, &bounds, caps, most_tensor_bytes(gpu, caps))?;
        let memory = Memory::plan(&graph, &planned)?;
        let feedback = FeedbackEdge::resolve(&graph, &planned, &memory, &options.feedback)?;
        let slots = slots(&planned, &memory);
        let max_in_flight = options.max_in_flight;
        let group = GroupPlan::new(&graph, &planned, &memory, &feedback, max_in_flight);
        let buffer_plan = BufferPlan::new(&graph, &planned, &memory, slots.total, &feedback, group);
        let mut budget = MemoryBudget::new(None);
        buffer_plan.reserve(gpu, &mut budget)?;
        ReadbackSlots::reserve(gpu, max_in_flight, &mut budget)?;
        gpu.check()?;
        let reserved = budget.used();
        let state_bytes = state_bytes(&graph, &memory, &feedback);
        let reservation = GraphReservation::plan(gpu, &options.memory, reserved, state_bytes);
        let gpu = gpu.clone();
        Ok(Self {
            gpu,
            graph,
            planned,
            memory,
            slots,
            buffer_plan,
            max_in_flight,
            feedback,
            slice_rows,
            reserved,
            reservation,
        })
    }

    /// Bytes of GPU memory that it will use, without states.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.reserved
    }

    /// Bytes of GPU memory that each state will use.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(&self.graph, &self.memory, &self.feedback)
    }

    /// Bytes of the largest of a state's tensors.
    #[must_use]
    pub fn largest_state_bytes(&self) -> u64 {
        largest_state_bytes(&self.graph, &self.memory)
    }

    /// Reserves one more state, for a graph that is used more than once.
    pub fn expect_state(&self) {
        self.reservation.expect_state(&self.gpu, self.state_bytes());
    }

    /// The part of its memory that any loader would need.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.buffer_plan.needed()
    }

    /// Bytes of constants that loading uploads.
    pub(super) fn constant_bytes(&self) -> u64 {
        self.buffer_plan.constants.bytes()
    }

    /// The number of pipelines it needs.
    pub(super) fn pipelines(&self) -> u64 {
        variants(&self.planned, &self.memory).len() as u64
    }

    /// Allocates memory, uploads constants while pipelines compile, creates bind groups.
    ///
    /// # Errors
    /// A constant that is missing, out of memory, or a device that fails.
    pub async fn load(self, constants: &ConstantBytes<'_>, progress: &ProgressCounter<'_>) -> Result<LoadedGraph> {
        Ok(self.make(progress, Some(constants)).await?.into_loaded())
    }

    /// Allocates memory, compiles pipelines, creates bind groups. Constants are uploaded later, as they arrive.
    ///
    /// # Errors
    /// Out of memory, or a device that fails.
    pub async fn load_streaming(self, progress: &ProgressCounter<'_>) -> Result<StreamingGraph> {
        self.make(progress, None).await
    }

    async fn make(self, progress: &ProgressCounter<'_>, constants: Option<&ConstantBytes<'_>>) -> Result<StreamingGraph> {
        let Self {
            gpu, graph, planned, memory, slots, buffer_plan, max_in_flight, feedback, slice_rows, reservation, ..
        } = self;
        reservation.budget().check(&gpu)?;
        let mut budget = MemoryBudget::of(reservation.budget());
        let scope = gpu.inner.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let make = |budget: &mut MemoryBudget, writer: &mut ConstantWriter, feed: &mut FeedFn<'_>| {
            for (index, &tensor) in memory.states.iter().enumerate() {
                if let Role::State(constant) = graph.role(tensor) {
                    writer.add(&graph, tensor, constant, Destination::State(index));
                }
            }
            let buffers = make_buffers(&gpu, &graph, &buffer_plan, budget, writer, feed)?;
            let readbacks = ReadbackSlots::new(&gpu, max_in_flight, budget)?;
            let handoff = buffer_plan.group.map(|plan| Handoff::new(&gpu, plan, budget)).transpose()?;
            Ok((buffers, readbacks, handoff))
        };
        let mut writer = ConstantWriter::default();
        let made = gpu.compile_beside(&variants(&planned, &memory), progress, || match constants {
            None => make(&mut budget, &mut writer, &mut |_, _, _| Ok(())),
            Some(bytes) => upload(&gpu, progress, buffer_plan.constants.bytes(), |put| {
                let made = make(&mut budget, &mut writer, &mut |writer, budget, id| {
                    writer.feed_whole(&mut UploadSink { gpu: &gpu, budget, put }, &graph, bytes, id)
                })?;
                writer.feed_rest(&mut UploadSink { gpu: &gpu, budget: &mut budget, put }, &graph, bytes)?;
                Ok(made)
            }),
        });
        // Any other error may be a consequence of missing memory.
        if let Some(error) = scope.pop().await {
            return Err(Error::OutOfMemory(error.to_string()));
        }
        let (buffers, readbacks, handoff) = made?;
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let readbacks = Arc::new(readbacks);
        let compiled = bind_recipes(&gpu, &planned, &memory, &buffers, &slots)?;
        gpu.check()?;
        let uploaded = UploadedInputs::new(graph.inputs.len(), &compiled);
        let current = Mutex::new(CurrentPlan::new(planned, slots.total, uploaded));
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
            handoff,
            bytes,
            needed,
            guards,
            reservation,
            feedback,
            slice_rows,
            identity: Arc::new(()),
        };
        loaded.refresh_all();
        Ok(StreamingGraph { loaded, writer, budget, waiting: 0 })
    }
}

impl LoadedGraph {
    /// Loads a graph: plans it at its bounds, allocates memory, uploads constants, compiles pipelines, creates bind groups.
    /// [`PreparedGraph`] does the same in two steps, and can report progress.
    ///
    /// # Errors
    /// An argument that an operator rejects, a graph that does not fit, a constant that is missing, or a device that fails.
    pub async fn load(gpu: &Gpu, graph: DecodedGraph, constants: &ConstantBytes<'_>, options: &LoadOptions) -> Result<Self> {
        PreparedGraph::new(gpu, graph, options)?.load(constants, &ProgressCounter::default()).await
    }

    /// The decoded graph.
    #[must_use]
    pub fn graph(&self) -> &DecodedGraph {
        &self.graph
    }

    /// The device it is loaded on.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Bytes of GPU memory it uses, without states.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// The part of its memory that any loader would need.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.needed
    }
}

/// The most bytes of a tensor that a device and its kernels can use. Buffers are padded to 16 bytes.
fn most_tensor_bytes(gpu: &Gpu, caps: Caps) -> u64 {
    let limits = &gpu.inner.summary.limits;
    caps.max_binding.min(limits.max_buffer_size).min(u32::MAX.into()) / 16 * 16
}

fn input_bounds(graph: &DecodedGraph, options: &LoadOptions) -> Result<Vec<Dims>> {
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
    graph: &DecodedGraph,
    buffer_plan: &BufferPlan,
    budget: &mut MemoryBudget,
    writer: &mut ConstantWriter,
    feed: &mut FeedFn<'_>,
) -> Result<GraphBuffers> {
    let (constants, joined) = buffer_plan.constants.make(gpu, graph, budget, writer, feed)?;
    let mut all = |requests: &[BufferRequest]| {
        requests.iter().map(|request| request.make_storage(gpu, budget)).collect::<Result<Vec<_>>>()
    };
    let objects = all(&buffer_plan.objects)?;
    let mut some = |requests: &[Option<BufferRequest>]| {
        let make =
            |request: &Option<BufferRequest>| request.as_ref().map(|request| request.make_storage(gpu, budget)).transpose();
        requests.iter().map(make).collect::<Result<Vec<_>>>()
    };
    let (inputs, outputs) = (some(&buffer_plan.inputs)?, some(&buffer_plan.outputs)?);
    Ok(GraphBuffers {
        constants,
        joined,
        inputs,
        outputs,
        objects,
        arena: buffer_plan.arena.make(gpu, budget)?,
        step: buffer_plan.step.make_storage(gpu, budget)?,
        upload: buffer_plan.upload.make(gpu, budget)?,
        input_staging: buffer_plan
            .input_staging
            .as_ref()
            .map(|request| InputStaging::new(request, gpu, budget))
            .transpose()?,
        readback: buffer_plan.readback.make(gpu, budget)?,
    })
}

/// Every variant that operators may run, without duplicates.
fn variants<'a>(planned: &'a Planned, memory: &Memory) -> Vec<&'a Variant> {
    let active = planned.recipes().iter().zip(&memory.aliased).filter(|&(_, &aliased)| !aliased);
    let all = active.flat_map(|(recipes, _)| recipes.list.iter().map(|recipe| &recipe.variant));
    let mut seen = HashSet::new();
    all.filter(|&variant| seen.insert(variant)).collect()
}
