//! The values that each instruction of a plan reads and writes.

use std::collections::HashMap;

use pteron_format::program::{Delegate, ExecutionPlan, Instruction, Operator, Tensor, TensorDataLocation, Value, ValueId};

use crate::budget::Budget;
use crate::error::{Error, Result};

/// The arguments of a kernel call, sorted.
#[derive(Clone, Copy, Debug)]
pub(in crate::frontend) struct KernelArgs<'p> {
    /// The arguments that are no outputs.
    pub(in crate::frontend) inputs: &'p [ValueId],
    /// The tensors it writes, or the number it computes.
    pub(in crate::frontend) outputs: &'p [ValueId],
    /// Whether the outputs were one list.
    pub(in crate::frontend) listed: bool,
}

/// Sorts the arguments of a kernel call: inputs, then the outputs, then the result once more.
pub(in crate::frontend) fn kernel_args<'p>(
    plan: &'p ExecutionPlan,
    kernel: &str,
    args: &'p [ValueId],
) -> Option<KernelArgs<'p>> {
    if kernel == COPY_INDEX {
        return Some(KernelArgs { inputs: args, outputs: args.get(..1)?, listed: false });
    }
    let (result, before) = args.split_last()?;
    match plan.value(*result)? {
        Value::TensorList(items) => {
            let own = before.last().and_then(|&id| plan.value(id));
            if matches!(own, Some(Value::TensorList(own)) if own == items) {
                return Some(KernelArgs { inputs: &before[..before.len() - 1], outputs: items, listed: true });
            }
            let inputs = before.strip_suffix(items.as_slice())?;
            Some(KernelArgs { inputs, outputs: items, listed: true })
        }
        _ => match before.split_last() {
            Some((last, inputs)) if last == result => {
                Some(KernelArgs { inputs, outputs: std::slice::from_ref(result), listed: false })
            }
            _ => Some(KernelArgs { inputs: before, outputs: std::slice::from_ref(result), listed: false }),
        },
    }
}

/// A kernel's name with its overload. Kernels that work in place have no overloads, whatever a file says.
pub(in crate::frontend) fn full_name(kernel: &Operator) -> String {
    if kernel.name.ends_with('_') { kernel.name.clone() } else { kernel.to_string() }
}

const COPY: &str = "aten::copy_";
/// Collects the results of a loop: writes a row of its first argument and returns nothing.
const COPY_INDEX: &str = "executorch_prim::et_copy_index.tensor";

/// The arguments that a kernel changes in place, by index.
pub(in crate::frontend) fn changed_args(kernel: &str) -> &'static [usize] {
    match kernel {
        COPY | COPY_INDEX | "aten::index_put_" => &[0],
        "llama::update_cache.out" | "llama::update_cache_with_indices.out" => &[1],
        "llama::sdpa_with_kv_cache.out" => &[3, 4],
        _ => &[],
    }
}

/// Whether a tensor's bytes are in the program or its external data.
pub(in crate::frontend) fn has_data(tensor: &Tensor) -> bool {
    let external = tensor.extra.as_ref().is_some_and(|extra| extra.location == TensorDataLocation::External);
    external || tensor.buffer != 0
}

/// The place of a tensor in planned memory.
pub(in crate::frontend) type Place = (u32, u64);

pub(in crate::frontend) fn place(tensor: &Tensor) -> Option<Place> {
    tensor.allocation.map(|allocation| (allocation.memory, allocation.offset))
}

/// The values that an instruction reads and writes. Lists are replaced by their items.
#[derive(Clone, Debug, Default)]
pub(in crate::frontend) struct Uses {
    pub(in crate::frontend) reads: Vec<ValueId>,
    pub(in crate::frontend) writes: Vec<ValueId>,
}

/// The uses of every instruction of a plan's only chain.
pub(in crate::frontend) fn uses(
    plan: &ExecutionPlan,
    instructions: &[Instruction],
    outputs_of: &impl Fn(&Delegate, &[ValueId]) -> Vec<bool>,
    budget: &mut Budget,
) -> Result<Vec<Uses>> {
    let mut all = Vec::with_capacity(instructions.len());
    for (index, instruction) in instructions.iter().enumerate() {
        all.push(instruction_uses(plan, index, instruction, outputs_of, budget)?);
    }
    Ok(all)
}

