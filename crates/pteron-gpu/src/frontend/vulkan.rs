//! Translates the graph of a Vulkan delegate.
//!
//! The delegate's schema is close to the IR: values and calls are translated one by one and keep their ids. The exporter's
//! storage, layout and memory objects are ignored, because memory is planned from our own lifetimes.

use std::collections::{HashMap, HashSet};

use pteron_format::vulkan as file;

use super::Builder;
use crate::args::Flow;
use crate::error::{Error, Result};
use crate::ir::{Call, Constant, ConstantId, ConstantSource, DataType, DimOrder, Graph, Tensor, Value, ValueId};

/// Translates a delegate's graph. Ids of values and constants stay the same.
///
/// # Errors
/// The first call of an operator that files cannot call.
pub fn translate(graph: &file::Graph) -> Result<Graph> {
    Ok(Graph {
        calls: graph.chain.iter().enumerate().map(call).collect::<Result<_>>()?,
        values: graph.values.iter().map(value).collect(),
        inputs: ids(&graph.inputs),
        outputs: ids(&graph.outputs),
        constants: graph.constants.iter().map(constant).collect(),
        ..Graph::default()
    })
}

/// The tensors that each call of a delegate's graph reads, writes and changes in place, as its operator declares them; empty
/// for calls of unknown operators. Ids of tensors are those of the file.
#[must_use]
pub fn declared_flows(graph: &file::Graph) -> Vec<Flow> {
    let calls: Vec<Option<Call>> = graph.chain.iter().map(|call| Call::in_file(&call.name, ids(&call.args))).collect();
    let known = Graph {
        calls: calls.iter().flatten().cloned().collect(),
        values: graph.values.iter().map(value).collect(),
        inputs: ids(&graph.inputs),
        outputs: ids(&graph.outputs),
        constants: graph.constants.iter().map(constant).collect(),
        ..Graph::default()
    };
    crate::graph::declared_flows(&known, &calls)
}

fn call((origin, call): (usize, &file::Call)) -> Result<Call> {
    match Call::in_file(&call.name, ids(&call.args)) {
        Some(translated) => Ok(translated.at(origin)),
        None => Err(Error::UnknownOperator { name: call.name.clone(), index: origin }),
    }
}

/// Constants that the calls of one delegate share, plain and prepacked.
#[derive(Debug, Default)]
pub(super) struct Inlined(HashMap<file::ValueId, ValueId>);

const PREPACK: &str = "et_vk.prepack.default";

/// Translates a delegate's graph into a builder. `ports` are the values that its inputs are. Returns its outputs. Operators that
/// files cannot call are recorded as unsupported.
///
/// # Errors
/// More values and calls than the source justifies, or a constant that is not as long as its tensor.
pub(super) fn inline(
    graph: &file::Graph,
    ports: &[ValueId],
    builder: &mut Builder,
    known: &mut Inlined,
) -> Result<Vec<ValueId>> {
    builder.charge(graph.values.len())?;
    let mut translated = vec![None; graph.values.len()];
    for (&id, &value) in known.0.iter().chain(graph.inputs.iter().zip(ports)) {
        if let Some(slot) = translated.get_mut(id.index()) {
            *slot = Some(value);
        }
    }
    let inputs: HashSet<file::ValueId> = graph.inputs.iter().copied().collect();
    let mut inlining = Inlining { graph, builder, translated, inputs, known };
    let first = inlining.builder.origin();
    for (index, call) in graph.chain.iter().enumerate() {
        inlining.builder.at(first + index);
        inlining.call(call)?;
    }
    graph.outputs.iter().map(|&id| inlining.value(id)).collect()
}

/// A delegate's graph while it is translated into a builder.
struct Inlining<'g, 'b> {
    graph: &'g file::Graph,
    builder: &'b mut Builder,
    translated: Vec<Option<ValueId>>,
    inputs: HashSet<file::ValueId>,
    known: &'b mut Inlined,
}

impl Inlining<'_, '_> {
    fn call(&mut self, call: &file::Call) -> Result<()> {
        let Some((&out, reads)) = call.args.split_last() else { return self.push(call, Vec::new()) };
        if call.name == PREPACK && self.known.0.contains_key(&out) {
            return Ok(());
        }
        self.builder.charge(reads.len())?;
        let mut args = reads.iter().map(|&id| self.value(id)).collect::<Result<Vec<_>>>()?;
        args.push(self.output(out)?);
        if call.name == PREPACK
            && let Some(&packed) = args.last()
        {
            self.known.0.insert(out, packed);
        }
        self.push(call, args)
    }

