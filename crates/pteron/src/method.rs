//! A loaded method: its graph on a GPU, or several where the host decides what runs next, and the state it keeps.

use std::borrow::Cow;

use pteron_format::program::{ExecutionPlan, ShapeDynamism, ValueId};
use pteron_gpu::engine::{self, Gpu, LoadedGraph, MemoryUse, PreparedGraph, Profile, ProgressCounter, SharedBudget};
use pteron_gpu::frontend::ConstantOrigin;
use pteron_gpu::fuse::Fusions;
use pteron_gpu::graph::{DecodedGraph, RandomConstants};
use pteron_gpu::ir::ConstantId;
use pteron_gpu::plan::Caps;
use pteron_gpu::shape::Dims;

use crate::error::{Error, Result};
use crate::interpreter::{self, InstructionList};
use crate::options::LoadOptions;
use crate::pipelined::Hooks;
use crate::program::Program;
use crate::streaming::MethodMemory;
use crate::tensor::Tensor;
use crate::values::{HOST_MEMORY, within_budget};

/// The type and shape of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The element type.
    pub scalar_type: pteron_format::ScalarType,
    /// The shape, or its upper bounds.
    pub shape: Vec<u32>,
    /// Whether the shape may differ from call to call.
    pub dynamic: bool,
}

/// A method ready to be called.
#[derive(Debug)]
pub struct Method {
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) instructions: InstructionList,
    /// Its graphs; most methods have one.
    pub(crate) graphs: Vec<LoadedGraph>,
    pub(crate) host_memory: u64,
    pub(crate) hooks: Option<Hooks>,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
}

/// A graph before it is loaded, and the origins of its constants.
pub(crate) type Prepared = (PreparedGraph, Vec<ConstantOrigin>);

/// A graph before it is planned, its load options, and the origins of its constants.
pub(crate) type Outlined = (DecodedGraph, engine::LoadOptions, Vec<ConstantOrigin>);

/// The state a method keeps between calls: its mutable tensors, such as KV caches. Use one per conversation.
#[derive(Debug)]
pub struct State {
    pub(crate) graphs: Vec<engine::State>,
    pub(crate) values: Vec<(ValueId, Tensor)>,
}

/// The work of a call: on the GPU, with times, and on the host.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallProfile {
    /// One profile per graph that ran, in order.
    pub graphs: Vec<Profile>,
    /// The names of the kernels that ran on the host, in order. Most methods have none.
    pub host_kernels: Vec<String>,
}

impl Program {
    /// Returns the inputs and outputs of a method, without loading it.
    ///
    /// # Errors
    /// No such method, or one with inputs or outputs that are not tensors.
    pub fn signature(&self, method: &str) -> Result<(Vec<TensorSpec>, Vec<TensorSpec>)> {
        let (plan, options) = (self.plan(method)?, LoadOptions::default());
        Ok((specs(method, plan, &plan.inputs, &options)?, specs(method, plan, &plan.outputs, &options)?))
    }

    /// Loads a method: decodes and checks its graphs, uploads weights, compiles pipelines.
    ///
    /// # Errors
    /// No such method, an operator or instruction that is not supported, or a GPU without enough memory.
    pub async fn load(&self, gpu: &Gpu, method: &str, options: &LoadOptions) -> Result<Method> {
        let (method, prepared) = self.prepare(gpu, method, options)?;
        let graphs = self.load_graphs(&method.name, prepared, options).await?;
        Ok(Method { graphs, ..method })
    }

    /// Prepares a method: its graphs are planned and known to fit, but not loaded.
    pub(crate) fn prepare(&self, gpu: &Gpu, method: &str, options: &LoadOptions) -> Result<(Method, Vec<Prepared>)> {
        let memory = SharedBudget::new(options.memory_budget);
        let (method, outlined) = self.outline(gpu.caps(), &memory, method, options)?;
        let prepare = |(graph, options, origins): Outlined| -> Result<Prepared> {
            Ok((PreparedGraph::new(gpu, graph, &options)?, origins))
        };
        let prepared: Vec<Prepared> = outlined.into_iter().map(prepare).collect::<Result<_>>()?;
        memory.check(gpu)?;
        // Every graph has been checked by now, and the total work is known.
        Ok((method, prepared))
    }

