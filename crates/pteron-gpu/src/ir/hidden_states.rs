//! Hidden states: the rows from which a graph computes an output's columns.

use super::{DataType, Graph, ValueId};
use crate::error::Result;
use crate::fuse::Fusions;
use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;

impl Graph {
    /// Replaces an output by the rows of floats from which its columns are computed: by the hidden states that the last linear of a
    /// decoder reads, where the output is its logits. What only the old output needed is removed when the graph is fused.
    ///
    /// Returns whether there are such rows. The search goes back from the output, along the first tensor that each operator reads, to one
    /// with another number of columns.
    ///
    /// # Errors
    /// A graph that cannot be decoded.
    pub fn keep_hidden_states(&mut self, output: usize) -> Result<bool> {
        let decoded = self.clone().decode(&Fusions::NONE)?;
        let Some(rows) = rows_before(&decoded, output) else { return Ok(false) };
        *self = decoded.source;
        self.outputs[output] = ValueId(rows.0);
        Ok(true)
    }
}

fn rows_before(graph: &DecodedGraph, output: usize) -> Option<TensorId> {
    let columns = |tensor: TensorId| graph.info(tensor).bound.last();
    let is_float = |tensor: TensorId| {
        let value = graph.source.value(ValueId(tensor.0)).and_then(super::Value::as_tensor);
        value.is_some_and(|tensor| matches!(tensor.dtype, DataType::Float32 | DataType::Float16 | DataType::BFloat16))
    };
    let mut tensor = *graph.outputs.get(output)?;
    let given = columns(tensor);
    let mut before = graph.nodes.len();
    // Operators are in order, so each one is visited once.
    while let Some(at) = graph.nodes[..before].iter().rposition(|node| node.flow.writes.contains(&tensor)) {
        before = at;
        let mut reads = graph.nodes[at].flow.reads.iter();
        tensor = *reads.find(|&&read| !matches!(graph.role(read), Role::Constant(_)))?;
        // Rows that were quantised for a linear are computed from floats.
        if is_float(tensor) && columns(tensor) != given {
            return Some(tensor);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GraphBuilder, check, f32s, noise};

    /// exp, a linear from 12 to 40 columns, and neg.
    fn decoder() -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[1, 3, 12]);
        let weight = builder.floats(&[40, 12], &noise(1, 480));
        let none = builder.value(crate::ir::Value::Null);
        let hidden = builder.tensor(DataType::Float32, &[1, 3, 12]);
        let [linear, logits] = [0, 1].map(|_| builder.tensor(DataType::Float32, &[1, 3, 40]));
        builder.call("aten.exp.default", &[x, hidden]);
        builder.call("aten.linear.default", &[hidden, weight, none, linear]);
        builder.call("aten.neg.default", &[linear, logits]);
        builder.output(logits);
        builder
    }

    #[test]
    fn logits_become_the_rows_that_the_last_linear_reads() {
        let mut builder = decoder();
        assert!(builder.graph.keep_hidden_states(0).unwrap());
        let fused = builder.graph.clone().decode(&Fusions::ALL).unwrap();
        let names: Vec<&str> = fused.nodes.iter().map(|node| node.name).collect();
        assert_eq!(names, ["aten.exp.default"], "nothing else is computed");
        assert_eq!(&*fused.info(fused.outputs[0]).bound, &[1, 3, 12]);
        check(&builder, &[vec![f32s(&[1, 3, 12], noise(2, 36))]], 1e-6);
    }

    #[test]
    fn an_output_whose_columns_nothing_computes_stays() {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[1, 3, 12]);
        let y = builder.tensor(DataType::Float32, &[1, 3, 12]);
        builder.call("aten.exp.default", &[x, y]);
        builder.output(y);
        assert!(!builder.graph.keep_hidden_states(0).unwrap());
        assert!(!builder.graph.keep_hidden_states(5).unwrap());
        assert_eq!(builder.graph.outputs, [y]);
    }
}
