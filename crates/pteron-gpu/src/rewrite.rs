//! Graphs in which everything is written once, and those that choose a token at their end.
//!
//! An exporter that keeps mutable buffers inside a delegate writes them as a constant that is prepacked and later written again,
//! in place, by the operator that changes it. Here each later write gets a tensor of its own, and what a buffer holds at the
//! end is stored where the next call finds it. After that no operator reads and writes one tensor, and state is what is stored.

use std::collections::{BTreeMap, HashMap, HashSet};

use pteron_format::vulkan::{Call, ConstantId, DataType, Graph, Tensor, Value, ValueId};

use crate::budget::Budget;
use crate::error::Result;

/// The operator that ends a call by storing a buffer's new content; no file has it.
pub(crate) const STORE: &str = "pteron.store";
/// The operator that chooses the next token; no file has it.
pub(crate) const SAMPLE_ROW: &str = "pteron.sample_row";
const CAT: &str = "aten.cat.default";
const CONVERT: &str = "aten._to_copy.default";
const PREPACK: &str = "et_vk.prepack.default";
/// Bytes that a call with a tensor of its own takes, about.
const CALL_BYTES: u64 = 512;

/// Puts the choice of the next token behind an output that is logits: the graph gets an input, how to choose (four integers, see
/// `ops/sample_row`), and an output, the token. Returns their indices; `None` if there is no such output.
pub(crate) fn choose_token(graph: &mut Graph, logits: usize) -> Option<(usize, usize)> {
    let logits = *graph.outputs.get(logits)?;
    let like = graph.value(logits)?.as_tensor()?.clone();
    let numbers = |dims: &[u32]| {
        let like = like.clone();
        let tensor = Tensor { dtype: DataType::Int32, dims: dims.to_vec(), constant: None, memory_object: None, ..like };
        Value::Tensor(tensor)
    };
    let [sampling, token] = [&[4][..], &[1, 1]].map(|dims| add(graph, numbers(dims)));
    graph.chain.push(Call { node_id: 0, name: SAMPLE_ROW.to_owned(), args: vec![logits, sampling, token] });
    graph.inputs.push(sampling);
    graph.outputs.push(token);
    Some((graph.inputs.len() - 1, graph.outputs.len() - 1))
}

/// A graph whose calls are not all where the file has them.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) graph: Graph,
    /// For each call its position in the file, or that of the call it was made for.
    pub(crate) calls: Vec<usize>,
}

impl Rewritten {
    fn new(graph: Graph) -> Self {
        let calls = (0..graph.chain.len()).collect();
        Self { graph, calls }
    }

    fn push(&mut self, call: Call, position: usize) {
        self.graph.chain.push(call);
        self.calls.push(position);
    }

    /// The calls with their positions, which are to be pushed again.
    fn take(&mut self) -> impl Iterator<Item = (Call, usize)> + use<> {
        let (chain, calls) = (std::mem::take(&mut self.graph.chain), std::mem::take(&mut self.calls));
        chain.into_iter().zip(calls)
    }
}

/// Turns buffers that are written in place into state, and joins tensors of one type only.
pub(crate) fn rewrite(graph: Graph, budget: &mut Budget) -> Result<Rewritten> {
    let mut rewritten = Rewritten::new(graph);
    separate_state(&mut rewritten, budget)?;
    convert_joined(&mut rewritten, budget)?;
    Ok(rewritten)
}

/// Joins tensors of one type only: those of another than the result's are converted first, as PyTorch converts them.
fn convert_joined(rewritten: &mut Rewritten, budget: &mut Budget) -> Result<()> {
    if !rewritten.graph.chain.iter().any(|call| call.name == CAT) {
        return Ok(());
    }
    for (mut call, position) in rewritten.take() {
        if call.name == CAT
            && let Some((ids, dtype)) = joined(&rewritten.graph, &call, budget)?
        {
            call.args[0] = convert(rewritten, &ids, dtype, position, budget)?;
        }
        rewritten.push(call, position);
    }
    Ok(())
}

