//! The bytes of constants that a call reads, computed without running it: the memory traffic that weights cause.

use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;

/// Bytes of constants that a call reads for one row of its outputs, in their form on the GPU: each constant whole, once per
/// operator that reads it, and one index of those that operators declare to [slice](crate::args::Args::reads_slices), such
/// as embedding tables.
#[must_use]
pub fn constant_bytes_per_row(graph: &DecodedGraph) -> u64 {
    // The constant that each tensor is, or aliases.
    let constant = |(id, role): (u32, &Role)| matches!(role, Role::Constant(_)).then_some(TensorId(id));
    let mut origin: Vec<Option<TensorId>> = (0..).zip(&graph.roles).map(constant).collect();
    let mut total = 0u64;
    for node in &graph.nodes {
        if let (Some(source), Some(view)) = (node.op.alias(), node.flow.writes.first()) {
            origin[view.index()] = origin[source.index()];
            continue;
        }
        for read in &node.flow.reads {
            let Some(constant) = origin[read.index()] else { continue };
            let info = graph.info(constant);
            let axes = node.flow.sliced_reads.iter().filter(|(tensor, _)| tensor == read).map(|&(_, axis)| axis);
            // A view may have other dims than the constant: the slice is a share of its own.
            let share = axes.map(|axis| graph.info(*read).bound.get(axis).copied().unwrap_or(1)).max().unwrap_or(1);
            total = total.saturating_add(info.elem.bytes(info.bound.count()) / u64::from(share.max(1)));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, Value};
    use crate::testing::{GraphBuilder, noise};

    /// A table of 10 rows of 8, gathered from; then the same 8 × 8 weights twice, once directly and once through a view.
    #[test]
    fn weights_count_whole_and_lookups_by_the_row() {
        let mut builder = GraphBuilder::new();
        let table = builder.floats(&[10, 8], &noise(1, 80));
        let weight = builder.floats(&[8, 8], &noise(2, 64));
        let tokens = builder.input(DataType::Int32, &[1, 5]);
        let [embedded, once, twice] = [(); 3].map(|()| builder.tensor(DataType::Float32, &[1, 5, 8]));
        let view = builder.tensor(DataType::Float32, &[8, 8]);
        let none = builder.value(Value::Null);
        let (padding, no) = (builder.int(-1), builder.value(Value::Bool(false)));
        builder.call("aten.embedding.default", &[table, tokens, padding, no, no, embedded]);
        builder.call("aten.linear.default", &[embedded, weight, none, once]);
        builder.call("et_vk.prepack.default", &[weight, view]);
        builder.call("aten.linear.default", &[once, view, none, twice]);
        builder.output(twice);
        assert_eq!(constant_bytes_per_row(&builder.decode().unwrap()), 4 * (8 + 64 + 64));
    }

    /// A 4-bit table of 10 rows of 64 with two scales each.
    #[test]
    fn scales_of_a_quantised_table_count_by_the_row() {
        let mut builder = GraphBuilder::new();
        let table = builder.constant(DataType::UInt8, &[10, 32], vec![0; 320]);
        let scales = builder.floats(&[10, 2], &noise(1, 20));
        let tokens = builder.input(DataType::Int32, &[1, 5]);
        let out = builder.tensor(DataType::Float32, &[1, 5, 64]);
        let (group, linear) = (builder.int(32), builder.value(Value::Bool(false)));
        builder.call("et_vk.embedding_q4gsw.default", &[table, scales, group, tokens, linear, out]);
        builder.output(out);
        assert_eq!(constant_bytes_per_row(&builder.decode().unwrap()), 32 + 2 * 4);
    }
}
