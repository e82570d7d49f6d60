//! The instructions of a method around its delegates.
//!
//! In practice there is one delegate call and, where a method changes its inputs, a few portable copies after it.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};
use std::sync::Arc;

use pteron_format::program::{DataRef, ExecutionPlan, Instruction, Value, ValueId};
use pteron_format::{EscapedText, alloc};
use pteron_gpu::engine::{Input, Profile, TensorData};
use pteron_gpu::graph::DecodedGraph;
use pteron_gpu::shape::Dims;

use crate::conversion::{from_gpu, to_gpu};
use crate::error::{Error, Result};
use crate::method::{Method, State, TensorSpec, dims};
use crate::program::{FileRange, Files};
use crate::tensor::Tensor;
use crate::values::ValueTable;

/// A method's instructions, checked so that running them can only fail on a device.
#[derive(Debug)]
pub(crate) struct InstructionList {
    method: String,
    steps: Vec<HostInstruction>,
    /// Tensors that keep their value from call to call.
    kept: Vec<ValueId>,
    /// Tensors that are constants of the program.
    constants: Vec<ValueId>,
    /// Values that nothing reads after a step, in the order of steps.
    last_uses: Vec<(usize, ValueId)>,
    /// The index of a value among the method's inputs.
    inputs: HashMap<ValueId, usize>,
}

#[derive(Debug)]
enum HostInstruction {
    Delegate { index: usize, inputs: Vec<ValueId>, outputs: Vec<ValueId> },
    Copy { from: ValueId, to: ValueId },
    JumpFalse { condition: ValueId, target: usize },
    Nop,
}

impl HostInstruction {
    /// The values it reads and those it writes.
    fn uses(&self) -> (&[ValueId], &[ValueId]) {
        match self {
            Self::Delegate { inputs, outputs, .. } => (inputs, outputs),
            Self::Copy { from, to } => (std::slice::from_ref(from), std::slice::from_ref(to)),
            Self::JumpFalse { condition, .. } => (std::slice::from_ref(condition), &[]),
            Self::Nop => (&[], &[]),
        }
    }
}

impl InstructionList {
    pub(crate) fn new(files: &Files, plan: &ExecutionPlan) -> Result<Self> {
        let fail = |reason: String| Err(Error::Unsupported { method: plan.name.clone(), reason });
        let [chain] = plan.chains.as_slice() else {
            return fail(format!("has {} chains of instructions, one is supported", plan.chains.len()));
        };
        let mut steps = alloc::vec(chain.instructions.len())?;
        for (index, instruction) in chain.instructions.iter().enumerate() {
            steps.push(match instruction {
                Instruction::DelegateCall { delegate, args } => delegate_step(files, plan, *delegate, args)?,
                Instruction::Move { from, to } => HostInstruction::Copy { from: *from, to: *to },
                // A value is released after the last step that uses it.
                Instruction::Free(_) => HostInstruction::Nop,
                Instruction::JumpFalse { condition, target } if *target as usize > index => {
                    HostInstruction::JumpFalse { condition: *condition, target: *target as usize }
                }
                Instruction::JumpFalse { .. } => {
                    return fail(format!("instruction {index} jumps back; loops are not supported"));
                }
                Instruction::KernelCall { operator, args } => {
                    let name = plan.operators.get(*operator as usize).map(|operator| operator.name.as_str());
                    match (name, args.as_slice()) {
                        (Some("aten::copy_"), [to, from, ..]) => HostInstruction::Copy { from: *from, to: *to },
                        (name, _) => {
                            let name = name.unwrap_or("an operator without a name");
                            let name = EscapedText::name(name);
                            return fail(format!(
                                "{name} runs outside a delegate (instruction {index}), which is not supported"
                            ));
                        }
                    }
                }
            });
        }
        let (kept, constants) = find_kept(files, plan, &steps);
        let last_uses = find_last_uses(plan, &steps, &kept);
        // A value that is several inputs is reported as the first of them.
        let inputs = plan.inputs.iter().enumerate().rev().map(|(index, &id)| (id, index)).collect();
        Ok(Self { method: plan.name.clone(), steps, kept, constants, last_uses, inputs })
    }