    /// Joins and decodes a method's graphs for a device with the given capabilities.
    pub(crate) fn outline(
        &self,
        caps: Caps,
        memory: &SharedBudget,
        method: &str,
        options: &LoadOptions,
    ) -> Result<(Method, Vec<Outlined>)> {
        let plan = self.plan(method)?;
        let inputs = specs(method, plan, &plan.inputs, options)?;
        let outputs = specs(method, plan, &plan.outputs, &LoadOptions::default())?;
        let (instructions, parts) = InstructionList::new(&self.files, plan)?;
        let host_memory = options.host_memory_budget.unwrap_or_else(|| self.files.total_len().saturating_add(HOST_MEMORY));
        within_budget(method, "what its state starts as", instructions.initial_bytes(&self.files), host_memory)?;
        let mut outlined: Vec<Outlined> = Vec::with_capacity(parts.len());
        let mut hooks = None;
        for mut part in parts {
            part.graph.graph.scalars = self.files.scalars(plan, &part.graph);
            hooks = Hooks::prepare(plan, &instructions, &mut part.graph.graph, options)?;
            let fusions = options.fusions.within(caps.max_binding);
            // Rows are selected from all of them instead.
            let fusions = Fusions { last_row: fusions.last_row && options.sequences.is_none(), ..fusions };
            let graph = part.graph.graph.decode(&fusions)?;
            let graph = match &hooks {
                Some(hooks) => hooks.rewritten(graph, options)?,
                None => graph,
            };
            let mut feedback = Vec::new();
            if let Some(hooks) = &hooks {
                hooks.check(method, &graph)?;
                feedback = hooks.feedback(method, &options.feedback)?;
            }
            let options = engine::LoadOptions {
                input_bounds: instructions.graph_bounds(&part.inputs, &graph, &inputs),
                memory: memory.clone(),
                max_in_flight: options.max_in_flight,
                feedback,
                precision: options.precision,
                tuning: options.tuning,
                state_dtype: options.state_dtype,
            };
            outlined.push((graph, options, part.graph.origins));
        }
        let (name, program, graphs) = (method.to_owned(), self.clone(), Vec::new());
        Ok((Method { name, program, instructions, graphs, host_memory, hooks, inputs, outputs }, outlined))
    }

    async fn load_graphs(&self, method: &str, prepared: Vec<Prepared>, options: &LoadOptions) -> Result<Vec<LoadedGraph>> {
        let plan = self.plan(method)?;
        let mut loading = ProgressCounter::new(options.progress.as_ref());
        prepared.iter().for_each(|(graph, _)| loading.expect(graph));
        let mut graphs = Vec::with_capacity(prepared.len());
        for (graph, origins) in prepared {
            // A map that extends past the end of its file must not be accessed there.
            self.files.check_unchanged()?;
            let random = options.random_constants.map(|seed| RandomConstants::new(graph.graph(), seed));
            let constants = |id: ConstantId| match &random {
                Some(random) => random.bytes(id).map(Cow::Owned),
                None => self.files.constant(plan, origins.get(id.index())?),
            };
            graphs.push(graph.load(&constants, &loading).await?);
        }
        // A mix of old and new weights is not a model.
        self.files.check_unchanged()?;
        Ok(graphs)
    }
}

fn specs(method: &str, plan: &ExecutionPlan, ids: &[ValueId], options: &LoadOptions) -> Result<Vec<TensorSpec>> {
    let spec = |(index, &id): (usize, &ValueId)| {
        let fail = |reason| Err(Error::Input { method: method.to_owned(), index, reason });
        let Some(tensor) = plan.value(id).and_then(|value| value.as_tensor()) else {
            let kind = plan.value(id).map_or("missing", |value| value.kind());
            return fail(format!("is {kind}, only tensors are supported"));
        };
        let mut shape = tensor.sizes.clone();
        if let Some(smaller) = options.input_bounds.get(index).and_then(Option::as_ref) {
            if smaller.len() != shape.len() || smaller.iter().zip(&shape).any(|(smaller, file)| smaller > file) {
                return fail(format!("is to be bound by {smaller:?}, but the file's bound is {shape:?}"));
            }
            shape.clone_from(smaller);
        }
        Ok(TensorSpec { scalar_type: tensor.scalar_type, shape, dynamic: tensor.dynamism != ShapeDynamism::Static })
    };
    ids.iter().enumerate().map(spec).collect()
}

