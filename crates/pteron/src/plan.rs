//! The instructions of a method around its delegates.
//!
//! In practice there is one delegate call and, where a method changes its inputs, a few portable copies behind it.

use std::collections::HashMap;

use half::f16;
use pteron_format::ScalarType;
use pteron_format::program::{Instruction, Plan, Tensor as PlanTensor, Value, ValueId};
use pteron_gpu::engine::{HostView, InputView, OutputData, Profile};
use pteron_gpu::graph::{Elem, Graph};
use pteron_gpu::shape::Dims;

use crate::error::{Error, Result};
use crate::method::{Method, State, TensorSpec, dims};
use crate::next::TokenLoop;
use crate::program::Files;
use crate::tensor::Tensor;

/// A method's instructions, checked so that running them can only fail on a device.
#[derive(Debug)]
pub(crate) struct Script {
    method: String,
    steps: Vec<Step>,
    /// Tensors that keep their value from call to call.
    kept: Vec<ValueId>,
    /// Tensors that are constants of the program.
    constants: Vec<ValueId>,
}

#[derive(Debug)]
enum Step {
    Delegate { index: usize, inputs: Vec<ValueId>, outputs: Vec<ValueId> },
    Copy { from: ValueId, to: ValueId },
    JumpUnless { condition: ValueId, target: usize },
}

impl Script {
    pub(crate) fn new(files: &Files, plan: &Plan) -> Result<Self> {
        let fail = |reason: String| Err(Error::Unsupported { method: plan.name.clone(), reason });
        let [chain] = plan.chains.as_slice() else {
            return fail(format!("has {} chains of instructions, one is supported", plan.chains.len()));
        };
        let mut steps = Vec::with_capacity(chain.instructions.len());
        for (index, instruction) in chain.instructions.iter().enumerate() {
            steps.push(match instruction {
                Instruction::DelegateCall { delegate, args } => delegate_step(files, plan, *delegate, args)?,
                Instruction::Move { from, to } => Step::Copy { from: *from, to: *to },
                // Nothing is kept that freeing would give back.
                Instruction::Free(value) => Step::Copy { from: *value, to: *value },
                Instruction::JumpFalse { condition, target } if *target as usize > index => {
                    Step::JumpUnless { condition: *condition, target: *target as usize }
                }
                Instruction::JumpFalse { .. } => {
                    return fail(format!("instruction {index} jumps back; loops are not supported"));
                }
                Instruction::KernelCall { operator, args } => {
                    let name = plan.operators.get(*operator as usize).map(|operator| operator.name.as_str());
                    match (name, args.as_slice()) {
                        (Some("aten::copy_"), [to, from, ..]) => Step::Copy { from: *from, to: *to },
                        (name, _) => {
                            let name = name.unwrap_or("an operator without a name");
                            return fail(format!(
                                "{name} runs outside a delegate (instruction {index}), which is not supported"
                            ));
                        }
                    }
                }
            });
        }
        let mut script = Self { method: plan.name.clone(), steps, kept: Vec::new(), constants: Vec::new() };
        script.find_kept(files, plan);
        Ok(script)
    }

    /// A tensor that is read before anything writes it keeps its value: a constant, or a mutable tensor.
    fn find_kept(&mut self, files: &Files, plan: &Plan) {
        let mut written: Vec<ValueId> = plan.inputs.clone();
        let mut changed = Vec::new();
        let mut read_first = Vec::new();
        for step in &self.steps {
            let (reads, writes): (&[ValueId], &[ValueId]) = match step {
                Step::Delegate { inputs, outputs, .. } => (inputs, outputs),
                Step::Copy { from, to } => (std::slice::from_ref(from), std::slice::from_ref(to)),
                Step::JumpUnless { condition, .. } => (std::slice::from_ref(condition), &[]),
            };
            read_first.extend(reads.iter().copied().filter(|id| !written.contains(id)));
            written.extend(writes);
            changed.extend(writes);
        }
        read_first.extend(plan.outputs.iter().copied().filter(|id| !written.contains(id)));
        read_first.sort_unstable();
        read_first.dedup();
        for id in read_first {
            let Some(tensor) = plan.value(id).and_then(Value::as_tensor) else { continue };
            if changed.contains(&id) {
                self.kept.push(id);
            } else if files.tensor_place(tensor).is_some() {
                self.constants.push(id);
            }
        }
    }

