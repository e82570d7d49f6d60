//! Generates valid typed content of any shape. Parts are drawn independently, then references between them are made valid.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use pteron_format::external::{Entry, ExternalData, TensorLayout};
use pteron_format::program::{
    AllocationDetails, BufferDevice, Chain, CompileSpec, ContainerMetadata, DataRef, Delegate, DeviceType, ExecutionPlan,
    ExtraTensorInfo, Frame, Instruction, NamedData, Operator, SegmentId, ShapeDynamism, SubsegmentOffsets, Tensor,
    TensorDataLocation, Value, ValueId,
};
use pteron_format::vulkan::{
    self, Call, Constant, ConstantId, ConstantSource, DataType, Graph, MemoryLayout, StorageType, ValueId as GraphId,
};
use pteron_format::{Float, Program, ScalarType};

/// A name, with characters that are hard to handle.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_.:]{0,12}", "\\PC{0,6}", Just("\0\n".to_owned())]
}

/// Any float by its bits, the hard ones often.
fn float() -> impl Strategy<Value = Float> {
    prop_oneof![any::<u64>().prop_map(f64::from_bits), select(vec![0.0, -0.0, f64::NAN, f64::INFINITY])].prop_map(Float)
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

/// The position in a list of `len` that an index means.
fn at(index: &Index, len: usize) -> u32 {
    u32::try_from(index.index(len)).expect("lists are short")
}

fn permutation(rank: usize) -> impl Strategy<Value = Vec<u8>> {
    Just((0..).take(rank).collect::<Vec<u8>>()).prop_shuffle()
}

fn shape() -> impl Strategy<Value = (Vec<u32>, Vec<u8>)> {
    vec(0u32..5, 0..5)
        .prop_flat_map(|sizes| (permutation(sizes.len()), Just(sizes)))
        .prop_map(|(order, sizes)| (sizes, order))
}

/// A planned buffer that any tensor of [`shape`] fits, wherever it starts in the first kilobyte.
const BUFFER: u64 = 8 * 625 + 8 * 16 + 1024;

fn tensor() -> impl Strategy<Value = Tensor> {
    let extra = (any::<u64>(), option::of(name()), select(DeviceType::ALL), any::<i8>()).prop_map(
        |(mutable_segment, name, device, device_index)| {
            let location = if name.is_some() { TensorDataLocation::External } else { TensorDataLocation::Segment };
            ExtraTensorInfo { mutable_segment, name, location, device, device_index }
        },
    );
    let allocation = (0u32..2, 0u64..1024).prop_map(|(memory, offset)| AllocationDetails { memory, offset });
    let flags = (any::<bool>(), any::<i8>(), select(ShapeDynamism::ALL), 0u32..16);
    (select(ScalarType::ALL), shape(), flags, option::of(allocation), option::of(extra)).prop_map(
        |(scalar_type, (sizes, dim_order), (requires_grad, layout, dynamism, storage_offset), allocation, extra)| Tensor {
            scalar_type,
            storage_offset,
            sizes,
            dim_order,
            requires_grad,
            buffer: 0,
            allocation,
            layout,
            dynamism,
            extra,
        },
    )
}

/// Values that refer to no other.
fn plain_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Bool),
        float().prop_map(Value::Double),
        tensor().prop_map(|tensor| Value::Tensor(Box::new(tensor))),
        name().prop_map(Value::String),
        vec(float(), 0..4).prop_map(Value::DoubleList),
        vec(any::<bool>(), 0..4).prop_map(Value::BoolList),
    ]
}

/// An instruction over 1000 values, operators, delegates or instructions.
type RawInstruction = (u8, Index, Vec<Index>);

fn instruction((kind, which, args): &RawInstruction, plan: &ExecutionPlan, instructions: usize) -> Instruction {
    let id = |index: &Index| ValueId(at(index, plan.values.len()));
    let ids = args.iter().map(id).collect();
    match kind {
        0 if !plan.operators.is_empty() => Instruction::KernelCall { operator: at(which, plan.operators.len()), args: ids },
        1 if !plan.delegates.is_empty() => {
            Instruction::DelegateCall { delegate: at(which, plan.delegates.len()), args: ids }
        }
        2 => Instruction::JumpFalse { condition: id(which), target: at(which, instructions + 1) },
        3 => Instruction::Move { from: id(which), to: id(args.first().unwrap_or(which)) },
        _ => Instruction::Free(id(which)),
    }
}

