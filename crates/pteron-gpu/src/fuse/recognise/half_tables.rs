//! Embedding tables of 16-bit floats, which stay so on the GPU. A table that other operators read as well is left as it is: a constant has
//! one form on the GPU.

use std::collections::{HashMap, HashSet};

use super::super::editor::Editor;
use crate::ir::Value;
use crate::live::TensorId;
use crate::ops::embedding::half_table::HalfEmbedding;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    let graph = editor.graph;
    let lookups: HashMap<usize, TensorId> =
        editor.nodes().filter_map(|(index, node)| Some((index, HalfEmbedding::table(node, graph)?))).collect();
    if lookups.is_empty() {
        return;
    }
    let mut holders: HashMap<u32, usize> = HashMap::new();
    for constant in graph.source.values.iter().filter_map(Value::as_tensor).filter_map(|tensor| tensor.constant) {
        *holders.entry(constant.0).or_default() += 1;
    }
    let only_looked_up = |table: &TensorId| {
        let constant = graph.source.values.get(table.index()).and_then(Value::as_tensor).and_then(|own| own.constant);
        let readers = editor.uses.all_readers(*table);
        let single = constant.is_some_and(|constant| holders.get(&constant.0) == Some(&1));
        single && !graph.outputs.contains(table) && readers.iter().all(|reader| lookups.get(reader) == Some(table))
    };
    let tables: HashSet<TensorId> = lookups.values().copied().filter(only_looked_up).collect();
    if tables.is_empty() {
        return;
    }
    let mut calls = graph.source.calls.clone();
    for (&index, table) in &lookups {
        if tables.contains(table)
            && let (Some(call), Some(new)) = (calls.get_mut(index), HalfEmbedding::call(&graph.nodes[index], graph))
        {
            *call = new;
        }
    }
    tables.iter().for_each(|&table| HalfEmbedding::become_bytes(&mut editor.source, table));
    editor.rewrite(calls);
}
