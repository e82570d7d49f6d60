//! What a call must read of the graph's constants, told without running it.

use crate::graph::{Graph, Role};
use crate::live::TensorId;
use crate::ops::sdpa::ROTARY;

/// Operators that take rows of a constant, such as those of a token or of a position, and leave the others alone.
const LOOKUPS: [&str; 6] = [
    "aten.embedding.default",
    "aten.index_select.default",
    "aten.select_copy.int",
    "aten.slice_copy.Tensor",
    "et_vk.embedding_q4gsw.default",
    ROTARY,
];

/// Bytes of constants that a call for a single token reads, as the GPU holds them: weights whole, as often as an operator reads
/// them, and one row of each table in which a token or a position is looked up.
#[must_use]
pub fn constant_bytes_per_token(graph: &Graph) -> u64 {
    // The constant that each tensor is, or shares the memory of.
    let constant = |(id, role): (u32, &Role)| matches!(role, Role::Constant(_)).then_some(TensorId(id));
    let mut origin: Vec<Option<TensorId>> = (0..).zip(&graph.roles).map(constant).collect();
    let mut total = 0u64;
    for node in &graph.nodes {
        if let (Some(source), Some(view)) = (node.op.alias(), node.flow.writes.first()) {
            origin[view.index()] = origin[source.index()];
            continue;
        }
        let one_row = LOOKUPS.contains(&node.name);
        for constant in node.flow.reads.iter().filter_map(|read| origin[read.index()]) {
            let info = graph.info(constant);
            let rows = if one_row { info.bound.first().copied().unwrap_or(1).max(1) } else { 1 };
            total = total.saturating_add(info.elem.bytes(info.bound.count()) / u64::from(rows));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, Value};
    use crate::testing::{Sketch, noise};

    /// A table of 10 rows of 8, looked up; then twice the same weights of 8 by 8, once as they are and once as a view of them.
    #[test]
    fn weights_count_whole_and_tables_by_the_row() {
        let mut sketch = Sketch::new();
        let table = sketch.floats(&[10, 8], &noise(1, 80));
        let weight = sketch.floats(&[8, 8], &noise(2, 64));
        let tokens = sketch.input(DataType::Int32, &[1, 5]);
        let [embedded, once, twice] = [(); 3].map(|()| sketch.tensor(DataType::Float32, &[1, 5, 8]));
        let view = sketch.tensor(DataType::Float32, &[8, 8]);
        let none = sketch.value(Value::Null);
        let (padding, no) = (sketch.int(-1), sketch.value(Value::Bool(false)));
        sketch.call("aten.embedding.default", &[table, tokens, padding, no, no, embedded]);
        sketch.call("aten.linear.default", &[embedded, weight, none, once]);
        sketch.call("et_vk.prepack.default", &[weight, view]);
        sketch.call("aten.linear.default", &[once, view, none, twice]);
        sketch.output(twice);
        assert_eq!(constant_bytes_per_token(&sketch.decode().unwrap()), 4 * (8 + 64 + 64));
    }
}