fn instruction_uses(
    plan: &ExecutionPlan,
    index: usize,
    instruction: &Instruction,
    outputs_of: &impl Fn(&Delegate, &[ValueId]) -> Vec<bool>,
    budget: &mut Budget,
) -> Result<Uses> {
    let mut uses = Uses::default();
    match instruction {
        Instruction::KernelCall { operator, args } => {
            let kernel = plan.operators.get(*operator as usize).map(full_name).unwrap_or_default();
            let sorted = kernel_args(plan, &kernel, args).ok_or_else(|| malformed(plan, *operator, index))?;
            // A copy overwrites the whole buffer.
            let overwritten = usize::from(kernel == COPY).min(sorted.inputs.len());
            for &id in &sorted.inputs[overwritten..] {
                push(plan, id, &mut uses.reads, budget)?;
            }
            for &id in changed_args(&kernel).iter().filter_map(|&index| args.get(index)).chain(sorted.outputs) {
                push(plan, id, &mut uses.writes, budget)?;
            }
        }
        Instruction::DelegateCall { delegate, args } => {
            let written = plan.delegates.get(*delegate as usize).map(|own| outputs_of(own, args)).unwrap_or_default();
            for (index, &id) in args.iter().enumerate() {
                let writes = written.get(index).copied().unwrap_or_default();
                push(plan, id, if writes { &mut uses.writes } else { &mut uses.reads }, budget)?;
            }
        }
        Instruction::Move { from, to } => {
            push(plan, *from, &mut uses.reads, budget)?;
            push(plan, *to, &mut uses.writes, budget)?;
        }
        Instruction::JumpFalse { condition, .. } => uses.reads.push(*condition),
        Instruction::Free(_) => {}
    }
    Ok(uses)
}

/// An error about a kernel call whose arguments do not end with its result.
pub(in crate::frontend) fn malformed(plan: &ExecutionPlan, operator: u32, index: usize) -> Error {
    let name = plan.operators.get(operator as usize).map(ToString::to_string).unwrap_or_default();
    crate::error::OpError::new("out", "is not where a kernel call has it, before its result").of(&name, index).into()
}

fn push(plan: &ExecutionPlan, id: ValueId, to: &mut Vec<ValueId>, budget: &mut Budget) -> Result<()> {
    let items = match plan.value(id) {
        Some(Value::IntList(items) | Value::TensorList(items)) => items.as_slice(),
        Some(Value::OptionalTensorList(items)) => {
            budget.memory::<ValueId>(items.len())?;
            to.extend(items.iter().flatten());
            return Ok(());
        }
        _ => &[id],
    };
    budget.memory::<ValueId>(items.len())?;
    to.extend(items);
    Ok(())
}

/// The values that a plan's instructions write, and where several are views of one memory, the one that was written.
#[derive(Debug, Default)]
pub(in crate::frontend) struct Writes {
    /// Whether an instruction writes a value.
    pub(in crate::frontend) written: Vec<bool>,
    /// The number of times that instructions read a value.
    pub(in crate::frontend) reads: Vec<u32>,
    /// For a tensor that is read and never written, the one that was written at its place before.
    pub(in crate::frontend) viewed: HashMap<ValueId, ValueId>,
}

impl Writes {
    /// Follows the instructions in order.
    pub(in crate::frontend) fn find(plan: &ExecutionPlan, uses: &[Uses]) -> Self {
        let values = plan.values.len();
        let mut found = Self { written: vec![false; values], reads: vec![0; values], viewed: HashMap::new() };
        let mut places = places_after(plan, &[]);
        let tensor = |id: ValueId| plan.value(id).and_then(Value::as_tensor);
        let mut given = vec![false; plan.values.len()];
        plan.inputs.iter().for_each(|id| given[id.index()] = true);
        let end = Uses { reads: plan.outputs.clone(), writes: Vec::new() };
        for uses in uses.iter().chain([&end]) {
            for id in &uses.reads {
                found.reads[id.index()] = found.reads[id.index()].saturating_add(1);
            }
            for &id in uses.reads.iter().filter(|id| !given[id.index()]) {
                let Some(own) = tensor(id) else { continue };
                let Some(base) = place(own).and_then(|place| places.get(&place)).copied() else { continue };
                if base != id && tensor(base).is_some_and(|base| base.byte_len() == own.byte_len()) {
                    found.viewed.insert(id, base);
                }
            }
            for &id in &uses.writes {
                (given[id.index()], found.written[id.index()]) = (true, true);
                if let Some(place) = tensor(id).and_then(place) {
                    places.insert(place, id);
                }
            }
        }
        found
    }
}

/// The tensor that lies at each place of planned memory after some instructions: inputs, and what was written last.
pub(in crate::frontend) fn places_after(plan: &ExecutionPlan, uses: &[Uses]) -> HashMap<Place, ValueId> {
    let written = plan.inputs.iter().chain(uses.iter().flat_map(|uses| &uses.writes));
    written.filter_map(|&id| Some((place(plan.value(id)?.as_tensor()?)?, id))).collect()
}
