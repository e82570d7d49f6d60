//! Delegates in the graph of a method: their ports are the plan's tensors.

use std::collections::HashSet;

use pteron_format::program::{self as file, Value};
use pteron_format::{vulkan as vk, xnnpack as xnn};

use super::method::DelegateGraph;
use super::portable::{self, PlanValues};
use super::vulkan::Inlined;
use super::{vulkan, xnnpack};
use crate::error::Result;
use crate::ir::{DataType, ValueId};

/// Which arguments of a delegate call are outputs.
pub(super) fn written_ports(graph: Option<DelegateGraph<'_>>, args: usize) -> Vec<bool> {
    let mut written = vec![false; args];
    match graph {
        Some(DelegateGraph::Vulkan(graph)) => written.iter_mut().skip(graph.inputs.len()).for_each(|port| *port = true),
        Some(DelegateGraph::Xnnpack(graph)) => {
            for (_, external) in graph.externals().filter(|(_, external)| external.output) {
                if let Some(port) = written.get_mut(external.index as usize) {
                    *port = true;
                }
            }
        }
        // Nothing is known of a foreign delegate, which is refused.
        None => {}
    }
    written
}

/// Translates a call of a Vulkan delegate. `reads` counts how often instructions read each value.
pub(super) fn vulkan_delegate(
    values: &mut PlanValues<'_>,
    graph: &vk::Graph,
    args: &[file::ValueId],
    known: &mut Inlined,
    reads: &[u32],
) -> Result<()> {
    // Parsing has checked that there are as many arguments as inputs and outputs in total.
    let (inputs, outputs) = args.split_at(graph.inputs.len().min(args.len()));
    let changed: HashSet<vk::ValueId> = graph.outputs.iter().copied().collect();
    let mut ports = Vec::with_capacity(inputs.len());
    for (&id, port) in inputs.iter().zip(&graph.inputs) {
        // An input that is also an output may be changed in place. Where others read it, they read what it was.
        let shared = changed.contains(port) && reads.get(id.index()).is_some_and(|&reads| reads > 1);
        let value = if shared { values.private(id)? } else { values.tensor(id)? };
        ports.push(match graph.values.get(port.index()) {
            Some(vk::Value::Tensor(tensor)) => fit(values, value, vulkan::data_type(tensor.dtype), &tensor.dims)?,
            _ => value,
        });
    }
    let computed = vulkan::inline(graph, &ports, &mut values.builder, known)?;
    for (&id, value) in outputs.iter().zip(computed) {
        let value = fit_plan(values, value, id)?;
        values.set(id, value);
    }
    Ok(())
}

/// Translates a call of an XNNPACK delegate.
pub(super) fn xnnpack_delegate(values: &mut PlanValues<'_>, graph: &xnn::Graph, args: &[file::ValueId]) -> Result<()> {
    let mut ports: Vec<Option<ValueId>> = vec![None; args.len()];
    for (_, external) in graph.externals().filter(|(_, external)| !external.output) {
        let index = external.index as usize;
        let Some(&id) = args.get(index) else { continue };
        let value = values.tensor(id)?;
        let value = values.in_memory_order(value, id)?;
        let scalar = values.builder.tensor_at(value).is_some_and(|tensor| tensor.dims.is_empty());
        ports[index] = Some(if scalar { values.reshaped(value, &[1])? } else { value });
    }
    for (index, value) in xnnpack::translate(graph, &ports, &mut values.builder)? {
        let Some(&id) = args.get(index) else { continue };
        let value = fit_plan(values, value, id)?;
        let value = values.in_dim_order(value, id)?;
        values.set(id, value);
    }
    Ok(())
}

/// A value with the element type and the rank that a delegate's port has.
fn fit(values: &mut PlanValues<'_>, value: ValueId, dtype: DataType, dims: &[u32]) -> Result<ValueId> {
    let value = values.converted(value, dtype)?;
    let other_rank = values.builder.tensor_at(value).is_some_and(|tensor| tensor.dims.len() != dims.len());
    if other_rank { values.reshaped(value, dims) } else { Ok(value) }
}

/// A delegate's output with the element type and the rank of the plan's tensor, dims in memory order.
fn fit_plan(values: &mut PlanValues<'_>, value: ValueId, id: file::ValueId) -> Result<ValueId> {
    let Some(tensor) = values.plan.value(id).and_then(Value::as_tensor) else { return Ok(value) };
    let Some(dtype) = portable::data_type(tensor.scalar_type) else { return Ok(value) };
    let dims = tensor.dim_order.iter().filter_map(|&dim| tensor.sizes.get(usize::from(dim)).copied()).collect::<Vec<u32>>();
    fit(values, value, dtype, &dims)
}
