//! The steps of a method: its graphs, and what the host does between them.
//!
//! Nearly every method is one graph. A method whose instructions jump is several, and the host follows the jumps; it also runs
//! kernels whose output's shape depends on data ([`host`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::sync::Arc;

use pteron_format::program::{ExecutionPlan, Value, ValueId};
use pteron_format::{EscapedText, ScalarType, alloc};
use pteron_gpu::engine::{Input, TensorData};
use pteron_gpu::frontend::method::{Part, Step};
use pteron_gpu::graph::DecodedGraph;
use pteron_gpu::shape::Dims;

use crate::conversion::{from_gpu, to_gpu};
use crate::error::{Error, Result};
use crate::host;
use crate::method::{CallProfile, Method, State, TensorSpec, dims};
use crate::program::{FileRange, Files};
use crate::summary::lower;
use crate::tensor::{Storage, Tensor};
use crate::values::ValueTable;

/// The most steps of one call. A loop that takes more is ended by an error.
const MOST_STEPS: u64 = 1 << 19;

/// A method's steps, checked so that running them can only fail on a device.
#[derive(Debug)]
pub(crate) struct InstructionList {
    method: String,
    steps: Vec<HostInstruction>,
    /// Tensors that the host keeps from call to call.
    kept: Vec<ValueId>,
    /// Tensors that are constants of the program.
    constants: Vec<ValueId>,
    /// Values that nothing reads after a step, in the order of steps.
    last_uses: Vec<(usize, ValueId)>,
    /// Numbers that graphs take, which start as the plan's literals.
    numbers: Vec<ValueId>,
    /// The index of a value among the method's inputs.
    inputs: HashMap<ValueId, usize>,
}

#[derive(Debug)]
enum HostInstruction {
    Graph {
        index: usize,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    },
    Copy {
        from: ValueId,
        to: ValueId,
    },
    JumpFalse {
        condition: ValueId,
        target: usize,
    },
    /// `reads` are the inputs, and the items of those that are lists.
    Kernel {
        operator: u32,
        inputs: Vec<ValueId>,
        reads: Vec<ValueId>,
        outputs: Vec<ValueId>,
    },
}

impl HostInstruction {
    /// The values it reads and those it writes.
    fn uses(&self) -> (&[ValueId], &[ValueId]) {
        match self {
            Self::Graph { inputs: reads, outputs, .. } | Self::Kernel { reads, outputs, .. } => (reads, outputs),
            Self::Copy { from, to } => (std::slice::from_ref(from), std::slice::from_ref(to)),
            Self::JumpFalse { condition, .. } => (std::slice::from_ref(condition), &[]),
        }
    }
}

impl InstructionList {
    /// Joins a method into graphs and the steps between them.
    pub(crate) fn new(files: &Files, plan: &ExecutionPlan) -> Result<(Self, Vec<Part>)> {
        let lowered = lower(&files.pte, plan)?;
        let mut steps = alloc::vec(lowered.steps.len())?;
        for step in lowered.steps {
            steps.push(match step {
                Step::Copy { from, to } => HostInstruction::Copy { from, to },
                Step::JumpFalse { condition, target } => HostInstruction::JumpFalse { condition, target },
                Step::Host { operator, inputs, outputs } => {
                    let reads = host::reads(plan, &inputs);
                    HostInstruction::Kernel { operator, inputs, reads, outputs }
                }
                Step::Part(index) => {
                    let part = lowered.parts.get(index);
                    let ids = |ids: fn(&Part) -> &[ValueId]| alloc::copied(part.map_or(&[][..], ids));
                    HostInstruction::Graph { index, inputs: ids(|part| &part.inputs)?, outputs: ids(|part| &part.outputs)? }
                }
            });
        }
        let (kept, constants) = find_kept(files, plan, &steps);
        let last_uses = find_last_uses(plan, &steps, &kept);
        let taken: BTreeSet<ValueId> = lowered.parts.iter().flat_map(|part| &part.inputs).copied().collect();
        let numbers = taken.into_iter().filter(|id| literal(plan, *id).is_some()).collect();
        // A value that is several inputs is reported as the first of them.
        let inputs = plan.inputs.iter().enumerate().rev().map(|(index, &id)| (id, index)).collect();
        Ok((Self { method: plan.name.clone(), steps, kept, constants, last_uses, numbers, inputs }, lowered.parts))
    }

