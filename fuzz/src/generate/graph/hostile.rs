//! Changes that no exporter would make.

use pteron_format::vulkan::{Constant, ConstantId, ConstantSource, DataType, Graph, Value, ValueId};
use pteron_gpu::ops::OPS;

use crate::generate::cursor::Cursor;

fn some_value(graph: &Graph, cursor: &mut Cursor<'_>) -> ValueId {
    ValueId(cursor.below(graph.values.len()) as u32)
}

/// Changes one thing of a graph.
pub fn change(graph: &mut Graph, cursor: &mut Cursor<'_>) {
    if graph.values.is_empty() || graph.chain.is_empty() {
        return;
    }
    match cursor.below(12) {
        0..=2 => call(graph, cursor),
        3..=6 => value(graph, cursor),
        7 => {
            // An input more, of anything: a constant that is one too, or a tensor that is computed.
            let id = some_value(graph, cursor);
            graph.inputs.push(id);
        }
        8 => {
            let id = some_value(graph, cursor);
            match cursor.flip() {
                true => graph.outputs.push(id),
                false => drop(graph.outputs.pop()),
            }
        }
        9 => {
            let (from, to) = (cursor.below(graph.chain.len()), cursor.below(graph.chain.len()));
            graph.chain.swap(from, to);
        }
        10 => {
            let again = graph.chain[cursor.below(graph.chain.len())].clone();
            graph.chain.push(again);
        }
        _ => {
            // All calls share what one of them takes.
            let shared = some_value(graph, cursor);
            for call in &mut graph.chain {
                if let Some(argument) = call.args.first_mut() {
                    *argument = shared;
                }
            }
        }
    }
}

/// Changes a call: an argument, their number, or the operator's name.
fn call(graph: &mut Graph, cursor: &mut Cursor<'_>) {
    let at = cursor.below(graph.chain.len());
    let other = some_value(graph, cursor);
    let call = &mut graph.chain[at];
    match cursor.below(6) {
        0 | 1 if !call.args.is_empty() => {
            let argument = cursor.below(call.args.len());
            call.args[argument] = other;
        }
        2 => drop(call.args.pop()),
        3 => call.args.push(other),
        4 => {
            let names = OPS[cursor.below(OPS.len())].names;
            call.name = names[cursor.below(names.len())].to_owned();
        }
        _ if call.args.len() > 1 => {
            let (from, to) = (cursor.below(call.args.len()), cursor.below(call.args.len()));
            call.args.swap(from, to);
        }
        _ => {}
    }
}

/// Changes a value: a tensor's sizes, type or constant, a number, or a list.
fn value(graph: &mut Graph, cursor: &mut Cursor<'_>) {
    let at = cursor.below(graph.values.len());
    let other = some_value(graph, cursor);
    let constants = graph.constants.len();
    let wild = cursor.flip();
    match &mut graph.values[at] {
        Value::Tensor(tensor) => {
            match cursor.below(5) {
                0 | 1 if !tensor.dims.is_empty() => {
                    let axis = cursor.below(tensor.dims.len());
                    tensor.dims[axis] = if wild { cursor.edge_size() } else { cursor.size(false) };
                }
                2 if tensor.dims.len() < 12 => tensor.dims.push(cursor.size(false)),
                3 => tensor.dtype = cursor.of(DataType::ALL),
                _ if constants > 0 => tensor.constant = Some(ConstantId(cursor.below(constants) as u32)),
                _ => drop(tensor.dims.pop()),
            }
            if let (Some(id), Some(len)) = (tensor.constant, tensor.byte_len()) {
                // Files whose constants have another length are refused before a graph is decoded.
                let fits = graph.constants.get(id.index()).is_some_and(|constant| constant.len == len);
                if !fits {
                    let source = ConstantSource::Named(format!("{len} bytes"));
                    graph.constants.push(Constant { len, source });
                    tensor.constant = Some(ConstantId(constants as u32));
                }
            }
        }
        Value::Int(value) => *value = cursor.integer(),
        Value::Double(value) => value.0 = cursor.float(),
        Value::IntList(items) => match cursor.below(3) {
            0 => items.push(cursor.integer()),
            1 => drop(items.pop()),
            _ => {
                let at = cursor.below(items.len());
                if let Some(item) = items.get_mut(at) {
                    *item = cursor.integer();
                }
            }
        },
        Value::ValueList(items) => match cursor.below(4) {
            0 => items.push(other),
            1 => drop(items.pop()),
            2 => {
                let at = cursor.below(items.len());
                if let Some(item) = items.get_mut(at) {
                    *item = other;
                }
            }
            // The same tensor again and again.
            _ => items.extend(std::iter::repeat_n(other, 40)),
        },
        value @ Value::Null => *value = Value::Int(cursor.integer()),
        value => *value = Value::Null,
    }
}