/// The tensors of a join and the type of its result, if they differ.
fn joined(graph: &Graph, call: &Call, budget: &mut Budget) -> Result<Option<(Vec<ValueId>, DataType)>> {
    let (Some(&list), Some(&out)) = (call.args.first(), call.args.last()) else { return Ok(None) };
    let (Some(Value::ValueList(ids)), Some(Value::Tensor(out))) = (graph.value(list), graph.value(out)) else {
        return Ok(None);
    };
    budget.steps(ids.len())?;
    let dtype = |id: &ValueId| graph.value(*id).and_then(Value::as_tensor).map(|tensor| tensor.dtype);
    let differ = ids.iter().any(|id| dtype(id) != Some(out.dtype)) && ids.iter().all(|id| dtype(id).is_some());
    if !differ {
        return Ok(None);
    }
    budget.memory::<ValueId>(ids.len())?;
    Ok(Some((ids.clone(), out.dtype)))
}

/// Puts conversions of tensors that have another type before the call at a position. Returns the list of what is joined then.
fn convert(
    rewritten: &mut Rewritten,
    ids: &[ValueId],
    dtype: DataType,
    position: usize,
    budget: &mut Budget,
) -> Result<ValueId> {
    let none = add(&mut rewritten.graph, Value::Null);
    let mut converted = Vec::with_capacity(ids.len());
    for &id in ids {
        let tensor = rewritten.graph.value(id).and_then(Value::as_tensor).filter(|tensor| tensor.dtype != dtype);
        let Some(tensor) = tensor.cloned() else {
            converted.push(id);
            continue;
        };
        budget.bytes(CALL_BYTES)?;
        let own = Tensor { dtype, constant: None, memory_object: None, ..tensor };
        let out = add(&mut rewritten.graph, Value::Tensor(own));
        let args = [&[id], &[none; 6][..], &[out]].concat();
        rewritten.push(Call { node_id: 0, name: CONVERT.to_owned(), args }, position);
        converted.push(out);
    }
    Ok(add(&mut rewritten.graph, Value::ValueList(converted)))
}

/// Turns buffers that are written in place into state.
fn separate_state(rewritten: &mut Rewritten, budget: &mut Budget) -> Result<()> {
    let buffers = Buffers::find(&rewritten.graph, budget)?;
    if buffers.0.is_empty() {
        return Ok(());
    }
    let mut renaming = Renaming::new(&rewritten.graph, &buffers);
    for (mut call, position) in rewritten.take() {
        if let Some((buffer, _)) = buffers.0.get(&position) {
            // The prepack itself: from here on the buffer holds what a state starts as.
            renaming.current.insert(*buffer, *buffer);
            continue;
        }
        renaming.rename(&mut rewritten.graph, &mut call, budget)?;
        rewritten.push(call, position);
    }
    let current = |buffer: ValueId| renaming.current.get(&buffer).copied().unwrap_or(buffer);
    for output in &mut rewritten.graph.outputs {
        *output = current(*output);
    }
    for (&position, &(buffer, constant)) in &buffers.0 {
        if let Some(Value::Tensor(tensor)) = rewritten.graph.values.get_mut(buffer.index()) {
            tensor.constant = Some(constant);
        }
        let args = vec![current(buffer), buffer];
        rewritten.push(Call { node_id: 0, name: STORE.to_owned(), args }, position);
    }
    Ok(())
}

/// Prepacked constants that a later call writes, with the constant they start as, by the position of their prepack.
struct Buffers(BTreeMap<usize, (ValueId, ConstantId)>);

impl Buffers {
    fn find(graph: &Graph, budget: &mut Budget) -> Result<Self> {
        let mut prepacks: HashMap<ValueId, (usize, ConstantId)> = HashMap::new();
        let mut found = BTreeMap::new();
        for (position, call) in graph.chain.iter().enumerate() {
            let writes = output_ids(graph, call);
            budget.steps(writes.len())?;
            for buffer in writes {
                if let Some(&(prepack, constant)) = prepacks.get(buffer) {
                    found.insert(prepack, (*buffer, constant));
                }
            }
            if let Some((buffer, constant)) = prepacked(graph, call) {
                prepacks.entry(buffer).or_insert((position, constant));
            }
        }
        Ok(Self(found))
    }
}

