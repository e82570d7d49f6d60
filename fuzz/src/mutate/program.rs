//! Changes to fields of a typed program.

use fastrand::Rng;
use pteron_format::program::{
    AllocationDetails, BufferDevice, Chain, ContainerMetadata, DataRef, Delegate, DeviceType, ExecutionPlan,
    ExtraTensorInfo, Frame, Instruction, NamedData, Operator, SegmentId, ShapeDynamism, SubsegmentOffsets, Tensor,
    TensorDataLocation, Value, ValueId,
};
use pteron_format::{Program, ScalarType};

use super::atoms::{data, index, list, name, number, number32, optional_list};
use super::external::{float, scalar_type};

/// Lengths of the lists that indices refer to.
struct Lens {
    values: usize,
    operators: usize,
    delegates: usize,
    buffers: usize,
    segments: usize,
    inline: usize,
}

pub(super) fn mutate(rng: &mut Rng, program: &mut Program<Vec<u8>>) {
    let segments = program.segments.len();
    match rng.u8(..24) {
        0 => program.version = number32(rng, program.version),
        1 | 2 => list(rng, &mut program.segments, data),
        3 => {
            program.inline_constants.push(vec![0; rng.usize(..80)]);
            list(rng, &mut program.inline_constants, data);
        }
        4 => {
            program.inline_delegates.push(Vec::new());
            list(rng, &mut program.inline_delegates, data);
        }
        5 => match &mut program.constants {
            Some(old) if rng.u8(..8) > 0 => subsegments(rng, old, segments),
            Some(_) => program.constants = None,
            None => program.constants = Some(SubsegmentOffsets { segment: SegmentId(0), offsets: vec![0, 0] }),
        },
        6 => {
            optional_list(rng, &mut program.mutable_data, |rng, old| subsegments(rng, old, segments));
            if let Some(lists) = &mut program.mutable_data
                && lists.is_empty()
            {
                lists.push(SubsegmentOffsets { segment: SegmentId(0), offsets: vec![0, 0, 1] });
            }
        }
        7 | 8 => {
            optional_list(rng, &mut program.named_data, |rng, entry| match rng.bool() {
                true => name(rng, &mut entry.key),
                false => entry.segment = SegmentId(index(rng, entry.segment.0, segments)),
            });
            if rng.u8(..8) == 0 {
                let entry = NamedData { key: "x".to_owned(), segment: SegmentId(0) };
                program.named_data.get_or_insert_default().push(entry);
            }
        }
        _ => {
            let inline = program.inline_delegates.len();
            list(rng, &mut program.plans, |rng, changed| plan(rng, changed, segments, inline));
        }
    }
}

fn subsegments(rng: &mut Rng, list_: &mut SubsegmentOffsets, segments: usize) {
    match rng.u8(..3) {
        0 => list_.segment = SegmentId(index(rng, list_.segment.0, segments)),
        1 => list_.offsets.push(number(rng, 0)),
        _ => list(rng, &mut list_.offsets, |rng, offset| *offset = number(rng, *offset)),
    }
}

fn ids(rng: &mut Rng, items: &mut Vec<ValueId>, values: usize) {
    if rng.u8(..8) == 0 {
        items.push(ValueId(index(rng, 0, values)));
    }
    list(rng, items, |rng, id| *id = ValueId(index(rng, id.0, values)));
}

