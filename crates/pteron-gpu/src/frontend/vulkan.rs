//! Translates the graph of a Vulkan delegate.
//!
//! The delegate's schema is close to the IR: values and calls are translated one by one and keep their ids. The exporter's
//! storage, layout and memory objects are ignored, because memory is planned from our own lifetimes.

use pteron_format::vulkan as file;

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
    };
    crate::graph::declared_flows(&known, &calls)
}

fn call((origin, call): (usize, &file::Call)) -> Result<Call> {
    match Call::in_file(&call.name, ids(&call.args)) {
        Some(translated) => Ok(translated.at(origin)),
        None => Err(Error::UnknownOperator { name: call.name.clone(), index: origin }),
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

fn data_type(dtype: file::DataType) -> DataType {
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
