//! A small program, graph and `.ptd` file that contain every kind of item.

use pteron_format::external::{Entry, ExternalData, TensorLayout};
use pteron_format::program::{
    AllocationDetails, BufferDevice, Chain, CompileSpec, ContainerMetadata, DataRef, Delegate, DeviceType, ExecutionPlan,
    ExtraTensorInfo, Frame, Instruction, NamedData, Operator, SegmentId, ShapeDynamism, SubsegmentOffsets, Tensor,
    TensorDataLocation, Value, ValueId,
};
use pteron_format::vulkan::{self, Call, Constant, ConstantId, ConstantSource, DataType, Graph};
use pteron_format::{Float, Program, ScalarType};

/// The sample graph's own bytes of constants.
pub(crate) const STORED: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

pub(crate) fn graph_tensor(dims: &[u32], constant: Option<u32>) -> vulkan::Tensor {
    vulkan::Tensor {
        constant: constant.map(ConstantId),
        memory_object: Some(0),
        ..vulkan::Tensor::new(DataType::Float32, dims)
    }
}

/// One call, every kind of value, a named and a stored constant. Value 0 comes in, value 2 goes out.
pub(crate) fn graph() -> Graph {
    use vulkan::{Value, ValueId};
    Graph {
        version: "0".to_owned(),
        chain: vec![Call { node_id: 7, name: "aten.add.Tensor".to_owned(), args: [0, 1, 3, 2].map(ValueId).to_vec() }],
        values: vec![
            Value::Tensor(graph_tensor(&[2, 3], None)),
            Value::Tensor(graph_tensor(&[2, 3], Some(0))),
            Value::Tensor(vulkan::Tensor { staging: Some(DataType::Float16), ..graph_tensor(&[2, 3], None) }),
            Value::Int(1),
            Value::ValueList([0, 3, 10].map(ValueId).to_vec()),
            Value::Tensor(graph_tensor(&[2], Some(1))),
            Value::IntList(vec![-1, i64::MAX]),
            Value::DoubleList(vec![Float(-0.0), Float(f64::NAN)]),
            Value::BoolList(vec![true, false]),
            Value::String("text".to_owned()),
            Value::SymInt(-3),
            Value::Null,
            Value::Bool(true),
            Value::Double(Float(-0.0)),
        ],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(2)],
        constants: vec![
            Constant { len: 24, source: ConstantSource::Named("weight".to_owned()) },
            Constant { len: 8, source: ConstantSource::Stored(0) },
        ],
        ..Graph::default()
    }
}

pub(crate) fn tensor(sizes: &[u32]) -> Tensor {
    Tensor::new(ScalarType::Float, sizes)
}

fn planned(sizes: &[u32], offset: u64) -> Tensor {
    Tensor { allocation: Some(AllocationDetails { memory: 1, offset }), dynamism: ShapeDynamism::Bound, ..tensor(sizes) }
}

fn values() -> Vec<Value> {
    let boxed = |tensor| Value::Tensor(Box::new(tensor));
    let outside = ExtraTensorInfo {
        mutable_segment: 0,
        name: Some("outside".to_owned()),
        location: TensorDataLocation::External,
        device: DeviceType::Cpu,
        device_index: 0,
    };
    vec![
        boxed(planned(&[2, 3], 0)),
        boxed(planned(&[2, 3], 32)),
        boxed(Tensor { buffer: 1, ..tensor(&[2, 3]) }),
        boxed(Tensor { buffer: 1, ..planned(&[4], 64) }),
        boxed(Tensor { extra: Some(outside), ..tensor(&[2]) }),
        Value::Int(2),
        Value::Int(3),
        Value::IntList([5, 6].map(ValueId).to_vec()),
        Value::TensorList([0, 1].map(ValueId).to_vec()),
        Value::OptionalTensorList(vec![Some(ValueId(0)), None, Some(ValueId(15))]),
        Value::Bool(true),
        Value::Double(Float(0.5)),
        Value::DoubleList(vec![Float(-0.0)]),
        Value::BoolList(vec![true]),
        Value::String("text".to_owned()),
        Value::Null,
    ]
}

fn instructions() -> Vec<Instruction> {
    let ids = |ids: &[u32]| ids.iter().copied().map(ValueId).collect();
    vec![
        Instruction::DelegateCall { delegate: 0, args: ids(&[0, 1]) },
        Instruction::KernelCall { operator: 0, args: ids(&[0, 2, 5, 1]) },
        Instruction::Move { from: ValueId(5), to: ValueId(6) },
        Instruction::JumpFalse { condition: ValueId(10), target: 5 },
        Instruction::Free(ValueId(3)),
    ]
}

/// A method that has every kind of value and instruction, and one that is a constant. Segment 0 holds constants, 1 the graph,
/// 2 the graph's weight, 3 initial values.
pub(crate) fn program() -> Program<Vec<u8>> {
    let blob = vulkan::write_blob(&graph(), &STORED).expect("the sample graph is valid");
    let frame = Frame { filename: "a.py".to_owned(), line: 3, function: "forward".to_owned(), context: String::new() };
    let forward = ExecutionPlan {
        name: "forward".to_owned(),
        containers: Some(ContainerMetadata { inputs: "[1]".to_owned(), outputs: String::new() }),
        values: values(),
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(1)],
        chains: vec![Chain {
            inputs: vec![ValueId(0)],
            outputs: vec![ValueId(1)],
            instructions: instructions(),
            stacktrace: Some(vec![vec![frame]; 5]),
        }],
        operators: vec![Operator { name: "aten::add".to_owned(), overload: "out".to_owned() }],
        delegates: vec![Delegate {
            specs: vec![CompileSpec { key: "require_dynamic_shapes".to_owned(), value: vec![1] }],
            ..Delegate::vulkan(DataRef::Segment(SegmentId(1)))
        }],
        buffer_sizes: vec![0, 128],
        buffer_devices: Some(vec![BufferDevice { buffer: 1, device: DeviceType::Cpu, index: 0 }]),
    };
    let constant = ExecutionPlan {
        name: "constant".to_owned(),
        values: vec![Value::Int(7)],
        outputs: vec![ValueId(0)],
        ..ExecutionPlan::default()
    };
    Program {
        plans: vec![forward, constant],
        segments: vec![vec![1; 64], blob, vec![2; 24], vec![3; 16]],
        constants: Some(SubsegmentOffsets { segment: SegmentId(0), offsets: vec![0, 0, 32] }),
        mutable_data: Some(vec![SubsegmentOffsets { segment: SegmentId(3), offsets: vec![0, 0] }]),
        named_data: Some(vec![NamedData { key: "weight".to_owned(), segment: SegmentId(2) }]),
        ..Program::default()
    }
}

/// A tensor and a blob that is none.
pub(crate) fn external() -> ExternalData<Vec<u8>> {
    let layout = TensorLayout { scalar_type: ScalarType::Float, sizes: vec![2], dim_order: vec![0] };
    ExternalData {
        version: 0,
        segments: vec![vec![4; 8], vec![5; 100]],
        entries: vec![
            Entry { key: "outside".to_owned(), segment: SegmentId(0), layout: Some(layout) },
            Entry { key: "blob".to_owned(), segment: SegmentId(1), layout: None },
        ],
    }
}
