//! Checks a graph's memory plan by simulation: each memory object holds the tensor written last.

use std::collections::HashMap;

use pteron_format::vulkan::{Graph, Value, ValueId};

/// Follows the calls; the first tensor that is read after another has taken its memory is an error.
pub(crate) fn check(graph: &Graph) -> Result<(), String> {
    let mut holders: HashMap<u32, ValueId> = HashMap::new();
    for (id, value) in (0..).map(ValueId).zip(&graph.values) {
        let Value::Tensor(tensor) = value else { continue };
        let begins = tensor.constant.is_some() || graph.inputs.contains(&id);
        if let (true, Some(object)) = (begins, tensor.memory_object)
            && let Some(other) = holders.insert(object, id)
        {
            return Err(format!("{id} and {other} begin in the same memory"));
        }
    }
    let states: Vec<_> = holders.iter().map(|(&object, &id)| (object, id)).collect();
    for (index, call) in graph.chain.iter().enumerate() {
        let (&out, inputs) = call.args.split_last().ok_or("a call without arguments")?;
        for tensor in flat(graph, inputs) {
            read(graph, &holders, tensor).map_err(|problem| format!("call {index}: {problem}"))?;
        }
        for tensor in flat(graph, &[out]) {
            let Some(object) = object(graph, tensor) else { continue };
            if flat(graph, inputs).contains(&holders.get(&object).copied().unwrap_or(tensor)) {
                return Err(format!("call {index} writes over what it reads"));
            }
            holders.insert(object, tensor);
        }
    }
    for &tensor in &graph.outputs {
        read(graph, &holders, tensor)?;
    }
    for (object, id) in states {
        let is_state = graph.values[id.index()].as_tensor().is_some_and(|tensor| tensor.constant.is_some());
        if is_state && holders.get(&object) != Some(&id) {
            return Err(format!("the state {id} does not survive"));
        }
    }
    Ok(())
}

fn object(graph: &Graph, tensor: ValueId) -> Option<u32> {
    graph.values[tensor.index()].as_tensor()?.memory_object
}

fn read(graph: &Graph, holders: &HashMap<u32, ValueId>, tensor: ValueId) -> Result<(), String> {
    match object(graph, tensor) {
        Some(object) if holders.get(&object) != Some(&tensor) => {
            Err(format!("{tensor} is read from object {object}, which holds {:?}", holders.get(&object)))
        }
        _ => Ok(()),
    }
}

/// The tensors among values, those in lists included.
fn flat(graph: &Graph, values: &[ValueId]) -> Vec<ValueId> {
    let mut tensors = Vec::new();
    for &id in values {
        match &graph.values[id.index()] {
            Value::Tensor(_) => tensors.push(id),
            Value::ValueList(items) => tensors.extend(flat(graph, items)),
            _ => {}
        }
    }
    tensors
}