    /// Kept tensors as the file starts them, zeros where it says nothing, and constants.
    pub(crate) fn initial_values(&self, files: &Files) -> Result<Vec<(ValueId, Tensor)>> {
        let plan = files.pte.program().plan(&self.method);
        let value = |&id: &ValueId| {
            let tensor = plan.and_then(|plan| plan.value(id)).and_then(Value::as_tensor);
            let tensor = tensor.ok_or_else(|| Error::Tensor(format!("value {id} is no tensor")))?;
            let tensor = match files.tensor_bytes(tensor).map_err(Error::NotRead)? {
                Some(bytes) => Tensor::new(tensor.scalar_type, &tensor.sizes, bytes.to_vec())?,
                None => Tensor::zeros(tensor.scalar_type, &tensor.sizes)?,
            };
            Ok((id, tensor))
        };
        self.kept.iter().chain(&self.constants).map(value).collect()
    }

    /// Whether what kept tensors and constants start as is at hand. Nothing is made: a file can claim sizes that nobody has.
    pub(crate) fn check_read(&self, files: &Files) -> Result<()> {
        let plan = files.pte.program().plan(&self.method);
        let tensor = |id: &ValueId| plan.and_then(|plan| plan.value(*id)).and_then(Value::as_tensor);
        for tensor in self.kept.iter().chain(&self.constants).filter_map(tensor) {
            files.tensor_bytes(tensor).map_err(Error::NotRead)?;
        }
        Ok(())
    }

    /// The inputs of the one delegate call that is all there is to do; `None` if there is more.
    pub(crate) fn only_call(&self) -> Option<&[ValueId]> {
        match self.steps.as_slice() {
            [Step::Delegate { inputs, .. }] if self.kept.is_empty() => Some(inputs),
            _ => None,
        }
    }

    /// Smaller bounds of a delegate's inputs, where those are inputs of the method.
    pub(crate) fn delegate_bounds(
        &self,
        delegate: usize,
        graph: &Graph,
        plan: &Plan,
        specs: &[TensorSpec],
    ) -> Vec<Option<Dims>> {
        let call = self.steps.iter().find_map(|step| match step {
            Step::Delegate { index, inputs, .. } if *index == delegate => Some(inputs),
            _ => None,
        });
        let bound = |(id, &input): (&ValueId, &pteron_gpu::live::TensorId)| {
            let spec = &specs[plan.inputs.iter().position(|own| own == id)?];
            dims(&spec.shape).filter(|bound| bound.fits(&graph.info(input).bound))
        };
        call.map_or_else(Vec::new, |inputs| inputs.iter().zip(&graph.inputs).map(bound).collect())
    }
}

fn delegate_step(files: &Files, plan: &Plan, delegate: u32, args: &[ValueId]) -> Result<Step> {
    let index = delegate as usize;
    let graph = plan.delegates.get(index).and_then(|delegate| files.pte.graph(delegate.data)).map(|blob| &blob.graph);
    let Some(graph) = graph else {
        let id = plan.delegates.get(index).map_or("", |delegate| delegate.id.as_str());
        let reason = format!("delegate {index} is for {id:?}, only VulkanBackend is supported");
        return Err(Error::Unsupported { method: plan.name.clone(), reason });
    };
    // Reading has checked that there are as many arguments as inputs and outputs together.
    let (inputs, outputs) = args.split_at(graph.inputs.len().min(args.len()));
    Ok(Step::Delegate { index, inputs: inputs.to_vec(), outputs: outputs.to_vec() })
}

/// Runs a method's instructions.
pub(crate) async fn run(
    method: &Method,
    state: &mut State,
    inputs: &[Tensor],
    mut profiles: Option<&mut Vec<Profile>>,
) -> Result<Vec<Tensor>> {
    let plan = method.program.plan(&method.name)?;
    let mut values: HashMap<ValueId, Tensor> = state.values.iter().cloned().collect();
    values.extend(plan.inputs.iter().copied().zip(inputs.iter().cloned()));
    let missing = |id: ValueId| Error::Tensor(format!("value {id} of {:?} is used before it is computed", method.name));
    let mut next = 0;
    while let Some(step) = method.script.steps.get(next) {
        next += 1;
        match step {
            Step::Copy { from, to } if from == to => {}
            Step::Copy { from, to } => {
                let value = values.get(from).cloned().ok_or_else(|| missing(*from))?;
                values.insert(*to, value);
            }
            Step::JumpUnless { condition, target } => {
                if !truth(plan, &values, *condition).ok_or_else(|| missing(*condition))? {
                    next = *target;
                }
            }
            Step::Delegate { index, inputs, outputs } => {
                let tensors =
                    inputs.iter().map(|id| values.get(id).ok_or_else(|| missing(*id))).collect::<Result<Vec<_>>>()?;
                let answers = call_delegate(method, state, plan, *index, &tensors, inputs, profiles.as_deref_mut()).await?;
                for (&id, answer) in outputs.iter().zip(answers) {
                    if let Some(tensor) = plan.value(id).and_then(Value::as_tensor) {
                        values.insert(id, from_gpu(tensor, answer)?);
                    }
                }
            }
        }
    }
    for (id, kept) in &mut state.values {
        if let Some(value) = values.get(id) {
            kept.clone_from(value);
        }
    }
    plan.outputs.iter().map(|id| values.get(id).cloned().ok_or_else(|| missing(*id))).collect()
}

