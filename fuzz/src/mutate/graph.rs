//! Changes to fields of a delegate's graph.

use fastrand::Rng;
use pteron_format::vulkan::{
    Call, Constant, ConstantId, ConstantSource, DataType, Graph, MemoryLayout, StorageType, Tensor, Value, ValueId,
};

use super::atoms::{data, index, list, name, number, number32};
use super::external::float;

pub(super) fn mutate(rng: &mut Rng, graph: &mut Graph, stored: &mut Vec<u8>) {
    let (values, constants) = (graph.values.len(), graph.constants.len());
    match rng.u8(..16) {
        0 => name(rng, &mut graph.version),
        1..4 => list(rng, &mut graph.chain, |rng, change| call(rng, change, values)),
        4..9 => list(rng, &mut graph.values, |rng, change| value(rng, change, values, constants)),
        9 => list(rng, &mut graph.inputs, |rng, id| *id = ValueId(index(rng, id.0, values))),
        10 => list(rng, &mut graph.outputs, |rng, id| *id = ValueId(index(rng, id.0, values))),
        11 | 12 => list(rng, &mut graph.constants, |rng, change| constant(rng, change, stored.len())),
        13 => {
            graph.shaders.push(Constant { len: 0, source: ConstantSource::Stored(0) });
            list(rng, &mut graph.shaders, |rng, change| constant(rng, change, stored.len()));
        }
        14 => data(rng, stored),
        _ => {
            graph.storage_override = storage(rng);
            graph.layout_override = layout(rng);
        }
    }
}

fn call(rng: &mut Rng, call: &mut Call, values: usize) {
    match rng.u8(..4) {
        0 => call.node_id = number32(rng, call.node_id),
        1 => name(rng, &mut call.name),
        _ => list(rng, &mut call.args, |rng, id| *id = ValueId(index(rng, id.0, values))),
    }
}

fn constant(rng: &mut Rng, constant: &mut Constant, stored: usize) {
    match (rng.u8(..4), &mut constant.source) {
        (0, _) => constant.len = number(rng, constant.len),
        (1, _) => {
            constant.source = ConstantSource::Stored(0);
            constant.len = rng.u64(..=stored as u64);
        }
        (_, ConstantSource::Stored(offset)) => *offset = number(rng, *offset),
        (_, ConstantSource::Named(key)) => name(rng, key),
    }
}

fn value(rng: &mut Rng, value: &mut Value, values: usize, constants: usize) {
    if rng.u8(..6) == 0 {
        *value = any(rng, values);
        return;
    }
    match value {
        Value::Null => *value = any(rng, values),
        Value::Int(number_) => *number_ = number(rng, number_.cast_unsigned()).cast_signed(),
        Value::Double(old) => *old = float(rng),
        Value::Bool(old) => *old = !*old,
        Value::Tensor(old) => tensor(rng, old, constants),
        Value::IntList(items) => list(rng, items, |rng, item| *item = number(rng, item.cast_unsigned()).cast_signed()),
        Value::DoubleList(items) => list(rng, items, |rng, item| *item = float(rng)),
        Value::BoolList(items) => list(rng, items, |_, item| *item = !*item),
        Value::ValueList(items) => list(rng, items, |rng, id| *id = ValueId(index(rng, id.0, values))),
        Value::String(text) => name(rng, text),
        Value::SymInt(old) => *old = number32(rng, old.cast_unsigned()).cast_signed(),
    }
}

/// A value of any kind.
fn any(rng: &mut Rng, values: usize) -> Value {
    let id = |rng: &mut Rng| ValueId(index(rng, 0, values));
    match rng.u8(..11) {
        0 => Value::Null,
        1 => Value::Int(-1),
        2 => Value::Double(float(rng)),
        3 => Value::Bool(true),
        4 => Value::Tensor(Tensor {
            dtype: DataType::Float32,
            dims: vec![rng.u32(..4); rng.usize(..18)],
            constant: None,
            memory_object: Some(0),
            storage: StorageType::Unset,
            layout: MemoryLayout::Unset,
            staging: None,
        }),
        5 => Value::IntList(vec![i64::MIN, 0, i64::MAX]),
        6 => Value::DoubleList(vec![float(rng); 3]),
        7 => Value::BoolList(vec![true, false]),
        8 => Value::ValueList(vec![id(rng), id(rng)]),
        9 => Value::String("text".to_owned()),
        _ => Value::SymInt(0),
    }
}

fn tensor(rng: &mut Rng, tensor: &mut Tensor, constants: usize) {
    match rng.u8(..8) {
        0 => tensor.dtype = dtype(rng),
        1 | 2 => list(rng, &mut tensor.dims, |rng, dim| *dim = number32(rng, *dim)),
        3 => tensor.dims.push(number32(rng, 1)),
        4 => {
            let old = tensor.constant.map_or(0, |id| id.0);
            tensor.constant = rng.bool().then(|| ConstantId(index(rng, old, constants)));
        }
        5 => tensor.memory_object = rng.bool().then(|| number32(rng, 0)),
        6 => tensor.staging = rng.bool().then(|| dtype(rng)),
        _ => {
            tensor.storage = storage(rng);
            tensor.layout = layout(rng);
        }
    }
}

fn dtype(rng: &mut Rng) -> DataType {
    *rng.choice(DataType::ALL).unwrap_or(&DataType::Bool)
}

fn storage(rng: &mut Rng) -> StorageType {
    *rng.choice(StorageType::ALL).unwrap_or(&StorageType::Unset)
}

fn layout(rng: &mut Rng) -> MemoryLayout {
    *rng.choice(MemoryLayout::ALL).unwrap_or(&MemoryLayout::Unset)
}