fn plan(rng: &mut Rng, plan: &mut ExecutionPlan, segments: usize, inline: usize) {
    let lens = Lens {
        values: plan.values.len(),
        operators: plan.operators.len(),
        delegates: plan.delegates.len(),
        buffers: plan.buffer_sizes.len(),
        segments,
        inline,
    };
    match rng.u8(..20) {
        0 => name(rng, &mut plan.name),
        1 => match &mut plan.containers {
            Some(old) => name(rng, &mut old.inputs),
            None => plan.containers = Some(ContainerMetadata { inputs: String::new(), outputs: "out".to_owned() }),
        },
        2..7 => list(rng, &mut plan.values, |rng, changed| value(rng, changed, &lens)),
        7 => ids(rng, &mut plan.inputs, lens.values),
        8 => ids(rng, &mut plan.outputs, lens.values),
        9..14 => list(rng, &mut plan.chains, |rng, changed| chain(rng, changed, &lens)),
        14 => {
            if plan.operators.is_empty() {
                plan.operators.push(Operator { name: "aten::add".to_owned(), overload: "out".to_owned() });
            }
            list(rng, &mut plan.operators, |rng, operator| name(rng, &mut operator.name));
        }
        15 | 16 => list(rng, &mut plan.delegates, |rng, changed| delegate(rng, changed, &lens)),
        17 | 18 => list(rng, &mut plan.buffer_sizes, |rng, size| *size = number(rng, *size)),
        _ => {
            let devices = plan.buffer_devices.get_or_insert_default();
            devices.push(BufferDevice { buffer: index(rng, 0, lens.buffers), device: DeviceType::Cuda, index: rng.i8(..) });
            list(rng, devices, |rng, device| device.buffer = index(rng, device.buffer, lens.buffers));
        }
    }
}

fn delegate(rng: &mut Rng, delegate: &mut Delegate, lens: &Lens) {
    match rng.u8(..4) {
        0 => name(rng, &mut delegate.id),
        1 => list(rng, &mut delegate.specs, |rng, spec| data(rng, &mut spec.value)),
        2 => delegate.data = DataRef::Inline(index(rng, 0, lens.inline)),
        _ => delegate.data = DataRef::Segment(SegmentId(index(rng, 1, lens.segments))),
    }
}

fn chain(rng: &mut Rng, chain: &mut Chain, lens: &Lens) {
    match rng.u8(..8) {
        0 => ids(rng, &mut chain.inputs, lens.values),
        1 => ids(rng, &mut chain.outputs, lens.values),
        2 => {
            let frame = Frame { filename: "f".to_owned(), line: -1, function: "g".to_owned(), context: String::new() };
            chain.stacktrace = Some(vec![vec![frame]; chain.instructions.len()]);
        }
        3 => optional_list(rng, &mut chain.stacktrace, |rng, frames| {
            list(rng, frames, |rng, frame| name(rng, &mut frame.filename));
        }),
        4 => {
            let at = rng.usize(..=chain.instructions.len());
            chain.instructions.insert(at, any_instruction(rng, lens, at));
        }
        _ => {
            let len = chain.instructions.len();
            list(rng, &mut chain.instructions, |rng, changed| instruction(rng, changed, lens, len));
        }
    }
}

fn any_instruction(rng: &mut Rng, lens: &Lens, len: usize) -> Instruction {
    let id = |rng: &mut Rng| ValueId(index(rng, 0, lens.values));
    match rng.u8(..5) {
        0 => Instruction::KernelCall { operator: index(rng, 0, lens.operators), args: vec![id(rng), id(rng)] },
        1 => Instruction::DelegateCall { delegate: index(rng, 0, lens.delegates), args: vec![id(rng), id(rng)] },
        2 => Instruction::Move { from: id(rng), to: id(rng) },
        3 => Instruction::JumpFalse { condition: id(rng), target: index(rng, 0, len + 1) },
        _ => Instruction::Free(id(rng)),
    }
}

fn instruction(rng: &mut Rng, instruction: &mut Instruction, lens: &Lens, len: usize) {
    if rng.u8(..6) == 0 {
        *instruction = any_instruction(rng, lens, len);
        return;
    }
    match instruction {
        Instruction::KernelCall { operator, .. } if rng.u8(..3) == 0 => *operator = index(rng, *operator, lens.operators),
        Instruction::DelegateCall { delegate, .. } if rng.u8(..3) == 0 => *delegate = index(rng, *delegate, lens.delegates),
        Instruction::KernelCall { args, .. } | Instruction::DelegateCall { args, .. } => ids(rng, args, lens.values),
        Instruction::Move { from, .. } => *from = ValueId(index(rng, from.0, lens.values)),
        Instruction::JumpFalse { target, .. } => *target = index(rng, *target, len + 1),
        Instruction::Free(id) => *id = ValueId(index(rng, id.0, lens.values)),
    }
}