fn chain() -> impl Strategy<Value = (Vec<Index>, Vec<RawInstruction>, Option<Frame>)> {
    let index = any::<Index>;
    let instruction = (0u8..5, index(), vec(index(), 0..4));
    let frame = (name(), any::<i32>(), name(), name()).prop_map(|(filename, line, function, context)| Frame {
        filename,
        line,
        function,
        context,
    });
    (vec(index(), 0..3), vec(instruction, 0..6), option::of(frame))
}

fn plan() -> impl Strategy<Value = ExecutionPlan> {
    let operator = (name(), name()).prop_map(|(name, overload)| Operator { name, overload });
    let spec = (name(), bytes(8)).prop_map(|(key, value)| CompileSpec { key, value });
    let delegate = (vec(spec, 0..3), any::<u8>()).prop_map(|(specs, index)| Delegate {
        id: "AnyBackend".to_owned(),
        data: DataRef::Inline(index.into()),
        specs,
    });
    let lists = vec((0u8..3, vec(option::of(any::<Index>()), 0..4)), 0..4);
    let containers = option::of((name(), name()).prop_map(|(inputs, outputs)| ContainerMetadata { inputs, outputs }));
    let devices = option::of(vec((0u32..2, select(DeviceType::ALL), any::<i8>()), 0..3));
    let ends = (vec(any::<Index>(), 0..4), vec(any::<Index>(), 0..4));
    let parts = (vec(operator, 0..3), vec(delegate, 0..3), vec(chain(), 0..3), devices);
    (containers, vec(plain_value(), 1..8), lists, ends, parts).prop_map(
        |(containers, mut values, lists, (inputs, outputs), (operators, delegates, chains, devices))| {
            add_lists(&mut values, lists);
            let ids = |list: &[Index]| list.iter().map(|index| ValueId(at(index, values.len()))).collect::<Vec<_>>();
            let (inputs, outputs) = (ids(&inputs), ids(&outputs));
            let chain_ids: Vec<_> = chains.iter().map(|(ends, _, _)| ids(ends)).collect();
            let devices = devices.map(|devices| {
                devices.into_iter().map(|(buffer, device, index)| BufferDevice { buffer, device, index }).collect()
            });
            let mut plan = ExecutionPlan {
                name: String::new(),
                containers,
                values,
                inputs,
                outputs,
                chains: Vec::new(),
                operators,
                delegates,
                buffer_sizes: vec![BUFFER, BUFFER],
                buffer_devices: devices,
            };
            for ((_, raw, frame), ends) in chains.iter().zip(chain_ids) {
                let instructions: Vec<_> = raw.iter().map(|raw_one| instruction(raw_one, &plan, raw.len())).collect();
                let stacktrace = frame.as_ref().map(|frame| vec![vec![frame.clone(); 2]; instructions.len()]);
                plan.chains.push(Chain { inputs: ends.clone(), outputs: ends, instructions, stacktrace });
            }
            plan
        },
    )
}

/// Lists of what is there: a list that finds nothing of its kind is empty.
fn add_lists(values: &mut Vec<Value>, lists: Vec<(u8, Vec<Option<Index>>)>) {
    let all = |is: fn(&Value) -> bool| -> Vec<u32> {
        (0..).zip(values.iter()).filter(|(_, value)| is(value)).map(|(id, _)| id).collect()
    };
    let (ints, tensors) = (all(|v| matches!(v, Value::Int(_))), all(|v| matches!(v, Value::Tensor(_))));
    let pick = |from: &[u32], index: &Index| (!from.is_empty()).then(|| ValueId(*index.get(from)));
    let made: Vec<Value> = lists
        .into_iter()
        .map(|(kind, items)| match kind {
            0 => Value::IntList(items.iter().flatten().filter_map(|index| pick(&ints, index)).collect()),
            1 => Value::TensorList(items.iter().flatten().filter_map(|index| pick(&tensors, index)).collect()),
            _ => Value::OptionalTensorList(
                items.iter().map(|index| index.as_ref().and_then(|index| pick(&tensors, index))).collect(),
            ),
        })
        .collect();
    values.extend(made);
}

