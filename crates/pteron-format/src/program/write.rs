//! Writes typed values to tables, leaves first as flatbuffers require.

use pteron_schema::program as fb;
use pteron_schema::{Builder, ForwardsUOffset, UnionWIPOffset, Vector, WIPOffset, create_aligned_bytes};

use super::*;
use crate::error::{Error, Item, Location, Problem, Result, Section};

type Off<T> = WIPOffset<T>;
type Tables<'b, T> = Option<Off<Vector<'b, ForwardsUOffset<T>>>>;

/// Writes the program's tables; `segments` are the ranges of its segments relative to the segment base.
pub(crate) fn write_tables<'b, D: Data>(
    b: &mut Builder<'b>,
    program: &Program<D>,
    segments: &[ByteRange],
) -> Result<Off<fb::Program<'b>>> {
    let execution_plan = tables(b, &program.plans, plan);
    let constant_buffer = inline(b, &program.inline_constants, |b, bytes| {
        fb::BufferArgs { storage: Some(bytes), ..Default::default() }.write(b)
    })?;
    let backend_delegate_data = inline(b, &program.inline_delegates, |b, bytes| {
        fb::BackendDelegateInlineDataArgs { data: Some(bytes), ..Default::default() }.write(b)
    })?;
    let segments = tables(b, segments, |b, place| {
        fb::DataSegmentArgs { offset: place.start, size: place.len, ..Default::default() }.write(b)
    });
    let constant_segment = program.constants.as_ref().map(|list| subsegments(b, list));
    let mutable_data_segments = program.mutable_data.as_ref().and_then(|lists| tables(b, lists, subsegments));
    let named_data = program.named_data.as_ref().and_then(|entries| {
        tables(b, entries, |b, entry| {
            let key = Some(b.create_string(&entry.key));
            fb::NamedDataArgs { key, segment_index: entry.segment.0, ..Default::default() }.write(b)
        })
    });
    let version = program.version;
    Ok(fb::ProgramArgs {
        version,
        execution_plan,
        constant_buffer,
        backend_delegate_data,
        segments,
        constant_segment,
        mutable_data_segments,
        named_data,
        ..Default::default()
    }
    .write(b))
}

/// A vector of tables, each written by `write`.
pub(crate) fn tables<'b, S, T>(
    b: &mut Builder<'b>,
    items: &[S],
    mut write: impl FnMut(&mut Builder<'b>, &S) -> Off<T>,
) -> Tables<'b, T>
where
    T: 'b,
{
    let offsets: Vec<_> = items.iter().map(|item| write(b, item)).collect();
    Some(b.create_vector(&offsets))
}

fn inline<'b, D: Data, T: 'b>(
    b: &mut Builder<'b>,
    items: &[D],
    write: impl Fn(&mut Builder<'b>, Off<Vector<'b, u8>>) -> Off<T>,
) -> Result<Tables<'b, T>> {
    let mut offsets = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(bytes) = item.bytes() else {
            let location = Location { section: Section::Program, item: Item::Entry { kind: "inline data", index } };
            return Err(Error::new(location, Problem::NoBytes { what: "data inside the tables" }));
        };
        let bytes = create_aligned_bytes(b, bytes);
        offsets.push(write(b, bytes));
    }
    Ok(Some(b.create_vector(&offsets)))
}

fn subsegments<'b>(b: &mut Builder<'b>, list: &SubsegmentOffsets) -> Off<fb::SubsegmentOffsets<'b>> {
    let offsets = Some(b.create_vector(&list.offsets));
    fb::SubsegmentOffsetsArgs { segment_index: list.segment.0, offsets, ..Default::default() }.write(b)
}

/// Ids are stored signed; `verify` has bounded them by the number of values, which a flatbuffer bounds far below 2³¹.
pub(crate) fn signed(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn ids<'b>(b: &mut Builder<'b>, ids: &[ValueId]) -> Option<Off<Vector<'b, i32>>> {
    Some(b.create_vector_from_iter(ids.iter().map(|id| signed(id.0))))
}