impl Method {
    /// The method's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The GPU it is on, if it computes anything.
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        self.graphs.first().map(LoadedGraph::gpu)
    }

    /// The types and bounds of the inputs.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    /// The types and largest shapes of the outputs.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// Bytes of GPU memory it uses, without states.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory().total_bytes
    }

    /// Bytes of GPU memory that each state uses.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.memory().state_bytes
    }

    /// Bytes of GPU memory of a state's mutable tensors, without its fed-back inputs.
    #[must_use]
    pub fn state_tensor_bytes(&self) -> u64 {
        self.graphs.iter().map(LoadedGraph::state_tensor_bytes).fold(0, u64::saturating_add)
    }

    /// The part of its memory that any loader would need: constants, and activations at their largest.
    #[must_use]
    pub fn memory_needed(&self) -> MemoryUse {
        self.memory().needed
    }

    /// The GPU memory it takes.
    #[must_use]
    pub fn memory(&self) -> MethodMemory {
        MethodMemory::of(self.graphs.iter())
    }

    /// Bytes of constants that a call for a single token reads, as the GPU holds them; see
    /// [`constant_reads`](pteron_gpu::constant_reads::constant_bytes_per_row).
    #[must_use]
    pub fn constant_bytes_per_row(&self) -> u64 {
        self.graphs.iter().map(|graph| pteron_gpu::constant_reads::constant_bytes_per_row(graph.graph())).sum()
    }

    /// Creates a state with the initial values of the file.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new_state(&self) -> Result<State> {
        self.state_of(self.graphs.iter().map(LoadedGraph::new_state).collect::<Result<_, _>>()?)
    }

    /// Creates a state from the graphs' states, with the initial values of tensors that the host keeps.
    pub(crate) fn state_of(&self, graphs: Vec<engine::State>) -> Result<State> {
        Ok(State { graphs, values: self.instructions.initial_values(&self.program.files)? })
    }

    /// Resets a state to the initial values of the file.
    ///
    /// # Errors
    /// A device that fails.
    pub fn reset(&self, state: &mut State) -> Result<()> {
        let values = self.instructions.initial_values(&self.program.files)?;
        for (graph, state) in self.graphs.iter().zip(&mut state.graphs) {
            graph.reset(state)?;
        }
        state.values = values;
        Ok(())
    }

    /// Copies a state with its current values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn clone_state(&self, state: &State) -> Result<State> {
        let copies = self.graphs.iter().zip(&state.graphs).map(|(graph, state)| graph.clone_state(state));
        Ok(State { graphs: copies.collect::<Result<_, _>>()?, values: state.values.clone() })
    }

    /// Calls the method with live tensors.
    ///
    /// # Errors
    /// Inputs the method does not take, shapes an operator rejects, or a device that fails. A rejected input changes
    /// nothing.
    pub async fn call(&self, state: &mut State, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.check(inputs)?;
        interpreter::run(self, state, inputs, None).await
    }

    /// Calls the method and measures each dispatch. The outputs are those of [`call`](Self::call).
    ///
    /// # Errors
    /// As [`call`](Self::call), or a device without timestamps.
    pub async fn call_profiled(&self, state: &mut State, inputs: &[Tensor]) -> Result<(Vec<Tensor>, CallProfile)> {
        self.check(inputs)?;
        let mut profile = CallProfile::default();
        let outputs = interpreter::run(self, state, inputs, Some(&mut profile)).await?;
        Ok((outputs, profile))
    }

    /// Checks the inputs of a call.
    pub(crate) fn check(&self, inputs: &[Tensor]) -> Result<()> {
        let error = |index, reason| Error::Input { method: self.name.clone(), index, reason };
        engine::check_input_count(inputs.len(), self.inputs.len(), error)?;
        inputs.iter().enumerate().try_for_each(|(index, input)| self.check_spec(index, input))
    }

    /// Checks element type and shape of one input.
    pub(crate) fn check_spec(&self, index: usize, input: &Tensor) -> Result<()> {
        let fail = |reason| Err(Error::Input { method: self.name.clone(), index, reason });
        let Some(spec) = self.inputs.get(index) else { return fail("is not an input of the method".to_owned()) };
        if input.scalar_type() != spec.scalar_type {
            let (came, needed) = (input.scalar_type().name(), spec.scalar_type.name());
            return fail(format!("is {came}, but the method takes {needed}"));
        }
        let rank = input.shape().len() == spec.shape.len();
        let within = |allowed: fn(u32, u32) -> bool| input.shape().iter().zip(&spec.shape).all(|(&a, &b)| allowed(a, b));
        if !rank || !within(if spec.dynamic { |live, bound| live <= bound } else { |live, size| live == size }) {
            let allowed = if spec.dynamic { "up to " } else { "" };
            return fail(format!("has shape {:?}, allowed is {allowed}{:?}", input.shape(), spec.shape));
        }
        Ok(())
    }
}

pub(crate) fn dims(shape: &[u32]) -> Option<Dims> {
    Dims::new(shape)
}
