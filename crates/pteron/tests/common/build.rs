//! Small programs of any shape, as a hostile exporter would write them.

use pteron::ScalarType;
use pteron_format::program::{
    Chain, DataRef, Delegate, ExecutionPlan, Instruction, SegmentId, ShapeDynamism, Tensor, Value, ValueId,
};
use pteron_format::vulkan::{self, Call, Constant, ConstantId, ConstantSource, DataType, Graph};

/// A tensor of a method.
pub(crate) fn tensor(scalar_type: ScalarType, sizes: &[u32]) -> Value {
    Value::Tensor(Box::new(Tensor { dynamism: ShapeDynamism::Bound, ..Tensor::new(scalar_type, sizes) }))
}

/// A tensor of a graph.
pub(crate) fn graph_tensor(dtype: DataType, dims: &[u32], constant: Option<u32>) -> vulkan::Value {
    vulkan::Value::Tensor(vulkan::Tensor { constant: constant.map(ConstantId), ..vulkan::Tensor::new(dtype, dims) })
}

pub(crate) fn ids(ids: &[u32]) -> Vec<ValueId> {
    ids.iter().copied().map(ValueId).collect()
}

pub(crate) fn graph_ids(ids: &[u32]) -> Vec<vulkan::ValueId> {
    ids.iter().copied().map(vulkan::ValueId).collect()
}

pub(crate) fn call(name: &str, args: &[u32]) -> Call {
    Call { node_id: 0, name: name.to_owned(), args: graph_ids(args) }
}

/// A graph that adds its input to an accumulator it keeps, and outputs the sum.
pub(crate) fn accumulator(len: u32) -> Vec<u8> {
    let graph = Graph {
        chain: vec![call("et_vk.prepack.default", &[0, 1]), call("aten.add.Tensor", &[1, 2, 3, 1])],
        values: vec![
            graph_tensor(DataType::Float32, &[len], Some(0)),
            graph_tensor(DataType::Float32, &[len], None),
            graph_tensor(DataType::Float32, &[len], None),
            vulkan::Value::Int(1),
        ],
        inputs: graph_ids(&[2]),
        outputs: graph_ids(&[1]),
        constants: vec![Constant { len: u64::from(len) * 4, source: ConstantSource::Stored(0) }],
        ..Graph::default()
    };
    vulkan::write_blob(&graph, &vec![0; len as usize * 4]).unwrap()
}

/// A method with a single chain.
pub(crate) fn plan(values: Vec<Value>, inputs: &[u32], outputs: &[u32], instructions: Vec<Instruction>) -> ExecutionPlan {
    ExecutionPlan {
        name: "forward".to_owned(),
        values,
        inputs: ids(inputs),
        outputs: ids(outputs),
        chains: vec![Chain { instructions, ..Chain::default() }],
        buffer_sizes: vec![0],
        ..ExecutionPlan::default()
    }
}

/// Adds one delegate per segment.
pub(crate) fn with_delegates(mut plan: ExecutionPlan, segments: impl IntoIterator<Item = u32>) -> ExecutionPlan {
    let delegate = |segment| Delegate::vulkan(DataRef::Segment(SegmentId(segment)));
    plan.delegates = segments.into_iter().map(delegate).collect();
    plan
}

/// The bytes of a program of one method.
pub(crate) fn program_of(plan: ExecutionPlan, segments: Vec<Vec<u8>>) -> Vec<u8> {
    pteron_format::write(&pteron_format::Program { plans: vec![plan], segments, ..pteron_format::Program::default() })
        .unwrap()
}

/// Opens bytes, as any reader of untrusted files does.
pub(crate) fn open(bytes: Vec<u8>) -> pteron::Program {
    pteron::Program::from_bytes(bytes, Vec::new()).unwrap()
}