    /// Initial values of kept tensors (zeros where the file has none) and of constants. Tensors with the same bytes of a
    /// file share them.
    pub(crate) fn initial_values(&self, files: &Files) -> Result<Vec<(ValueId, Tensor)>> {
        let plan = files.pte.program().plan(&self.method);
        let mut read: BTreeMap<FileRange, Arc<Vec<u8>>> = BTreeMap::new();
        let mut values = alloc::vec(self.kept.len() + self.constants.len())?;
        for &id in self.kept.iter().chain(&self.constants) {
            let tensor = plan.and_then(|plan| plan.value(id)).and_then(Value::as_tensor);
            let tensor = tensor.ok_or_else(|| Error::Tensor(format!("value {id} is no tensor")))?;
            let Some(place) = files.tensor_place(tensor) else {
                values.push((id, Tensor::zeros(tensor.scalar_type, &tensor.sizes)?));
                continue;
            };
            let bytes = match read.entry(place) {
                btree_map::Entry::Occupied(entry) => Arc::clone(entry.get()),
                btree_map::Entry::Vacant(entry) => Arc::clone(entry.insert(Arc::new(files.copy(place)?))),
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

    /// The inputs and outputs of the delegate call, if it is the method's only step; `None` otherwise.
    pub(crate) fn only_call(&self) -> Option<(&[ValueId], &[ValueId])> {
        match self.steps.as_slice() {
            [step @ HostInstruction::Delegate { .. }] if self.kept.is_empty() => Some(step.uses()),
            _ => None,
        }
    }

    /// The calls of each distinct graph, by the location of its bytes: several delegates may be one graph.
    pub(crate) fn calls(&self, plan: &ExecutionPlan) -> HashMap<DataRef, Vec<&[ValueId]>> {
        let mut calls: HashMap<DataRef, Vec<&[ValueId]>> = HashMap::new();
        for step in &self.steps {
            let HostInstruction::Delegate { index, inputs, .. } = step else { continue };
            if let Some(delegate) = plan.delegates.get(*index) {
                calls.entry(delegate.data).or_default().push(inputs);
            }
        }
        calls
    }

    /// Smaller bounds of a graph's inputs, where those are inputs of the method in each of its calls.
    pub(crate) fn graph_bounds(
        &self,
        calls: &[&[ValueId]],
        graph: &DecodedGraph,
        specs: &[TensorSpec],
    ) -> Vec<Option<Dims>> {
        let own = |id: ValueId| dims(&specs.get(*self.inputs.get(&id)?)?.shape);
        let bound = |(index, &input): (usize, &pteron_gpu::live::TensorId)| {
            let mut bounds = calls.iter().map(|inputs| inputs.get(index).copied().and_then(own));
            let first = bounds.next().flatten()?;
            let agreed = bounds.all(|bound| bound == Some(first));
            Some(first).filter(|bound| agreed && bound.fits(&graph.info(input).bound))
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
        } else if files.tensor_place(tensor).is_some() {
            constants.push(id);
        }
    }
    (kept, constants)
}

/// The last step that uses each value, except for values that outlive the steps. Steps jump forward only, so no later step
/// can use it.
fn find_last_uses(plan: &ExecutionPlan, steps: &[HostInstruction], kept: &[ValueId]) -> Vec<(usize, ValueId)> {
    let mut last: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        let (reads, writes) = step.uses();
        last.extend(reads.iter().chain(writes).map(|&id| (id, index)));
    }
    for id in plan.outputs.iter().chain(kept) {
        last.remove(id);
    }
    let mut last_uses: Vec<_> = last.into_iter().map(|(id, index)| (index, id)).collect();
    last_uses.sort_unstable();
    last_uses
}

fn delegate_step(files: &Files, plan: &ExecutionPlan, delegate: u32, args: &[ValueId]) -> Result<HostInstruction> {
    let index = delegate as usize;
    let graph = plan.delegates.get(index).and_then(|delegate| files.pte.graph(delegate.data)).map(|blob| &blob.graph);
    let Some(graph) = graph else {
        let id = plan.delegates.get(index).map_or("", |delegate| delegate.id.as_str());
        let reason = format!("delegate {index} is for {:?}, only VulkanBackend is supported", EscapedText::name(id));
        return Err(Error::Unsupported { method: plan.name.clone(), reason });
    };
    // Parsing has checked that there are as many arguments as inputs and outputs in total.
    let (inputs, outputs) = args.split_at(graph.inputs.len().min(args.len()));
    Ok(HostInstruction::Delegate { index, inputs: alloc::copied(inputs)?, outputs: alloc::copied(outputs)? })
}

/// Runs a method's instructions.
pub(crate) async fn run(
    method: &Method,
    state: &mut State,
    inputs: &[Tensor],
    mut profiles: Option<&mut Vec<Profile>>,
) -> Result<Vec<Tensor>> {
    // Inputs belong to the caller, and delegate outputs fitted in GPU memory.
    let given = inputs.iter().map(|input| input.bytes().len() as u64).fold(method.memory_bytes(), u64::saturating_add);
    let mut run = Interpreter::new(method, given, &state.values, inputs)?;
    while let Some(call) = run.next_call()? {
        let outputs =
            call_delegate(method, state, call.delegate, &run.tensors(&call)?, call.inputs, profiles.as_deref_mut()).await?;
        run.take(&call, outputs)?;
    }
    run.finish(&mut state.values)
}

/// A delegate call that a run waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelegateCall<'m> {
    pub(crate) delegate: usize,
    pub(crate) inputs: &'m [ValueId],
    outputs: &'m [ValueId],
}

/// The progress of a method's instructions, from one delegate call to the next. The caller runs the delegates.
pub(crate) struct Interpreter<'m> {
    method: &'m Method,
    plan: &'m ExecutionPlan,
    values: ValueTable<'m>,
    next: usize,
    freed: usize,
}