fn plan<'b>(b: &mut Builder<'b>, plan: &ExecutionPlan) -> Off<fb::ExecutionPlan<'b>> {
    let container_meta_type = plan.containers.as_ref().map(|meta| {
        let encoded_inp_str = Some(b.create_string(&meta.inputs));
        let encoded_out_str = Some(b.create_string(&meta.outputs));
        fb::ContainerMetadataArgs { encoded_inp_str, encoded_out_str, ..Default::default() }.write(b)
    });
    let args = fb::ExecutionPlanArgs {
        name: Some(b.create_string(&plan.name)),
        container_meta_type,
        values: tables(b, &plan.values, value),
        inputs: ids(b, &plan.inputs),
        outputs: ids(b, &plan.outputs),
        chains: tables(b, &plan.chains, chain),
        operators: tables(b, &plan.operators, |b, operator| {
            let name = Some(b.create_string(&operator.name));
            let overload = Some(b.create_string(&operator.overload));
            fb::OperatorArgs { name, overload, ..Default::default() }.write(b)
        }),
        delegates: tables(b, &plan.delegates, delegate),
        non_const_buffer_sizes: Some(
            b.create_vector_from_iter(plan.buffer_sizes.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX))),
        ),
        non_const_buffer_device: plan.buffer_devices.as_ref().and_then(|devices| {
            tables(b, devices, |b, device| {
                fb::NonConstBufferDeviceArgs {
                    buffer_idx: signed(device.buffer),
                    device_type: device.device.to_wire(),
                    device_index: device.index,
                    ..Default::default()
                }
                .write(b)
            })
        }),
        ..Default::default()
    };
    args.write(b)
}

