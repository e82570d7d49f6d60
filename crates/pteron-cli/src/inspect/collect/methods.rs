//! Methods that do something: what goes in, what comes out, what runs outside the delegates.

use pteron_format::program::{ExecutionPlan, Instruction, ShapeDynamism, Tensor, Value, ValueId};
use pteron_format::{Bytes, Pte};

use super::delegates::Delegates;
use super::{clip, sum, tally};
use crate::inspect::report::{Argument, ArgumentTensor, Method};

pub(super) fn collect<B: Bytes>(pte: &Pte<B>, delegates: &Delegates<'_>) -> Vec<Method> {
    pte.program().plans.iter().filter(|plan| !plan.is_constant()).map(|plan| method(plan, delegates)).collect()
}

fn method(plan: &ExecutionPlan, delegates: &Delegates<'_>) -> Method {
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