    /// The method's inputs that its only graph takes, by index; `None` if there are several graphs, or the host does more than copy.
    pub(crate) fn inputs_of_only_graph(&self) -> Option<Vec<usize>> {
        let mut steps = self.steps.iter().filter(|step| !matches!(step, HostInstruction::Copy { .. }));
        match (steps.next(), steps.next()) {
            (Some(HostInstruction::Graph { inputs, .. }), None) => {
                inputs.iter().map(|id| self.inputs.get(id).copied()).collect()
            }
            _ => None,
        }
    }

    /// Initial values of kept tensors (zeros where the file has none) and of constants. Tensors with the same bytes of a
    /// file share them.
    pub(crate) fn initial_values(&self, files: &Files) -> Result<Vec<(ValueId, Tensor)>> {
        let plan = files.pte.program().plan(&self.method);
        let mut read: BTreeMap<FileRange, Storage> = BTreeMap::new();
        let mut values = alloc::vec(self.kept.len() + self.constants.len())?;
        for &id in self.kept.iter().chain(&self.constants) {
            let tensor = plan.and_then(|plan| plan.value(id)).and_then(Value::as_tensor);
            let tensor = tensor.ok_or_else(|| Error::Tensor(format!("value {id} is no tensor")))?;
            let Some(place) = files.tensor_place(tensor) else {
                values.push((id, Tensor::zeros(tensor.scalar_type, &tensor.sizes)?));
                continue;
            };
            let bytes = match read.entry(place) {
                btree_map::Entry::Occupied(entry) => entry.get().clone(),
                btree_map::Entry::Vacant(entry) => entry.insert(Storage::Owned(Arc::new(files.copy(place)?))).clone(),
            };
            values.push((id, Tensor::shared(tensor.scalar_type, &tensor.sizes, bytes)?));
        }
        Ok(values)
    }

    /// Bytes of host memory that [`initial_values`](Self::initial_values) take.
    pub(crate) fn initial_bytes(&self, files: &Files) -> u64 {
        let plan = files.pte.program().plan(&self.method);
        let (mut read, mut total) = (BTreeSet::new(), 0u64);
        for &id in self.kept.iter().chain(&self.constants) {
            let Some(tensor) = plan.and_then(|plan| plan.value(id)).and_then(Value::as_tensor) else { continue };
            let len = match files.tensor_place(tensor) {
                Some(place) if !read.insert(place) => 0,
                Some(place) => place.len,
                None => tensor.byte_len().unwrap_or(u64::MAX),
            };
            total = total.saturating_add(len);
        }
        total
    }

    /// Checks that the initial bytes of kept tensors and constants have been read. Allocates nothing, because a file can
    /// claim any size.
    pub(crate) fn check_read(&self, files: &Files) -> Result<()> {
        let plan = files.pte.program().plan(&self.method);
        let tensor = |id: &ValueId| plan.and_then(|plan| plan.value(*id)).and_then(Value::as_tensor);
        for tensor in self.kept.iter().chain(&self.constants).filter_map(tensor) {
            if let Some(place) = files.tensor_place(tensor) {
                files.bytes(place).ok_or(Error::NotRead(place))?;
            }
        }
        Ok(())
    }

    /// The inputs and outputs of the method's only graph, if nothing but copies of inputs runs besides; `None` otherwise.
    pub(crate) fn only_graph(&self) -> Option<(&[ValueId], &[ValueId])> {
        let [graph @ HostInstruction::Graph { .. }, copies @ ..] = self.steps.as_slice() else { return None };
        let plain = copies.iter().all(|step| matches!(step, HostInstruction::Copy { .. })) && self.kept.is_empty();
        plain.then(|| graph.uses())
    }

