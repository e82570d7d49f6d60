//! Rewrites of every graph before it is decoded. After them each tensor is written once.
//!
//! An exporter that keeps mutable buffers inside a delegate writes them as a constant that is prepacked and later written again,
//! in place, by the operator that changes it. Here each later write gets its own tensor, and a call at the end stores a buffer's last
//! content as state. After that no operator reads and writes one tensor, and only stored buffers are state.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::budget::Budget;
use crate::error::Result;
use crate::ir::{Call, ConstantId, DataType, Graph, Tensor, Value, ValueId};
use crate::ops::{self, copy::STORE};

const CAT: &str = "aten.cat.default";
const CONVERT: &str = "aten._to_copy.default";
const PREPACK: &str = "et_vk.prepack.default";
/// The approximate bytes of a call with its own tensor.
const CALL_BYTES: u64 = 512;

/// Rewrites buffers that are written in place into state, and concatenations of mixed types into ones of a single type; corrects types
/// that exporters get wrong.
pub(crate) fn rewrite(mut graph: Graph, budget: &mut Budget) -> Result<Graph> {
    ops::q8_linear::correct_output_types(&mut graph);
    separate_state(&mut graph, budget)?;
    convert_cat_inputs(&mut graph, budget)?;
    Ok(graph)
}

/// Converts the inputs of concatenations to the type of the result, as PyTorch promotes them.
fn convert_cat_inputs(graph: &mut Graph, budget: &mut Budget) -> Result<()> {
    if !graph.calls.iter().any(|call| call.name == CAT) {
        return Ok(());
    }
    for mut call in std::mem::take(&mut graph.calls) {
        if call.name == CAT
            && let Some((ids, dtype)) = mixed_cat(graph, &call, budget)?
        {
            call.args[0] = convert(graph, &ids, dtype, call.origin, budget)?;
        }
        graph.calls.push(call);
    }
    Ok(())
}

