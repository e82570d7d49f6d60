use super::*;
use crate::ir::{self, DataType, DimOrder, Quantization, Tensor};

/// A graph of one call of the operator `aten.neg.default` on this tensor, and the tensor's scales.
fn graph(x: Tensor) -> ir::Graph {
    let mut graph = ir::Graph::default();
    let scales = graph.add(Value::Tensor(Tensor::new(DataType::Float32, &[3])));
    let x = graph.add(Value::Tensor(x));
    let out = graph.add(Value::Tensor(Tensor::new(DataType::Float32, &[2, 3])));
    graph.calls.extend(Call::named("aten.neg.default", vec![x, out]));
    (graph.inputs, graph.outputs) = (vec![scales, x], vec![out]);
    graph
}

fn args<'a>(graph: &'a ir::Graph, infos: &'a [Option<TensorInfo>], roles: &'a [Role]) -> Args<'a> {
    Args::new(graph, infos, roles, &graph.calls[0])
}

#[test]
fn operators_reject_quantised_tensors_unless_they_ask_for_them() {
    let per_channel = Quantization::PerChannel { axis: 1, scales: ValueId(0), zero_point: 0 };
    let x = Tensor { quantization: Some(per_channel.clone()), ..Tensor::new(DataType::Int8, &[2, 3]) };
    let graph = graph(x);
    let error = crate::graph::DecodedGraph::decode(graph.clone()).unwrap_err().to_string();
    assert_eq!(error, "aten.neg.default (call 0): `self` is quantised, expected a tensor of plain numbers");

    let mut args = args(&graph, &[], &[]);
    assert_eq!(args.quantized_tensor("x"), Ok((TensorId(1), per_channel)));
    assert_eq!(args.flow.reads, [TensorId(1), TensorId(0)], "its scales are read with it");
    assert!(args.quantized_tensor("out").is_err());
}

#[test]
fn operators_reject_memory_in_another_order() {
    let x = Tensor { dim_order: DimOrder::new(&[1, 0]).unwrap(), ..Tensor::new(DataType::Float32, &[2, 3]) };
    let error = crate::graph::DecodedGraph::decode(graph(x)).unwrap_err().to_string();
    assert!(error.contains("`self` has its dims in another order in memory"), "{error}");
}

#[test]
fn parameters_of_quantised_tensors_are_tensors() {
    let nothing = Quantization::PerToken { row_dims: 1, scales: ValueId(0), zero_points: ValueId(9) };
    let x = Tensor { quantization: Some(nothing), ..Tensor::new(DataType::Int8, &[2, 3]) };
    let error = crate::graph::DecodedGraph::decode(graph(x)).unwrap_err().to_string();
    assert_eq!(error, "tensor 1 is quantised with the parameters of value 9, which is no tensor");
}

#[test]
fn memory_orders_are_of_the_tensors_rank() {
    let x = Tensor { dim_order: DimOrder::new(&[1, 0]).unwrap(), ..Tensor::new(DataType::Float32, &[2, 3, 1]) };
    let error = crate::graph::DecodedGraph::decode(graph(x)).unwrap_err().to_string();
    assert!(error.starts_with("tensor 1 has 3 dimensions, but its order in memory"), "{error}");
}