    /// Smaller bounds of a graph's inputs, where those are inputs of the method.
    pub(crate) fn graph_bounds(&self, inputs: &[ValueId], graph: &DecodedGraph, specs: &[TensorSpec]) -> Vec<Option<Dims>> {
        let bound = |(index, &input): (usize, &pteron_gpu::live::TensorId)| {
            let own = self.inputs.get(inputs.get(index)?)?;
            dims(&specs.get(*own)?.shape).filter(|bound| bound.fits(&graph.info(input).bound))
        };
        graph.inputs.iter().enumerate().map(bound).collect()
    }
}

/// A tensor that is read before anything writes it keeps its value: a mutable tensor, or a constant. Returns both.
fn find_kept(files: &Files, plan: &ExecutionPlan, steps: &[HostInstruction]) -> (Vec<ValueId>, Vec<ValueId>) {
    let mut written = vec![false; plan.values.len()];
    let mut changed = vec![false; plan.values.len()];
    let mut read_first = BTreeSet::new();
    plan.inputs.iter().for_each(|id| written[id.index()] = true);
    for step in steps {
        let (reads, writes) = step.uses();
        read_first.extend(reads.iter().copied().filter(|id| !written[id.index()]));
        for id in writes {
            (written[id.index()], changed[id.index()]) = (true, true);
        }
    }
    read_first.extend(plan.outputs.iter().copied().filter(|id| !written[id.index()]));
    let (mut kept, mut constants) = (Vec::new(), Vec::new());
    for id in read_first {
        let Some(tensor) = plan.value(id).and_then(Value::as_tensor) else { continue };
        if changed[id.index()] {
            kept.push(id);
        } else if files.tensor_place(tensor).is_some() || plan.outputs.contains(&id) {
            // A buffer that nothing writes holds zeros.
            constants.push(id);
        }
    }
    (kept, constants)
}

/// A number of the plan as a tensor of one element, as graphs and kernels take it.
fn literal(plan: &ExecutionPlan, id: ValueId) -> Option<Result<Tensor>> {
    match plan.value(id)? {
        Value::Int(value) => Some(Tensor::from_i64(&[1], &[*value])),
        Value::Bool(value) => Some(Tensor::new(ScalarType::Bool, &[1], vec![(*value).into()])),
        Value::Double(value) => Some(Tensor::new(ScalarType::Double, &[1], value.0.to_le_bytes().to_vec())),
        _ => None,
    }
}

/// The last step that uses each value, except for values that outlive the steps. In a loop that is the loop's last step.
fn find_last_uses(plan: &ExecutionPlan, steps: &[HostInstruction], kept: &[ValueId]) -> Vec<(usize, ValueId)> {
    let mut last: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        let (reads, writes) = step.uses();
        last.extend(reads.iter().chain(writes).map(|&id| (id, index)));
    }
    for id in plan.outputs.iter().chain(kept) {
        last.remove(id);
    }
    let loops = steps.iter().enumerate().filter_map(|(end, step)| match step {
        HostInstruction::JumpFalse { target, .. } if *target <= end => Some((*target, end)),
        _ => None,
    });
    // The end of the outermost loop around each step. Loops that overlap count as one.
    let mut ends: Vec<usize> = (0..steps.len()).collect();
    for (start, end) in loops {
        let first = ends[..start].partition_point(|own| *own < start);
        ends[first..end].fill(end);
    }
    let last = last.into_iter().map(|(id, index)| (ends.get(index).copied().unwrap_or(index), id));
    let mut last_uses: Vec<_> = last.collect();
    last_uses.sort_unstable();
    last_uses
}

/// Runs a method's instructions.
pub(crate) async fn run(
    method: &Method,
    state: &mut State,
    inputs: &[Tensor],
    mut profile: Option<&mut CallProfile>,
) -> Result<Vec<Tensor>> {
    // Inputs belong to the caller, and outputs of graphs fitted in GPU memory.
    let given = inputs.iter().map(|input| input.bytes().len() as u64).fold(method.memory_bytes(), u64::saturating_add);
    let mut run = Interpreter::new(method, given, &state.values, inputs)?;
    while let Some(call) = run.next_call()? {
        let outputs =
            call_graph(method, state, call.graph, &run.tensors(&call)?, call.inputs, profile.as_deref_mut()).await?;
        run.take(&call, outputs)?;
    }
    if let Some(profile) = profile {
        profile.host_kernels = run.host_kernels();
    }
    run.finish(&mut state.values)
}

