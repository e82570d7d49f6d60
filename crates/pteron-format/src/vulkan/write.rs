//! Writes a typed graph to tables.

use pteron_schema::vulkan as fb;
use pteron_schema::{Builder, UnionWIPOffset, Vector, WIPOffset};

use super::read::{NAMED, NONE, UNSET};
use super::*;
use crate::program::{signed, tables};

type Off<T> = WIPOffset<T>;

pub(crate) fn write_graph<'b>(b: &mut Builder<'b>, graph: &Graph) -> Off<fb::VkGraph<'b>> {
    let args = fb::VkGraphArgs {
        version: Some(b.create_string(&graph.version)),
        chain: tables(b, &graph.chain, |b, call| {
            let name = Some(b.create_string(&call.name));
            let args = ids(b, &call.args);
            fb::OperatorCallArgs { node_id: call.node_id, name, args, ..Default::default() }.write(b)
        }),
        values: tables(b, &graph.values, value),
        input_ids: Some(b.create_vector_from_iter(graph.inputs.iter().map(|id| id.0))),
        output_ids: Some(b.create_vector_from_iter(graph.outputs.iter().map(|id| id.0))),
        constants: tables(b, &graph.constants, bytes),
        shaders: tables(b, &graph.shaders, bytes),
        storage_type_override: graph.storage_override.to_wire(),
        memory_layout_override: graph.layout_override.to_wire(),
        ..Default::default()
    };
    args.write(b)
}

fn ids<'b>(b: &mut Builder<'b>, ids: &[ValueId]) -> Option<Off<Vector<'b, i32>>> {
    Some(b.create_vector_from_iter(ids.iter().map(|id| signed(id.0))))
}

fn bytes<'b>(b: &mut Builder<'b>, constant: &Constant) -> Off<fb::VkBytes<'b>> {
    let (offset, key) = match &constant.source {
        ConstantSource::Named(key) => (NAMED, key.as_str()),
        ConstantSource::Stored(offset) => (*offset, ""),
    };
    let named_key = Some(b.create_string(key));
    fb::VkBytesArgs { offset, length: constant.len, named_key, ..Default::default() }.write(b)
}

fn value<'b>(b: &mut Builder<'b>, value: &Value) -> Off<fb::VkValue<'b>> {
    let value = match value {
        Value::Null => (fb::Null::TAG, fb::NullArgs::default().write(b).as_union_value()),
        Value::Int(int_val) => {
            (fb::Int::TAG, fb::IntArgs { int_val: *int_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Double(Float(double_val)) => {
            (fb::Double::TAG, fb::DoubleArgs { double_val: *double_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Bool(bool_val) => {
            (fb::Bool::TAG, fb::BoolArgs { bool_val: *bool_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Tensor(t) => (fb::VkTensor::TAG, tensor(b, t).as_union_value()),
        Value::String(text) => {
            let string_val = Some(b.create_string(text));
            (fb::String::TAG, fb::StringArgs { string_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::SymInt(value) => {
            (fb::SymInt::TAG, fb::SymIntArgs { value: *value, ..Default::default() }.write(b).as_union_value())
        }
        list => list_value(b, list),
    };
    fb::VkValueArgs { value: Some(value), ..Default::default() }.write(b)
}

fn list_value(b: &mut Builder<'_>, value: &Value) -> (u8, Off<UnionWIPOffset>) {
    match value {
        Value::IntList(items) => {
            let items = Some(b.create_vector(items));
            (fb::IntList::TAG, fb::IntListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::DoubleList(items) => {
            let items = Some(b.create_vector_from_iter(items.iter().map(|item| item.0)));
            (fb::DoubleList::TAG, fb::DoubleListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::BoolList(items) => {
            let items = Some(b.create_vector(items));
            (fb::BoolList::TAG, fb::BoolListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::ValueList(items) => {
            let items = ids(b, items);
            (fb::ValueList::TAG, fb::ValueListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        // The other kinds are written by `value`.
        _ => (fb::Null::TAG, fb::NullArgs::default().write(b).as_union_value()),
    }
}

fn tensor<'b>(b: &mut Builder<'b>, tensor: &Tensor) -> Off<fb::VkTensor<'b>> {
    let dims = Some(b.create_vector(&tensor.dims));
    fb::VkTensorArgs {
        datatype: tensor.dtype.to_wire(),
        dims,
        constant_id: tensor.constant.map_or(NONE, |id| signed(id.0)),
        mem_obj_id: tensor.memory_object.map_or(NONE, signed),
        storage_type: tensor.storage.to_wire(),
        memory_layout: tensor.layout.to_wire(),
        staging_datatype: tensor.staging.map_or(UNSET, DataType::to_wire),
        ..Default::default()
    }
    .write(b)
}
