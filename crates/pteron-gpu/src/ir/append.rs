//! Appending an operator to a graph.

use super::{Call, Graph, Tensor, Value, ValueId};
use crate::ops::{OpDef, copy};

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

    /// Makes an output `[1, rows, columns]` its last row alone, `[1, 1, columns]`, so that the other rows need not be computed. Returns
    /// whether the output is such a tensor with more than one row.
    pub fn keep_last_row(&mut self, output: usize) -> bool {
        let Some(&all) = self.outputs.get(output) else { return false };
        let Some(Value::Tensor(tensor)) = self.value(all) else { return false };
        let (&[1, rows, columns], dtype) = (tensor.dims.as_slice(), tensor.dtype) else { return false };
        if rows < 2 {
            return false;
        }
        let [row, kept] =
            [&[1, columns][..], &[1, 1, columns]].map(|dims| self.add(Value::Tensor(Tensor::new(dtype, dims))));
        let [axis, last] = [1, -1].map(|number| self.add(Value::Int(number)));
        let origin = self.calls.len();
        for (name, args) in [(copy::SELECT, vec![all, axis, last, row]), (copy::UNSQUEEZE, vec![row, axis, kept])] {
            self.calls.push(Call::new(&copy::DEF, name, args).at(origin));
        }
        self.outputs[output] = kept;
        true
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

    #[test]
    fn an_output_of_rows_becomes_its_last_row() {
        let mut graph = negation();
        assert!(!graph.keep_last_row(0), "rows without a batch");
        assert!(!graph.keep_last_row(7));
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[1, 3, 40]);
        let y = builder.tensor(DataType::Float32, &[1, 3, 40]);
        builder.call("aten.neg.default", &[x, y]);
        builder.output(y);
        assert!(builder.graph.keep_last_row(0));
        assert!(!builder.graph.keep_last_row(0), "one row");
        let call =
            |rows: u32| vec![crate::testing::f32s(&[1, rows, 40], crate::testing::noise(rows.into(), (rows * 40) as usize))];
        crate::testing::check(&builder, &[call(3), call(1), call(2)], 0.0);
    }
}