fn value(rng: &mut Rng, value: &mut Value, lens: &Lens) {
    if rng.u8(..6) == 0 {
        *value = any_value(rng, lens);
        return;
    }
    match value {
        Value::Null => *value = any_value(rng, lens),
        Value::Int(old) => *old = number(rng, old.cast_unsigned()).cast_signed(),
        Value::Bool(old) => *old = !*old,
        Value::Double(old) => *old = float(rng),
        Value::Tensor(old) => tensor(rng, old, lens),
        Value::String(text) => name(rng, text),
        Value::IntList(items) | Value::TensorList(items) => ids(rng, items, lens.values),
        Value::DoubleList(items) => list(rng, items, |rng, item| *item = float(rng)),
        Value::BoolList(items) => list(rng, items, |_, item| *item = !*item),
        Value::OptionalTensorList(items) => list(rng, items, |rng, item| {
            *item = rng.bool().then(|| ValueId(index(rng, 0, lens.values)));
        }),
    }
}

fn any_value(rng: &mut Rng, lens: &Lens) -> Value {
    let id = |rng: &mut Rng| ValueId(index(rng, 0, lens.values));
    match rng.u8(..11) {
        0 => Value::Null,
        1 => Value::Int(i64::MIN),
        2 => Value::Bool(false),
        3 => Value::Double(float(rng)),
        4 => Value::Tensor(Box::new(Tensor::new(scalar_type(rng), &[1, 2, 3]))),
        5 => Value::String("text".to_owned()),
        6 => Value::IntList(vec![id(rng), id(rng)]),
        7 => Value::DoubleList(vec![float(rng)]),
        8 => Value::BoolList(vec![true]),
        9 => Value::TensorList(vec![id(rng)]),
        _ => Value::OptionalTensorList(vec![Some(id(rng)), None]),
    }
}

fn tensor(rng: &mut Rng, tensor: &mut Tensor, lens: &Lens) {
    match rng.u8(..12) {
        0 => tensor.scalar_type = scalar_type(rng),
        1 => tensor.storage_offset = number32(rng, tensor.storage_offset),
        2 | 3 => list(rng, &mut tensor.sizes, |rng, size| *size = number32(rng, *size)),
        4 => list(rng, &mut tensor.dim_order, |rng, dim| *dim = rng.u8(..20)),
        5 => {
            // One more dimension of one: still valid, up to the largest rank.
            tensor.dim_order.push(u8::try_from(tensor.sizes.len()).unwrap_or(u8::MAX));
            tensor.sizes.push(1);
        }
        6 => tensor.buffer = index(rng, tensor.buffer, 4),
        7 => {
            let old = tensor.allocation.unwrap_or(AllocationDetails { memory: 1, offset: 0 });
            tensor.allocation = match rng.u8(..3) {
                0 => None,
                1 => Some(AllocationDetails { memory: index(rng, old.memory, lens.buffers), ..old }),
                _ => Some(AllocationDetails { offset: number(rng, old.offset), ..old }),
            };
        }
        8 => tensor.dynamism = *rng.choice(ShapeDynamism::ALL).unwrap_or(&ShapeDynamism::Static),
        9 => tensor.layout = rng.i8(..),
        10 => tensor.scalar_type = ScalarType::Byte,
        _ => {
            tensor.extra = rng.bool().then(|| ExtraTensorInfo {
                mutable_segment: number(rng, 0),
                name: rng.bool().then(|| "weight".to_owned()),
                location: *rng.choice(TensorDataLocation::ALL).unwrap_or(&TensorDataLocation::Segment),
                device: *rng.choice(DeviceType::ALL).unwrap_or(&DeviceType::Cpu),
                device_index: rng.i8(..),
            });
        }
    }
}