/// A graph that a run waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphCall<'m> {
    pub(crate) graph: usize,
    pub(crate) inputs: &'m [ValueId],
    outputs: &'m [ValueId],
}

/// The progress of a method's steps, from one graph to the next. The caller runs the graphs.
pub(crate) struct Interpreter<'m> {
    method: &'m Method,
    plan: &'m ExecutionPlan,
    values: ValueTable<'m>,
    next: usize,
    freed: usize,
    /// The kernels that ran on the host, by their index among the plan's operators.
    ran: Vec<u32>,
    /// How many steps have run.
    steps: u64,
}

impl<'m> Interpreter<'m> {
    /// Begins a call. Values may take `given` bytes besides the method's budget.
    pub(crate) fn new(method: &'m Method, given: u64, kept: &[(ValueId, Tensor)], inputs: &[Tensor]) -> Result<Self> {
        let plan = method.program.plan(&method.name)?;
        let mut values = ValueTable::new(&method.name, method.host_memory.saturating_add(given));
        for (id, tensor) in kept {
            values.insert(*id, tensor.clone())?;
        }
        for &id in &method.instructions.numbers {
            if let Some(number) = literal(plan, id) {
                values.insert(id, number?)?;
            }
        }
        for (&id, tensor) in plan.inputs.iter().zip(inputs) {
            values.insert(id, tensor.clone())?;
        }
        Ok(Self { method, plan, values, next: 0, freed: 0, ran: Vec::new(), steps: 0 })
    }

    fn value(&self, id: ValueId) -> Result<&Tensor> {
        self.values.get(id).ok_or_else(|| self.missing(id))
    }

    fn missing(&self, id: ValueId) -> Error {
        let name = EscapedText::name(&self.method.name);
        Error::Tensor(format!("value {id} of {name:?} is used before it is computed"))
    }