impl<'m> Interpreter<'m> {
    /// Begins a call. Values may take `given` bytes besides the method's budget.
    pub(crate) fn new(method: &'m Method, given: u64, kept: &[(ValueId, Tensor)], inputs: &[Tensor]) -> Result<Self> {
        let plan = method.program.plan(&method.name)?;
        let mut values = ValueTable::new(&method.name, method.host_memory.saturating_add(given));
        for (id, tensor) in kept {
            values.insert(*id, tensor.clone())?;
        }
        for (&id, tensor) in plan.inputs.iter().zip(inputs) {
            values.insert(id, tensor.clone())?;
        }
        Ok(Self { method, plan, values, next: 0, freed: 0 })
    }

    fn value(&self, id: ValueId) -> Result<&Tensor> {
        self.values.get(id).ok_or_else(|| self.missing(id))
    }

    fn missing(&self, id: ValueId) -> Error {
        let name = EscapedText::name(&self.method.name);
        Error::Tensor(format!("value {id} of {name:?} is used before it is computed"))
    }

    /// Runs instructions up to the next delegate call; `None` at the end.
    pub(crate) fn next_call(&mut self) -> Result<Option<DelegateCall<'m>>> {
        let method = self.method;
        while let Some(step) = method.instructions.steps.get(self.next) {
            self.next += 1;
            match step {
                HostInstruction::Nop => {}
                HostInstruction::Copy { from, to } => {
                    let value = self.value(*from)?.clone();
                    self.values.insert(*to, value)?;
                }
                HostInstruction::JumpFalse { condition, target } => {
                    if !self.truth(*condition)? {
                        self.next = *target;
                    }
                }
                HostInstruction::Delegate { index, inputs, outputs } => {
                    return Ok(Some(DelegateCall { delegate: *index, inputs, outputs }));
                }
            }
            self.free();
        }
        Ok(None)
    }

    /// The tensors that a delegate call takes.
    pub(crate) fn tensors(&self, call: &DelegateCall<'m>) -> Result<Vec<&Tensor>> {
        call.inputs.iter().map(|&id| self.value(id)).collect()
    }

    /// Takes the outputs of a delegate.
    pub(crate) fn take(&mut self, call: &DelegateCall<'m>, outputs: Vec<TensorData<'static>>) -> Result<()> {
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
        for (id, kept) in kept {
            if let Some(value) = self.values.get(*id) {
                kept.clone_from(value);
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
        if let Some(Value::Bool(value)) = self.plan.value(id) {
            return Ok(*value);
        }
        self.value(id)?.bytes().first().map(|&byte| byte != 0).ok_or_else(|| self.missing(id))
    }
}

async fn call_delegate(
    method: &Method,
    state: &mut State,
    index: usize,
    tensors: &[&Tensor],
    ids: &[ValueId],
    profiles: Option<&mut Vec<Profile>>,
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
    let (Some(delegate), Some(state)) = (method.delegate(index), state.delegates.get_mut(index)) else {
        let reason = format!("delegate {index} is not part of this state");
        return Err(Error::Unsupported { method: method.name.clone(), reason });
    };
    let result = match profiles {
        None => delegate.call(state, &inputs).await,
        Some(profiles) => delegate.call_profiled(state, &inputs).await.map(|(outputs, profile)| {
            profiles.push(profile);
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
