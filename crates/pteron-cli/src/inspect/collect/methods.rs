//! Methods that do something: what goes in, what comes out, what runs outside the delegates.

use pteron::MethodSummary;
use pteron_format::program::{ExecutionPlan, Instruction, ShapeDynamism, Tensor, Value, ValueId};
use pteron_format::{Bytes, Pte};

use super::delegates::Delegates;
use super::{clip, sum, tally};
use crate::inspect::report::{Argument, ArgumentTensor, Method, OperatorCount};

pub(super) fn collect<B: Bytes>(pte: &Pte<B>, delegates: &Delegates<'_>, summaries: &[MethodSummary]) -> Vec<Method> {
    computing(pte).zip(summaries).map(|(plan, summary)| method(plan, delegates, summary)).collect()
}

fn computing<B: Bytes>(pte: &Pte<B>) -> impl Iterator<Item = &ExecutionPlan> {
    pte.program().plans.iter().filter(|plan| !plan.is_constant())
}

/// Summaries of the methods that compute, in the order of the program.
pub(super) fn summaries<B: Bytes>(pte: &Pte<B>) -> Vec<MethodSummary> {
    computing(pte).map(|plan| pteron::summarize(pte, &plan.name).unwrap_or_default()).collect()
}

fn method(plan: &ExecutionPlan, delegates: &Delegates<'_>, summary: &MethodSummary) -> Method {
    let host_kernel = |(name, count): &(String, usize)| OperatorCount { name: clip(name), count: *count };
    let instructions = || plan.chains.iter().flat_map(|chain| &chain.instructions);
    let delegate_calls = instructions().filter_map(|instruction| {
        let Instruction::DelegateCall { delegate, .. } = instruction else { return None };
        delegates.position(plan.delegates.get(*delegate as usize)?)
    });
    let kernels = instructions().filter_map(|instruction| {
        let Instruction::KernelCall { operator, .. } = instruction else { return None };
        plan.operators.get(*operator as usize).map(ToString::to_string)
    });
    Method {
        name: plan.name.clone(),
        inputs: arguments(plan, &plan.inputs),
        outputs: arguments(plan, &plan.outputs),
        delegate_calls: delegate_calls.collect(),
        kernels: tally(kernels),
        gpu_graphs: summary.graphs,
        gpu_calls: summary.calls,
        host_kernels: summary.host_kernels.iter().map(host_kernel).collect(),
        instructions: instructions().count(),
        planned_bytes: sum(plan.buffer_sizes.iter().copied()),
    }
}

fn arguments(plan: &ExecutionPlan, ids: &[ValueId]) -> Vec<Argument> {
    ids.iter().filter_map(|&id| plan.value(id)).map(argument).collect()
}

fn argument(value: &Value) -> Argument {
    let kind = match value {
        Value::Null => "none",
        Value::Int(_) => "int",
        Value::Bool(_) => "bool",
        Value::Double(_) => "float",
        Value::Tensor(_) => "tensor",
        Value::String(_) => "string",
        Value::IntList(_) => "int_list",
        Value::DoubleList(_) => "float_list",
        Value::BoolList(_) => "bool_list",
        Value::TensorList(_) | Value::OptionalTensorList(_) => "tensor_list",
    };
    Argument { kind, tensor: value.as_tensor().map(tensor) }
}

fn tensor(tensor: &Tensor) -> ArgumentTensor {
    ArgumentTensor {
        name: tensor.extra.as_ref().and_then(|extra| extra.name.as_deref()).map(clip),
        dtype: tensor.scalar_type.name(),
        shape: tensor.sizes.clone(),
        dynamism: match tensor.dynamism {
            ShapeDynamism::Static => "static",
            ShapeDynamism::Bound => "bound",
            ShapeDynamism::Unbound => "unbound",
        },
        bytes: tensor.byte_len().unwrap_or(u64::MAX),
    }
}