fn subsegments() -> impl Strategy<Value = (Index, Vec<Index>)> {
    (any::<Index>(), vec(any::<Index>(), 0..5))
}

/// A valid program. Its delegates are of a backend that is not looked into.
pub(crate) fn program() -> impl Strategy<Value = Program<Vec<u8>>> {
    let data = (vec(bytes(300), 0..5), vec(bytes(40), 0..4), vec(bytes(40), 0..4));
    let names = option::of(btree_set(name(), 0..5));
    let lists = (option::of(subsegments()), option::of(vec(subsegments(), 0..3)));
    (data, names, lists, vec(plan(), 0..3)).prop_map(
        |((segments, inline_constants, inline_delegates), names, (constants, mutable_data), plans)| {
            let segment = |index: u32| SegmentId(index % u32::try_from(segments.len()).expect("few segments"));
            let list = |(which, offsets): (Index, Vec<Index>)| {
                let which = which.index(segments.len());
                let len = segments[which].len();
                let mut offsets: Vec<u64> = offsets.iter().map(|offset| offset.index(len + 1) as u64).collect();
                offsets.sort_unstable();
                SubsegmentOffsets { segment: segment(u32::try_from(which).expect("few segments")), offsets }
            };
            let none = segments.is_empty();
            let named = |names: std::collections::BTreeSet<String>| {
                (0..).zip(names).map(|(index, key)| NamedData { key, segment: segment(index) }).collect()
            };
            let mut program = Program {
                version: 0,
                plans,
                constants: constants.filter(|_| !none).map(list),
                mutable_data: mutable_data.filter(|_| !none).map(|lists| lists.into_iter().map(list).collect()),
                named_data: names.filter(|_| !none).map(named),
                segments: segments.clone(),
                inline_constants,
                inline_delegates,
            };
            finish_plans(&mut program);
            program
        },
    )
}

/// Names methods apart, gives delegates bytes that are there, and gives the first tensor of each a constant if one fits.
fn finish_plans(program: &mut Program<Vec<u8>>) {
    let (segments, inline) = (program.segments.len(), program.inline_delegates.len());
    let in_segment = program.constants.as_ref().is_some_and(|list| !list.offsets.is_empty());
    for (index, plan) in program.plans.iter_mut().enumerate() {
        plan.name = format!("method {index}");
        for delegate in &mut plan.delegates {
            let DataRef::Inline(number) = delegate.data else { continue };
            let number = number as usize;
            delegate.data = match (inline, segments) {
                (0, 0) => DataRef::Inline(0),
                (0, _) => DataRef::Segment(SegmentId(u32::try_from(number % segments).expect("few segments"))),
                _ => DataRef::Inline(u32::try_from(number % inline).expect("few delegates")),
            };
        }
        if inline == 0 && segments == 0 {
            plan.delegates.clear();
            for chain in &mut plan.chains {
                chain.instructions.clear();
                chain.stacktrace = None;
            }
        }
        let constant = (1..).zip(program.inline_constants.iter().skip(1)).next().filter(|_| !in_segment);
        let tensor = plan.values.iter_mut().find_map(|value| match value {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        });
        if let (Some((buffer, bytes)), Some(tensor)) = (constant, tensor) {
            let sizes = vec![u32::try_from(bytes.len()).expect("short constants")];
            let (scalar_type, dim_order) = (ScalarType::Byte, vec![0]);
            **tensor =
                Tensor { scalar_type, sizes, dim_order, buffer, storage_offset: 0, allocation: None, ..(**tensor).clone() };
        }
    }
}