    fn push(&mut self, call: &file::Call, args: Vec<ValueId>) -> Result<()> {
        let origin = self.builder.origin();
        match Call::in_file(&call.name, args) {
            Some(call) => self.builder.push(call.at(origin)),
            None => {
                self.builder.unsupported(&call.name);
                Ok(())
            }
        }
    }

    /// The value that a call writes. An input that is written in place is a new tensor from then on: other instructions may read
    /// what it was.
    fn output(&mut self, id: file::ValueId) -> Result<ValueId> {
        let graph = self.graph;
        let items = match graph.values.get(id.index()) {
            Some(file::Value::ValueList(items)) => items.as_slice(),
            _ => &[id],
        };
        for item in items {
            if !self.inputs.contains(item) {
                continue;
            }
            let fresh = self.translate(*item)?;
            self.translated[item.index()] = Some(fresh);
        }
        self.value(id)
    }

    fn value(&mut self, id: file::ValueId) -> Result<ValueId> {
        if let Some(known) = self.translated.get(id.index()).copied().flatten() {
            return Ok(known);
        }
        let value = self.translate(id)?;
        // A list of inputs may be another one later.
        let changes = match self.graph.values.get(id.index()) {
            Some(file::Value::ValueList(items)) => items.iter().any(|item| self.inputs.contains(item)),
            _ => false,
        };
        if let Some(slot) = self.translated.get_mut(id.index()).filter(|_| !changes) {
            *slot = Some(value);
        }
        Ok(value)
    }

    fn translate(&mut self, id: file::ValueId) -> Result<ValueId> {
        match self.graph.values.get(id.index()) {
            Some(file::Value::ValueList(items)) => {
                self.builder.charge(items.len())?;
                let items = items.iter().map(|&item| self.value(item)).collect::<Result<Vec<_>>>()?;
                self.builder.list(&items)
            }
            Some(file::Value::Tensor(tensor)) => {
                let own = Tensor::new(data_type(tensor.dtype), &tensor.dims);
                let Some(constant) = tensor.constant else { return self.builder.value(Value::Tensor(own)) };
                let Some(stored) = self.graph.constants.get(constant.index()) else {
                    let reason = format!("takes constant {constant}, but the graph has {}", self.graph.constants.len());
                    return Err(Error::Tensor { tensor: id.0, reason });
                };
                if own.byte_len() != Some(stored.len) {
                    let len = stored.len;
                    let reason = format!("takes constant {constant} of {len} bytes, which is not what its dims need");
                    return Err(Error::Tensor { tensor: id.0, reason });
                }
                let added = self.builder.delegate_constant(own, constant.0, self::constant(stored).source)?;
                self.known.0.insert(id, added);
                Ok(added)
            }
            Some(other) => self.builder.value(value(other)),
            None => self.builder.null(),
        }
    }
}

fn ids(ids: &[file::ValueId]) -> Vec<ValueId> {
    ids.iter().map(|id| ValueId(id.0)).collect()
}

fn value(value: &file::Value) -> Value {
    match value {
        file::Value::Null => Value::Null,
        file::Value::Int(value) => Value::Int(*value),
        file::Value::Double(value) => Value::Double(value.0),
        file::Value::Bool(value) => Value::Bool(*value),
        file::Value::Tensor(tensor) => Value::Tensor(Tensor {
            dtype: data_type(tensor.dtype),
            dims: tensor.dims.clone(),
            dim_order: DimOrder::CONTIGUOUS,
            quantization: None,
            constant: tensor.constant.map(|id| ConstantId(id.0)),
        }),
        file::Value::IntList(items) => Value::IntList(items.clone()),
        file::Value::DoubleList(items) => Value::DoubleList(items.iter().map(|item| item.0).collect()),
        file::Value::BoolList(items) => Value::BoolList(items.clone()),
        file::Value::ValueList(items) => Value::ValueList(ids(items)),
        file::Value::String(text) => Value::String(text.clone()),
        file::Value::SymInt(_) => Value::SymInt,
    }
}

/// The element type of a delegate's tensor.
pub(super) fn data_type(dtype: file::DataType) -> DataType {
    match dtype {
        file::DataType::Bool => DataType::Bool,
        file::DataType::UInt8 => DataType::UInt8,
        file::DataType::Int8 => DataType::Int8,
        file::DataType::Int32 => DataType::Int32,
        file::DataType::Int64 => DataType::Int64,
        file::DataType::Float16 => DataType::Float16,
        file::DataType::Float32 => DataType::Float32,
        file::DataType::Float64 => DataType::Float64,
    }
}

fn constant(constant: &file::Constant) -> Constant {
    let source = match &constant.source {
        file::ConstantSource::Named(key) => ConstantSource::Named(key.clone()),
        file::ConstantSource::Stored(_) => ConstantSource::Stored,
    };
    Constant { len: constant.len, source }
}

#[cfg(test)]
mod tests;