/// The tensor that a call prepacks and the constant it is then, if it is such a call.
fn prepacked(graph: &Graph, call: &Call) -> Option<(ValueId, ConstantId)> {
    let &[constant, buffer] = call.args.as_slice() else { return None };
    let (from, to) = (graph.value(constant)?.as_tensor()?, graph.value(buffer)?.as_tensor()?);
    let alike = from.dtype == to.dtype && from.dims == to.dims && to.constant.is_none();
    from.constant.filter(|_| call.name == PREPACK && alike).map(|constant| (buffer, constant))
}

/// What a call writes: its last argument, or what that lists.
fn output_ids<'a>(graph: &'a Graph, call: &'a Call) -> &'a [ValueId] {
    match call.args.last().and_then(|&id| graph.value(id)) {
        Some(Value::ValueList(ids)) => ids,
        Some(_) => &call.args[call.args.len() - 1..],
        None => &[],
    }
}

/// Gives each write of a buffer a tensor of its own.
struct Renaming {
    /// The tensor that holds what a buffer holds now, for those whose prepack has come.
    current: HashMap<ValueId, ValueId>,
    /// Lists in which buffers stand.
    lists: HashSet<ValueId>,
}

impl Renaming {
    fn new(graph: &Graph, buffers: &Buffers) -> Self {
        let buffers: HashSet<ValueId> = buffers.0.values().map(|(buffer, _)| *buffer).collect();
        let lists = (0..).zip(&graph.values).filter(|(_, value)| match value {
            Value::ValueList(ids) => ids.iter().any(|id| buffers.contains(id)),
            _ => false,
        });
        Self { current: HashMap::new(), lists: lists.map(|(id, _)| ValueId(id)).collect() }
    }

    /// Lets a call read what buffers hold now, and write tensors of its own.
    fn rename(&mut self, graph: &mut Graph, call: &mut Call, budget: &mut Budget) -> Result<()> {
        let Some((out, reads)) = call.args.split_last_mut() else { return Ok(()) };
        for arg in reads {
            *arg = self.renamed(graph, *arg, &self.current, budget)?;
        }
        let written: Vec<ValueId> = match graph.value(*out) {
            Some(Value::ValueList(ids)) if self.lists.contains(out) => {
                budget.memory::<ValueId>(ids.len())?;
                ids.iter().copied().filter(|id| self.current.contains_key(id)).collect()
            }
            _ => self.current.get_key_value(out).map(|(buffer, _)| *buffer).into_iter().collect(),
        };
        let mut next = HashMap::new();
        for buffer in written {
            let Some(Value::Tensor(state)) = graph.value(buffer) else { continue };
            budget.bytes(CALL_BYTES)?;
            let state = Value::Tensor(state.clone());
            next.entry(buffer).or_insert_with(|| add(graph, state));
        }
        *out = self.renamed(graph, *out, &next, budget)?;
        self.current.extend(next);
        Ok(())
    }

    /// An argument with other names for buffers. A list is copied first: others may share it.
    fn renamed(
        &self,
        graph: &mut Graph,
        arg: ValueId,
        names: &HashMap<ValueId, ValueId>,
        budget: &mut Budget,
    ) -> Result<ValueId> {
        let name = |id: &ValueId| names.get(id).copied().unwrap_or(*id);
        match graph.value(arg) {
            Some(Value::ValueList(ids)) if self.lists.contains(&arg) => {
                budget.steps(ids.len())?;
                budget.memory::<ValueId>(ids.len())?;
                let ids = ids.iter().map(name).collect();
                Ok(add(graph, Value::ValueList(ids)))
            }
            _ => Ok(name(&arg)),
        }
    }
}

/// A value more for a graph.
pub(crate) fn add(graph: &mut Graph, value: Value) -> ValueId {
    graph.values.push(value);
    ValueId(u32::try_from(graph.values.len() - 1).unwrap_or(u32::MAX))
}