/// Returns the inputs of a concatenation and the type of its result, if types differ.
fn mixed_cat(graph: &Graph, call: &Call, budget: &mut Budget) -> Result<Option<(Vec<ValueId>, DataType)>> {
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

/// Appends conversions of the tensors that have another type. Returns the list of converted inputs.
fn convert(graph: &mut Graph, ids: &[ValueId], dtype: DataType, origin: usize, budget: &mut Budget) -> Result<ValueId> {
    let none = graph.add(Value::Null);
    let mut converted = Vec::with_capacity(ids.len());
    for &id in ids {
        let tensor = graph.value(id).and_then(Value::as_tensor).filter(|tensor| tensor.dtype != dtype);
        let Some(tensor) = tensor.cloned() else {
            converted.push(id);
            continue;
        };
        budget.bytes(CALL_BYTES)?;
        let own = Tensor { dtype, constant: None, ..tensor };
        let out = graph.add(Value::Tensor(own));
        let args = [&[id], &[none; 6][..], &[out]].concat();
        graph.calls.push(Call::new(&ops::convert::DEF, CONVERT, args).at(origin));
        converted.push(out);
    }
    Ok(graph.add(Value::ValueList(converted)))
}

/// The inputs that a call writes in place.
fn written_inputs(graph: &Graph) -> HashSet<ValueId> {
    let inputs: HashSet<ValueId> = graph.inputs.iter().copied().collect();
    let written = graph.calls.iter().flat_map(|call| output_ids(graph, call)).filter(|id| inputs.contains(id));
    written.copied().collect()
}

/// Rewrites buffers that are written in place into state. An input that is written in place is read as it was given, and its new content is
/// a tensor of its own.
fn separate_state(graph: &mut Graph, budget: &mut Budget) -> Result<()> {
    let buffers = Buffers::find(graph, budget)?;
    let inputs = written_inputs(graph);
    if buffers.0.is_empty() && inputs.is_empty() {
        return Ok(());
    }
    let mut renaming = Renaming::new(graph, buffers.0.values().map(|buffer| buffer.tensor).chain(inputs.iter().copied()));
    renaming.current.extend(inputs.iter().map(|&input| (input, input)));
    for (position, mut call) in std::mem::take(&mut graph.calls).into_iter().enumerate() {
        if let Some(Buffer { tensor: buffer, .. }) = buffers.0.get(&position) {
            // The prepack itself: from here on the buffer holds the state's initial content.
            renaming.current.insert(*buffer, *buffer);
            continue;
        }
        renaming.rename(graph, &mut call, budget)?;
        graph.calls.push(call);
    }
    let current = |buffer: ValueId| renaming.current.get(&buffer).copied().unwrap_or(buffer);
    for output in &mut graph.outputs {
        *output = current(*output);
    }
    for &Buffer { tensor: buffer, constant, origin } in buffers.0.values() {
        if let Some(Value::Tensor(tensor)) = graph.values.get_mut(buffer.index()) {
            tensor.constant = Some(constant);
        }
        let args = vec![current(buffer), buffer];
        graph.calls.push(Call::new(&ops::copy::DEF, STORE, args).at(origin));
    }
    Ok(())
}

/// A prepacked constant that a later call writes.
#[derive(Clone, Copy)]
struct Buffer {
    tensor: ValueId,
    /// Its initial constant.
    constant: ConstantId,
    /// The origin of its prepack.
    origin: usize,
}

/// Every such buffer, by the position of its prepack.
struct Buffers(BTreeMap<usize, Buffer>);

impl Buffers {
    fn find(graph: &Graph, budget: &mut Budget) -> Result<Self> {
        let mut prepacks: HashMap<ValueId, (usize, Buffer)> = HashMap::new();
        let mut found = BTreeMap::new();
        for (position, call) in graph.calls.iter().enumerate() {
            let writes = output_ids(graph, call);
            budget.steps(writes.len())?;
            for tensor in writes {
                if let Some(&(prepack, buffer)) = prepacks.get(tensor) {
                    found.insert(prepack, buffer);
                }
            }
            if let Some((tensor, constant)) = prepacked(graph, call) {
                prepacks.entry(tensor).or_insert((position, Buffer { tensor, constant, origin: call.origin }));
            }
        }
        Ok(Self(found))
    }
}

/// Returns the tensor that a call prepacks and the constant it prepacks, if it is such a call.
fn prepacked(graph: &Graph, call: &Call) -> Option<(ValueId, ConstantId)> {
    let &[constant, buffer] = call.args.as_slice() else { return None };
    let (from, to) = (graph.value(constant)?.as_tensor()?, graph.value(buffer)?.as_tensor()?);
    let alike = from.dtype == to.dtype && from.dims == to.dims && to.constant.is_none();
    from.constant.filter(|_| call.name == PREPACK && alike).map(|constant| (buffer, constant))
}

/// The values a call writes: its last argument, or that list's items.
fn output_ids<'a>(graph: &'a Graph, call: &'a Call) -> &'a [ValueId] {
    match call.args.last().and_then(|&id| graph.value(id)) {
        Some(Value::ValueList(ids)) => ids,
        Some(_) => &call.args[call.args.len() - 1..],
        None => &[],
    }
}

/// Gives each write of a buffer its own tensor.
struct Renaming {
    /// The tensor that holds a buffer's current content, for buffers that are prepacked by now.
    current: HashMap<ValueId, ValueId>,
    /// Lists that contain buffers.
    lists: HashSet<ValueId>,
}

impl Renaming {
    fn new(graph: &Graph, buffers: impl Iterator<Item = ValueId>) -> Self {
        let buffers: HashSet<ValueId> = buffers.collect();
        let lists = (0..).zip(&graph.values).filter(|(_, value)| match value {
            Value::ValueList(ids) => ids.iter().any(|id| buffers.contains(id)),
            _ => false,
        });
        Self { current: HashMap::new(), lists: lists.map(|(id, _)| ValueId(id)).collect() }
    }

    /// Makes a call read the current content of buffers, and write its own tensors.
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
            next.entry(buffer).or_insert_with(|| graph.add(state));
        }
        *out = self.renamed(graph, *out, &next, budget)?;
        self.current.extend(next);
        Ok(())
    }

    /// Returns an argument with buffers renamed. A list is copied, because other calls may share it.
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
                Ok(graph.add(Value::ValueList(ids)))
            }
            _ => Ok(name(&arg)),
        }
    }
}
