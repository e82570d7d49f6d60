//! Appending an operator to a graph.

use super::{Call, Graph, Tensor, Value, ValueId};
use crate::ops::OpDef;

/// The inputs and outputs that an appended call added to its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Indices of the new inputs among the graph's inputs.
    pub inputs: Vec<usize>,
    /// Indices of the new outputs among the graph's outputs.
    pub outputs: Vec<usize>,
}

impl Graph {
    /// Appends a call of an operator that reads an output of the graph. The graph gets new inputs, which the operator takes after
    /// that output, and new outputs, which it writes. The operator may be an internal one.
    ///
    /// Returns `None`, and changes nothing, if the graph has no such output. Decoding the graph checks whether the operator
    /// accepts its arguments.
    pub fn append_call(
        &mut self,
        operator: (&'static OpDef, &'static str),
        output: usize,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Option<Appended> {
        let read = *self.outputs.get(output)?;
        let mut add = |tensors: &[Tensor]| -> Vec<ValueId> {
            tensors.iter().map(|tensor| self.add(Value::Tensor(tensor.clone()))).collect()
        };
        let (inputs, outputs) = (add(inputs), add(outputs));
        let args = [&[read], inputs.as_slice(), &outputs].concat();
        self.calls.push(Call::new(operator.0, operator.1, args).at(self.calls.len()));
        let indices = |before: usize, added: &[ValueId]| (before..before + added.len()).collect();
        let appended =
            Appended { inputs: indices(self.inputs.len(), &inputs), outputs: indices(self.outputs.len(), &outputs) };
        self.inputs.extend(inputs);
        self.outputs.extend(outputs);
        Some(appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::sample_row;
    use crate::testing::GraphBuilder;

    fn negation() -> Graph {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[3, 40]);
        let y = builder.tensor(DataType::Float32, &[3, 40]);
        builder.call("aten.neg.default", &[x, y]);
        builder.output(y);
        builder.graph
    }

    fn append(graph: &mut Graph, output: usize, words: u32) -> Option<Appended> {
        let integers = |dims: &[u32]| [Tensor::new(DataType::Int32, dims)];
        graph.append_call((&sample_row::DEF, sample_row::NAME), output, &integers(&[words]), &integers(&[1, 1]))
    }

    #[test]
    fn an_appended_internal_operator_reads_an_output_and_adds_ports() {
        let mut graph = negation();
        assert_eq!(append(&mut graph, 0, 4), Some(Appended { inputs: vec![1], outputs: vec![1] }));
        assert_eq!(append(&mut graph, 0, 4), Some(Appended { inputs: vec![2], outputs: vec![2] }));
        let decoded = crate::graph::DecodedGraph::decode(graph).unwrap();
        assert_eq!((decoded.inputs.len(), decoded.outputs.len()), (3, 3));
        let names: Vec<&str> = decoded.nodes.iter().map(|node| node.name).collect();
        assert_eq!(names, ["aten.neg.default", sample_row::NAME, sample_row::NAME]);
        assert_eq!(decoded.nodes[2].flow.reads, [decoded.outputs[0], decoded.inputs[2]]);
    }

    #[test]
    fn appending_to_a_missing_output_changes_nothing() {
        let mut graph = negation();
        assert_eq!(append(&mut graph, 1, 4), None);
        assert_eq!((graph.values.len(), graph.calls.len(), graph.inputs.len(), graph.outputs.len()), (2, 1, 1, 1));
    }

    #[test]
    fn an_appended_operator_that_rejects_its_arguments_is_named() {
        let mut graph = negation();
        append(&mut graph, 0, 5).unwrap();
        let error = crate::graph::DecodedGraph::decode(graph).unwrap_err().to_string();
        assert!(error.starts_with("pteron.sample_row (call 1): `sampling`"), "{error}");
    }
}