fn truth(plan: &Plan, values: &HashMap<ValueId, Tensor>, id: ValueId) -> Option<bool> {
    match plan.value(id)? {
        Value::Bool(value) => Some(*value),
        _ => values.get(&id)?.bytes().first().map(|&byte| byte != 0),
    }
}

async fn call_delegate(
    method: &Method,
    state: &State,
    plan: &Plan,
    index: usize,
    tensors: &[&Tensor],
    ids: &[ValueId],
    profiles: Option<&mut Vec<Profile>>,
) -> Result<Vec<OutputData>> {
    let staged = tensors.iter().zip(ids).map(|(tensor, &id)| {
        // What a user passed is named by its place among the method's inputs.
        let index = plan.inputs.iter().position(|&input| input == id).unwrap_or(id.index());
        Staged::new(tensor).map_err(|reason| Error::Input { method: method.name.clone(), index, reason })
    });
    let staged = staged.collect::<Result<Vec<_>>>()?;
    let mut views: Vec<InputView<'_>> = staged.iter().map(Staged::view).collect();
    views.extend(method.tokens.as_ref().map(TokenLoop::for_plain_call));
    let (delegate, state) = (&method.delegates[index], &state.delegates[index]);
    let result = match profiles {
        None => delegate.call(state, &views).await,
        Some(profiles) => delegate.call_profiled(state, &views).await.map(|(outputs, profile)| {
            profiles.push(profile);
            outputs
        }),
    };
    result.map_err(|error| match error {
        pteron_gpu::Error::Input { index, reason } => {
            let own = ids.get(index).and_then(|id| plan.inputs.iter().position(|input| input == id));
            Error::Input { method: method.name.clone(), index: own.unwrap_or(index), reason }
        }
        other => other.into(),
    })
}

/// A tensor as the GPU takes it.
struct Staged {
    dims: Dims,
    data: StagedData,
}

enum StagedData {
    F32(Vec<f32>),
    I32(Vec<i32>),
    Bytes(Vec<u8>),
}

impl Staged {
    fn new(tensor: &Tensor) -> std::result::Result<Self, String> {
        let dims = dims(tensor.shape()).ok_or_else(|| format!("has {} dimensions, too many", tensor.shape().len()))?;
        let bytes = tensor.bytes();
        let data = match tensor.scalar_type() {
            ScalarType::Float | ScalarType::Half => StagedData::F32(tensor.to_f32().unwrap_or_default()),
            ScalarType::Int => StagedData::I32(bytemuck::pod_collect_to_vec(bytes)),
            ScalarType::Long => {
                let narrow = |value: i64| {
                    let range = || format!("holds {value}, allowed is {} to {}", i32::MIN, i32::MAX);
                    i32::try_from(value).map_err(|_| range())
                };
                let values: Vec<i64> = bytemuck::pod_collect_to_vec(bytes);
                StagedData::I32(values.into_iter().map(narrow).collect::<std::result::Result<_, _>>()?)
            }
            ScalarType::Byte | ScalarType::Char | ScalarType::Bool => StagedData::Bytes(bytes.to_vec()),
            other => return Err(format!("is {}, which GPUs do not compute with", other.name())),
        };
        Ok(Self { dims, data })
    }

    fn view(&self) -> InputView<'_> {
        let data = match &self.data {
            StagedData::F32(values) => HostView::F32(values),
            StagedData::I32(values) => HostView::I32(values),
            StagedData::Bytes(values) => HostView::Bytes(values),
        };
        InputView { dims: self.dims, data }
    }
}

/// An answer as the method's tensor has it.
fn from_gpu(tensor: &PlanTensor, answer: OutputData) -> Result<Tensor> {
    let bytes = match (answer.elem, tensor.scalar_type) {
        (Elem::F32, ScalarType::Half) => {
            let values: Vec<f32> = bytemuck::pod_collect_to_vec(&answer.bytes);
            values.into_iter().flat_map(|value| f16::from_f32(value).to_le_bytes()).collect()
        }
        (Elem::I32, ScalarType::Long) => {
            let values: Vec<i32> = bytemuck::pod_collect_to_vec(&answer.bytes);
            values.into_iter().flat_map(|value| i64::from(value).to_le_bytes()).collect()
        }
        _ => answer.bytes,
    };
    Tensor::new(tensor.scalar_type, &answer.dims, bytes)
}
