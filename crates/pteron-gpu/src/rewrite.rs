//! Graphs in which everything is written once, and those that choose a token at their end.
//!
//! An exporter that keeps mutable buffers inside a delegate writes them as a constant that is prepacked and later written again,
//! in place, by the operator that changes it. Here each later write gets a tensor of its own, and what a buffer holds at the
//! end is stored where the next call finds it. After that no operator reads and writes one tensor, and state is what is stored.

use pteron_format::vulkan::{Call, DataType, Graph, Tensor, Value, ValueId};

/// The operator that ends a call by storing a buffer's new content; no file has it.
pub(crate) const STORE: &str = "pteron.store";
/// The operator that chooses the next token; no file has it.
pub(crate) const CHOOSE_TOKEN: &str = "pteron.choose_token";
const CAT: &str = "aten.cat.default";
const CONVERT: &str = "aten._to_copy.default";
const PREPACK: &str = "et_vk.prepack.default";

/// Puts the choice of the next token behind an output that is logits: the graph gets an input, how to choose (four integers, see
/// `ops/choose_token`), and an output, the token. Returns their indices; `None` if there is no such output.
pub(crate) fn choose_token(graph: &mut Graph, logits: usize) -> Option<(usize, usize)> {
    let logits = *graph.outputs.get(logits)?;
    let like = graph.value(logits)?.as_tensor()?.clone();
    let numbers = |dims: &[u32]| {
        let like = like.clone();
        let tensor = Tensor { dtype: DataType::Int32, dims: dims.to_vec(), constant: None, memory_object: None, ..like };
        Value::Tensor(tensor)
    };
    let [sampling, token] = [&[4][..], &[1, 1]].map(|dims| add(graph, numbers(dims)));
    graph.chain.push(Call { node_id: 0, name: CHOOSE_TOKEN.to_owned(), args: vec![logits, sampling, token] });
    graph.inputs.push(sampling);
    graph.outputs.push(token);
    Some((graph.inputs.len() - 1, graph.outputs.len() - 1))
}

/// Joins tensors of one type only: those of another than the result's are converted first, as PyTorch converts them.
pub(crate) fn convert_joined(mut graph: Graph) -> Graph {
    let mut at = 0;
    while at < graph.chain.len() {
        let joined = if graph.chain[at].name == CAT { joined(&graph, &graph.chain[at]) } else { None };
        if let Some((tensors, dtype)) = joined {
            let mut converted = Vec::with_capacity(tensors.len());
            for id in tensors {
                let Some(tensor) = graph.value(id).and_then(Value::as_tensor).cloned() else { return graph };
                if tensor.dtype == dtype {
                    converted.push(id);
                    continue;
                }
                let none = add(&mut graph, Value::Null);
                let own = Tensor { dtype, constant: None, memory_object: None, ..tensor };
                let out = add(&mut graph, Value::Tensor(own));
                let args = [&[id], &[none; 6][..], &[out]].concat();
                graph.chain.insert(at, Call { node_id: 0, name: CONVERT.to_owned(), args });
                at += 1;
                converted.push(out);
            }
            let list = add(&mut graph, Value::ValueList(converted));
            graph.chain[at].args[0] = list;
        }
        at += 1;
    }
    graph
}

/// The tensors of a join and the type of its result, if they differ.
fn joined(graph: &Graph, call: &Call) -> Option<(Vec<ValueId>, DataType)> {
    let dtype = graph.value(*call.args.last()?)?.as_tensor()?.dtype;
    let Value::ValueList(tensors) = graph.value(*call.args.first()?)? else { return None };
    let differs = |id: &ValueId| graph.value(*id).and_then(Value::as_tensor).is_some_and(|tensor| tensor.dtype != dtype);
    tensors.iter().any(differs).then(|| (tensors.clone(), dtype))
}

/// Turns buffers that are written in place into state.
pub(crate) fn separate_state(mut graph: Graph) -> Graph {
    for (prepack, buffer) in rewritten_buffers(&graph) {
        let Some(&constant) = graph.chain[prepack].args.first() else { continue };
        let Some(Value::Tensor(state)) = graph.values.get(buffer.index()).cloned() else { continue };
        let alike = |tensor: &&Tensor| tensor.dtype == state.dtype && tensor.dims == state.dims;
        let constant = graph.value(constant).and_then(Value::as_tensor).filter(alike).and_then(|tensor| tensor.constant);
        if constant.is_none() {
            continue;
        }
        graph.chain[prepack].args.clear();
        let mut current = buffer;
        for call in prepack + 1..graph.chain.len() {
            let writes = output_ids(&graph, &graph.chain[call]).contains(&buffer);
            let next = if writes { add(&mut graph, Value::Tensor(state.clone())) } else { current };
            rename(&mut graph, call, buffer, current, next);
            current = next;
        }
        for output in &mut graph.outputs {
            if *output == buffer {
                *output = current;
            }
        }
        if let Some(Value::Tensor(tensor)) = graph.values.get_mut(buffer.index()) {
            tensor.constant = constant;
        }
        graph.chain.push(Call { node_id: 0, name: STORE.to_owned(), args: vec![current, buffer] });
    }
    // A prepack without arguments is one that was taken apart above.
    graph.chain.retain(|call| call.name != PREPACK || !call.args.is_empty());
    graph
}

/// Prepacked tensors that a later call writes, with the position of their prepack.
fn rewritten_buffers(graph: &Graph) -> Vec<(usize, ValueId)> {
    let prepacks = graph.chain.iter().enumerate().filter(|(_, call)| call.name == PREPACK && call.args.len() == 2);
    prepacks
        .map(|(index, call)| (index, call.args[1]))
        .filter(|&(index, buffer)| graph.chain[index + 1..].iter().any(|call| output_ids(graph, call).contains(&buffer)))
        .collect()
}

/// What a call writes: its last argument, or what that lists.
fn output_ids<'a>(graph: &'a Graph, call: &'a Call) -> &'a [ValueId] {
    match call.args.last().and_then(|&id| graph.value(id)) {
        Some(Value::ValueList(ids)) => ids,
        Some(_) => &call.args[call.args.len() - 1..],
        None => &[],
    }
}

/// A value more for a graph.
pub(crate) fn add(graph: &mut Graph, value: Value) -> ValueId {
    graph.values.push(value);
    ValueId(u32::try_from(graph.values.len() - 1).unwrap_or(u32::MAX))
}

/// Reads of `buffer` become reads of `current`, writes become writes of `next`. A list is copied first: others may share it.
fn rename(graph: &mut Graph, call: usize, buffer: ValueId, current: ValueId, next: ValueId) {
    let last = graph.chain[call].args.len().saturating_sub(1);
    for position in 0..graph.chain[call].args.len() {
        let to = if position == last { next } else { current };
        let arg = graph.chain[call].args[position];
        if arg == buffer {
            graph.chain[call].args[position] = to;
        } else if let Some(Value::ValueList(ids)) = graph.value(arg)
            && ids.contains(&buffer)
        {
            let ids = ids.iter().map(|&id| if id == buffer { to } else { id }).collect();
            graph.chain[call].args[position] = add(graph, Value::ValueList(ids));
        }
    }
}