fn value<'b>(b: &mut Builder<'b>, value: &Value) -> Off<fb::EValue<'b>> {
    let (tag, content) = match value {
        Value::Null => (fb::Null::TAG, fb::NullArgs::default().write(b).as_union_value()),
        Value::Int(int_val) => {
            (fb::Int::TAG, fb::IntArgs { int_val: *int_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Bool(bool_val) => {
            (fb::Bool::TAG, fb::BoolArgs { bool_val: *bool_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Double(Float(double_val)) => {
            (fb::Double::TAG, fb::DoubleArgs { double_val: *double_val, ..Default::default() }.write(b).as_union_value())
        }
        Value::Tensor(t) => (fb::Tensor::TAG, tensor(b, t).as_union_value()),
        Value::String(text) => {
            let string_val = Some(b.create_string(text));
            (fb::String::TAG, fb::StringArgs { string_val, ..Default::default() }.write(b).as_union_value())
        }
        list => list_value(b, list),
    };
    fb::EValueArgs { val: Some((tag, content)), ..Default::default() }.write(b)
}

fn list_value(b: &mut Builder<'_>, value: &Value) -> (u8, Off<UnionWIPOffset>) {
    match value {
        Value::IntList(items) => {
            let items = Some(b.create_vector_from_iter(items.iter().map(|id| i64::from(id.0))));
            (fb::IntList::TAG, fb::IntListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::DoubleList(items) => {
            let items = Some(b.create_vector_from_iter(items.iter().map(|item| item.0)));
            (fb::DoubleList::TAG, fb::DoubleListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::BoolList(items) => {
            let items = Some(b.create_vector(items));
            (fb::BoolList::TAG, fb::BoolListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::TensorList(items) => {
            let items = ids(b, items);
            (fb::TensorList::TAG, fb::TensorListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        Value::OptionalTensorList(items) => {
            let items = Some(b.create_vector_from_iter(items.iter().map(|item| item.map_or(-1, |id| signed(id.0)))));
            (
                fb::OptionalTensorList::TAG,
                fb::OptionalTensorListArgs { items, ..Default::default() }.write(b).as_union_value(),
            )
        }
        // The other kinds are written by `value`.
        _ => (fb::Null::TAG, fb::NullArgs::default().write(b).as_union_value()),
    }
}

fn tensor<'b>(b: &mut Builder<'b>, tensor: &Tensor) -> Off<fb::Tensor<'b>> {
    let sizes = Some(b.create_vector_from_iter(tensor.sizes.iter().map(|&size| signed(size))));
    let dim_order = Some(b.create_vector(&tensor.dim_order));
    let allocation_info = tensor.allocation.map(|allocation| {
        let [low, high] = [allocation.offset & u64::from(u32::MAX), allocation.offset >> 32];
        fb::AllocationDetailsArgs {
            memory_id: allocation.memory,
            memory_offset_low: u32::try_from(low).unwrap_or(u32::MAX),
            memory_offset_high: u32::try_from(high).unwrap_or(u32::MAX),
            ..Default::default()
        }
        .write(b)
    });
    let extra_tensor_info = tensor.extra.as_ref().map(|extra| {
        let fully_qualified_name = extra.name.as_ref().map(|name| b.create_string(name));
        fb::ExtraTensorInfoArgs {
            mutable_data_segments_idx: extra.mutable_segment,
            fully_qualified_name,
            location: extra.location.to_wire(),
            device_type: extra.device.to_wire(),
            device_index: extra.device_index,
            ..Default::default()
        }
        .write(b)
    });
    fb::TensorArgs {
        scalar_type: tensor.scalar_type.to_wire(),
        storage_offset: signed(tensor.storage_offset),
        sizes,
        dim_order,
        requires_grad: tensor.requires_grad,
        data_buffer_idx: tensor.buffer,
        allocation_info,
        layout: tensor.layout,
        shape_dynamism: tensor.dynamism.to_wire(),
        extra_tensor_info,
        ..Default::default()
    }
    .write(b)
}

fn delegate<'b>(b: &mut Builder<'b>, delegate: &Delegate) -> Off<fb::BackendDelegate<'b>> {
    let (location, index) = match delegate.data {
        DataRef::Inline(index) => (0, index),
        DataRef::Segment(segment) => (1, segment.0),
    };
    let processed = Some(fb::BackendDelegateDataReferenceArgs { location, index, ..Default::default() }.write(b));
    let id = Some(b.create_string(&delegate.id));
    let compile_specs = tables(b, &delegate.specs, |b, spec| {
        let key = Some(b.create_string(&spec.key));
        let value = Some(b.create_vector(&spec.value));
        fb::CompileSpecArgs { key, value, ..Default::default() }.write(b)
    });
    fb::BackendDelegateArgs { id, processed, compile_specs, ..Default::default() }.write(b)
}

fn chain<'b>(b: &mut Builder<'b>, chain: &Chain) -> Off<fb::Chain<'b>> {
    let args = fb::ChainArgs {
        inputs: ids(b, &chain.inputs),
        outputs: ids(b, &chain.outputs),
        instructions: tables(b, &chain.instructions, instruction),
        stacktrace: chain.stacktrace.as_ref().and_then(|stacks| {
            tables(b, stacks, |b, frames| {
                let items = tables(b, frames, frame);
                fb::FrameListArgs { items, ..Default::default() }.write(b)
            })
        }),
        ..Default::default()
    };
    args.write(b)
}

fn frame<'b>(b: &mut Builder<'b>, frame: &Frame) -> Off<fb::Frame<'b>> {
    let args = fb::FrameArgs {
        filename: Some(b.create_string(&frame.filename)),
        lineno: frame.line,
        name: Some(b.create_string(&frame.function)),
        context: Some(b.create_string(&frame.context)),
        ..Default::default()
    };
    args.write(b)
}

fn instruction<'b>(b: &mut Builder<'b>, instruction: &Instruction) -> Off<fb::Instruction<'b>> {
    let instr_args = match instruction {
        Instruction::KernelCall { operator, args } => {
            let args = ids(b, args);
            let call = fb::KernelCallArgs { op_index: signed(*operator), args, ..Default::default() };
            (fb::KernelCall::TAG, call.write(b).as_union_value())
        }
        Instruction::DelegateCall { delegate, args } => {
            let args = ids(b, args);
            let call = fb::DelegateCallArgs { delegate_index: signed(*delegate), args, ..Default::default() };
            (fb::DelegateCall::TAG, call.write(b).as_union_value())
        }
        Instruction::Move { from, to } => {
            let call = fb::MoveCallArgs { move_from: signed(from.0), move_to: signed(to.0), ..Default::default() };
            (fb::MoveCall::TAG, call.write(b).as_union_value())
        }
        Instruction::JumpFalse { condition, target } => {
            let call = fb::JumpFalseCallArgs {
                cond_value_index: signed(condition.0),
                destination_instruction: signed(*target),
                ..Default::default()
            };
            (fb::JumpFalseCall::TAG, call.write(b).as_union_value())
        }
        Instruction::Free(value) => {
            let call = fb::FreeCallArgs { value_index: signed(value.0), ..Default::default() };
            (fb::FreeCall::TAG, call.write(b).as_union_value())
        }
    };
    fb::InstructionArgs { instr_args: Some(instr_args), ..Default::default() }.write(b)
}