    /// Runs steps up to the next graph; `None` at the end.
    pub(crate) fn next_call(&mut self) -> Result<Option<GraphCall<'m>>> {
        let method = self.method;
        while let Some(step) = method.instructions.steps.get(self.next) {
            self.next += 1;
            self.count_step()?;
            match step {
                HostInstruction::Copy { from, to } => {
                    let value = match (self.values.get(*from), literal(self.plan, *from)) {
                        // A literal becomes a number that later steps change.
                        (None, Some(number)) => number?,
                        _ => self.viewed(self.value(*from)?, *to)?,
                    };
                    self.values.insert(*to, value)?;
                }
                HostInstruction::JumpFalse { condition, target } => {
                    if !self.truth(*condition)? {
                        self.next = *target;
                    }
                }
                HostInstruction::Kernel { operator, inputs, outputs, .. } => self.kernel(*operator, inputs, outputs)?,
                HostInstruction::Graph { index, inputs, outputs } => {
                    return Ok(Some(GraphCall { graph: *index, inputs, outputs }));
                }
            }
            self.free();
        }
        Ok(None)
    }

    /// Counts a step, so that a loop without an end is an error.
    fn count_step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps <= MOST_STEPS {
            return Ok(());
        }
        let reason = format!("has a loop that takes more than {MOST_STEPS} steps");
        Err(Error::Unsupported { method: self.method.name.clone(), reason })
    }

    /// A tensor with the sizes of a plan's tensor that is a view of it.
    fn viewed(&self, tensor: &Tensor, to: ValueId) -> Result<Tensor> {
        match self.plan.value(to).and_then(Value::as_tensor) {
            Some(own) if own.sizes != tensor.shape() && own.byte_len() == Some(tensor.bytes().len() as u64) => {
                Tensor::shared(own.scalar_type, &own.sizes, tensor.storage().clone())
            }
            _ => Ok(tensor.clone()),
        }
    }

    /// Runs a kernel on the host.
    fn kernel(&mut self, operator: u32, inputs: &[ValueId], outputs: &[ValueId]) -> Result<()> {
        let plan = self.plan;
        let Some(kernel) = plan.operators.get(operator as usize) else { return Ok(()) };
        self.ran.push(operator);
        let computed = host::run(plan, kernel, inputs, |id| self.values.get(id))?;
        for (&id, tensor) in outputs.iter().zip(computed) {
            self.values.insert(id, tensor)?;
        }
        Ok(())
    }

    /// The names of the kernels that ran on the host, in order.
    fn host_kernels(&self) -> Vec<String> {
        self.ran.iter().filter_map(|&operator| self.plan.operators.get(operator as usize)).map(ToString::to_string).collect()
    }

    /// The tensors that a graph takes.
    pub(crate) fn tensors(&self, call: &GraphCall<'m>) -> Result<Vec<&Tensor>> {
        call.inputs.iter().map(|&id| self.value(id)).collect()
    }

    /// Takes the outputs of a graph.
    pub(crate) fn take(&mut self, call: &GraphCall<'m>, outputs: Vec<TensorData<'static>>) -> Result<()> {
        for (&id, output) in call.outputs.iter().zip(outputs) {
            if let Some(tensor) = self.plan.value(id).and_then(Value::as_tensor) {
                self.values.insert(id, from_gpu(tensor.scalar_type, output)?)?;
            }
        }
        self.free();
        Ok(())
    }

    /// Returns the method's outputs. Kept tensors are updated only now, when nothing can fail.
    pub(crate) fn finish(self, kept: &mut [(ValueId, Tensor)]) -> Result<Vec<Tensor>> {
        let outputs = self.plan.outputs.iter().map(|&id| self.value(id).cloned()).collect::<Result<_>>()?;
        // An input that became state belongs to the caller, who may change it.
        let value = |id| self.values.get(id).map(Tensor::detached).transpose();
        let values: Vec<Option<Tensor>> = kept.iter().map(|(id, _)| value(*id)).collect::<Result<_>>()?;
        for ((_, kept), value) in kept.iter_mut().zip(values) {
            if let Some(value) = value {
                *kept = value;
            }
        }
        Ok(outputs)
    }

    /// Removes values that nothing reads after the steps that ran.
    fn free(&mut self) {
        while let Some((_, id)) = self.method.instructions.last_uses.get(self.freed).filter(|(step, _)| *step < self.next) {
            self.values.remove(*id);
            self.freed += 1;
        }
    }

    fn truth(&self, id: ValueId) -> Result<bool> {
        if let (None, Some(Value::Bool(value))) = (self.values.get(id), self.plan.value(id)) {
            return Ok(*value);
        }
        self.value(id)?.bytes().first().map(|&byte| byte != 0).ok_or_else(|| self.missing(id))
    }
}

async fn call_graph(
    method: &Method,
    state: &mut State,
    index: usize,
    tensors: &[&Tensor],
    ids: &[ValueId],
    profile: Option<&mut CallProfile>,
) -> Result<Vec<TensorData<'static>>> {
    let own = |id: &ValueId| method.instructions.inputs.get(id).copied();
    let inputs = tensors.iter().zip(ids).map(|(tensor, id)| {
        // A tensor that a user passed is named by its index among the method's inputs.
        let index = own(id).unwrap_or(id.index());
        to_gpu(tensor, |reason| Error::Input { method: method.name.clone(), index, reason }).map(Input::Data)
    });
    let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
    if let Some(hooks) = &method.hooks {
        inputs.extend(hooks.default_inputs(|reason| Error::Input { method: method.name.clone(), index: 0, reason })?);
    }
    let (Some(graph), Some(state)) = (method.graphs.get(index), state.graphs.get_mut(index)) else {
        let reason = format!("graph {index} is not part of this state");
        return Err(Error::Unsupported { method: method.name.clone(), reason });
    };
    let result = match profile {
        None => graph.call(state, &inputs).await,
        Some(profile) => graph.call_profiled(state, &inputs).await.map(|(outputs, dispatches)| {
            profile.graphs.push(dispatches);
            outputs
        }),
    };
    result.map_err(|error| match error {
        pteron_gpu::Error::Input { index, reason } => {
            let own = ids.get(index).and_then(own);
            Error::Input { method: method.name.clone(), index: own.unwrap_or(index), reason }
        }
        other => other.into(),
    })
}