fn graph_value() -> impl Strategy<Value = vulkan::Value> {
    use vulkan::Value as V;
    let places = (select(StorageType::ALL), select(MemoryLayout::ALL));
    let dtypes = (select(DataType::ALL), option::of(select(DataType::ALL)));
    let memory = option::of(0..=i32::MAX.unsigned_abs());
    let tensor = (vec(0u32..9, 0..6), dtypes, memory, places).prop_map(
        |(dims, (dtype, staging), memory_object, (storage, layout))| {
            V::Tensor(vulkan::Tensor { dtype, dims, constant: None, memory_object, storage, layout, staging })
        },
    );
    prop_oneof![
        4 => tensor,
        1 => Just(V::Null),
        1 => any::<i64>().prop_map(V::Int),
        1 => float().prop_map(V::Double),
        1 => any::<bool>().prop_map(V::Bool),
        1 => vec(any::<i64>(), 0..5).prop_map(V::IntList),
        1 => vec(float(), 0..5).prop_map(V::DoubleList),
        1 => vec(any::<bool>(), 0..5).prop_map(V::BoolList),
        1 => name().prop_map(V::String),
        1 => any::<i32>().prop_map(V::SymInt),
    ]
}

/// A valid graph, and the bytes of its stored constants.
pub(crate) fn graph() -> impl Strategy<Value = (Graph, Vec<u8>)> {
    let index = any::<Index>;
    let call = (any::<u32>(), name(), vec(index(), 0..6));
    let ends = (vec(index(), 0..4), vec(index(), 0..4), vec(index(), 0..4));
    let overrides = (select(StorageType::ALL), select(MemoryLayout::ALL));
    let constants = vec(option::of("[a-f0-9]{1,64}"), 0..4);
    (name(), vec(graph_value(), 1..10), vec(call, 0..5), ends, constants, overrides).prop_map(
        |(version, mut values, chain, (inputs, outputs, list), constants, (storage_override, layout_override))| {
            let ids = |list: &[Index], len: usize| list.iter().map(|index| GraphId(at(index, len))).collect::<Vec<_>>();
            values.push(vulkan::Value::ValueList(ids(&list, values.len())));
            let len = values.len();
            let mut stored = Vec::new();
            let constants = add_constants(&mut values, &mut stored, constants);
            let call = |(node_id, name, args): (u32, String, Vec<Index>)| Call { node_id, name, args: ids(&args, len) };
            let chain = chain.into_iter().map(call).collect();
            let (inputs, outputs) = (ids(&inputs, len), ids(&outputs, len));
            let shaders = Vec::new();
            (
                Graph { version, chain, values, inputs, outputs, constants, shaders, storage_override, layout_override },
                stored,
            )
        },
    )
}

/// One constant per tensor at the start of the list: named data, or part of the stored bytes.
fn add_constants(values: &mut [vulkan::Value], stored: &mut Vec<u8>, keys: Vec<Option<String>>) -> Vec<Constant> {
    let tensors = values.iter_mut().filter_map(|value| match value {
        vulkan::Value::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let add = |((id, key), tensor): ((u32, Option<String>), &mut vulkan::Tensor)| {
        tensor.dims.truncate(2);
        tensor.constant = Some(ConstantId(id));
        let len = tensor.byte_len().expect("small tensors");
        let source = match key {
            Some(key) => ConstantSource::Named(key),
            None => {
                let offset = stored.len() as u64;
                stored.resize(stored.len() + usize::try_from(len).expect("small tensors"), 0xab);
                ConstantSource::Stored(offset)
            }
        };
        Constant { len, source }
    };
    (0..).zip(keys).zip(tensors).map(add).collect()
}

/// Valid external data.
pub(crate) fn external() -> impl Strategy<Value = ExternalData<Vec<u8>>> {
    let entry = (select(ScalarType::ALL), shape(), any::<bool>());
    (btree_set(name(), 0..5), vec(entry, 5), vec(bytes(200), 0..3)).prop_map(|(keys, entries, mut segments)| {
        let entries = keys.into_iter().zip(entries).map(|(key, (scalar_type, (sizes, dim_order), typed))| {
            let elements = pteron_format::element_count(sizes.iter().copied()).expect("small tensors");
            let len = usize::try_from(elements * scalar_type.size()).expect("small tensors");
            let segment = SegmentId(u32::try_from(segments.len()).expect("few segments"));
            segments.push(vec![7; len]);
            Entry { key, segment, layout: typed.then_some(TensorLayout { scalar_type, sizes, dim_order }) }
        });
        let entries = entries.collect();
        ExternalData { version: 0, segments, entries }
    })
}
