//! Rules about the tables themselves, which only hand-written tables can break: missing fields, unknown and negative numbers, and
//! malformed flatbuffers.

use pteron_format::vulkan::{Value, read_blob};
use pteron_format::{Problem, Pte, fuzzing};
use pteron_schema::program as pt;
use pteron_schema::vulkan as vk;
use pteron_schema::{Builder, UnionWIPOffset, WIPOffset};

use crate::common::check;
use crate::{assert_fault, assert_refused, fault};

type Union = Option<(u8, WIPOffset<UnionWIPOffset>)>;

fn program(args: impl FnOnce(&mut Builder<'static>) -> pt::ProgramArgs<'static>, data: &[u8]) -> Vec<u8> {
    let mut b = Builder::new();
    let root = args(&mut b).write(&mut b);
    b.finish(root, Some("ET12"));
    fuzzing::program_file(b.finished_data(), data)
}

/// A program of one method.
fn plan(args: impl FnOnce(&mut Builder<'static>) -> pt::ExecutionPlanArgs<'static>) -> Vec<u8> {
    program(
        |b| {
            let mut args = args(b);
            args.name = Some(b.create_string("m"));
            let plan = args.write(b);
            pt::ProgramArgs { execution_plan: Some(b.create_vector(&[plan])), ..Default::default() }
        },
        &[],
    )
}

/// A method of one value.
fn value(val: impl FnOnce(&mut Builder<'static>) -> Union) -> Vec<u8> {
    plan(|b| {
        let val = val(b);
        let value = pt::EValueArgs { val, ..Default::default() }.write(b);
        pt::ExecutionPlanArgs { values: Some(b.create_vector(&[value])), ..Default::default() }
    })
}

fn tensor(args: impl FnOnce(&mut Builder<'static>) -> pt::TensorArgs<'static>) -> Vec<u8> {
    value(|b| Some((pt::Tensor::TAG, args(b).write(b).as_union_value())))
}

fn instruction(args: impl FnOnce(&mut Builder<'static>) -> Union) -> Vec<u8> {
    plan(|b| {
        let instr_args = args(b);
        let instruction = pt::InstructionArgs { instr_args, ..Default::default() }.write(b);
        let instructions = Some(b.create_vector(&[instruction]));
        let chain = pt::ChainArgs { instructions, ..Default::default() }.write(b);
        pt::ExecutionPlanArgs { chains: Some(b.create_vector(&[chain])), ..Default::default() }
    })
}

fn null(b: &mut Builder<'static>) -> WIPOffset<UnionWIPOffset> {
    pt::NullArgs::default().write(b).as_union_value()
}

const VALUE: &str = r#"method "m", value 0"#;
const METHOD: &str = r#"method "m""#;

#[test]
fn unknown_numbers_are_named() {
    let unknown = |what, value| Problem::Unknown { what, value };
    let rules = [
        ("a value", value(|b| Some((12, null(b)))), VALUE, unknown("the kind of value", 12)),
        (
            "an element type",
            tensor(|_| pt::TensorArgs { scalar_type: 8, ..Default::default() }),
            VALUE,
            unknown("a tensor's element type", 8),
        ),
        (
            "a dynamism",
            tensor(|_| pt::TensorArgs { shape_dynamism: -1, ..Default::default() }),
            VALUE,
            unknown("a tensor's shape dynamism", -1),
        ),
        (
            "a data location",
            tensor(|b| {
                let extra = pt::ExtraTensorInfoArgs { location: 2, ..Default::default() }.write(b);
                pt::TensorArgs { extra_tensor_info: Some(extra), ..Default::default() }
            }),
            VALUE,
            unknown("a tensor's data location", 2),
        ),
        (
            "a device",
            tensor(|b| {
                let extra = pt::ExtraTensorInfoArgs { device_type: 9, ..Default::default() }.write(b);
                pt::TensorArgs { extra_tensor_info: Some(extra), ..Default::default() }
            }),
            VALUE,
            unknown("a device type", 9),
        ),
        (
            "a delegate's data location",
            plan(|b| {
                let id = Some(b.create_string("x"));
                let processed = pt::BackendDelegateDataReferenceArgs { location: 2, ..Default::default() }.write(b);
                let delegate = pt::BackendDelegateArgs { id, processed: Some(processed), ..Default::default() }.write(b);
                pt::ExecutionPlanArgs { delegates: Some(b.create_vector(&[delegate])), ..Default::default() }
            }),
            METHOD,
            unknown("a delegate's data location", 2),
        ),
    ];
    for (rule, file, place, problem) in rules {
        assert_refused(&file, &fault(place, problem), rule);
    }
    let error = Pte::read(instruction(|b| Some((6, null(b)))).as_slice()).unwrap_err();
    check::error_text(&error);
    assert_eq!(error.problem, unknown("the kind of instruction", 6));
    assert!(error.location.to_string().starts_with(r#"method "m", byte "#), "{error}");
}

#[test]
fn numbers_that_count_are_not_negative() {
    let negative = |what| Problem::Negative { what, value: -2 };
    let rules = [
        (
            "a dimension",
            tensor(|b| pt::TensorArgs { sizes: Some(b.create_vector(&[3, -2])), ..Default::default() }),
            VALUE,
            negative("a dimension"),
        ),
        (
            "a storage offset",
            tensor(|_| pt::TensorArgs { storage_offset: -2, ..Default::default() }),
            VALUE,
            negative("the storage offset"),
        ),
        (
            "an input",
            plan(|b| pt::ExecutionPlanArgs { inputs: Some(b.create_vector(&[-2])), ..Default::default() }),
            METHOD,
            negative("a value id"),
        ),
        (
            "a planned buffer",
            plan(|b| {
                let non_const_buffer_sizes = Some(b.create_vector(&[0i64, -2]));
                pt::ExecutionPlanArgs { non_const_buffer_sizes, ..Default::default() }
            }),
            METHOD,
            negative("a planned buffer's size"),
        ),
        (
            "an operator",
            instruction(|b| {
                let call = pt::KernelCallArgs { op_index: -2, ..Default::default() }.write(b);
                Some((pt::KernelCall::TAG, call.as_union_value()))
            }),
            METHOD,
            negative("an operator's index"),
        ),
        (
            "a delegate",
            instruction(|b| {
                let call = pt::DelegateCallArgs { delegate_index: -2, ..Default::default() }.write(b);
                Some((pt::DelegateCall::TAG, call.as_union_value()))
            }),
            METHOD,
            negative("a delegate's index"),
        ),
        (
            "a jump's target",
            instruction(|b| {
                let call = pt::JumpFalseCallArgs { destination_instruction: -2, ..Default::default() }.write(b);
                Some((pt::JumpFalseCall::TAG, call.as_union_value()))
            }),
            METHOD,
            negative("a jump's target"),
        ),
        (
            "an item of a list, where only −1 is None",
            value(|b| {
                let items = Some(b.create_vector(&[-1, -2]));
                let list = pt::OptionalTensorListArgs { items, ..Default::default() }.write(b);
                Some((pt::OptionalTensorList::TAG, list.as_union_value()))
            }),
            METHOD,
            negative("a value id"),
        ),
    ];
    for (rule, file, place, problem) in rules {
        assert_refused(&file, &fault(place, problem), rule);
    }
}

#[test]
fn required_fields_are_there() {
    let missing = |what| Problem::Missing { what };
    let rules = [
        ("a value's content", value(|_| None), VALUE, missing("its content")),
        (
            "a method's name",
            program(
                |b| {
                    let plan = pt::ExecutionPlanArgs::default().write(b);
                    pt::ProgramArgs { execution_plan: Some(b.create_vector(&[plan])), ..Default::default() }
                },
                &[],
            ),
            "program",
            missing("a method's name"),
        ),
        (
            "a data key",
            program(
                |b| {
                    let entry = pt::NamedDataArgs::default().write(b);
                    pt::ProgramArgs { named_data: Some(b.create_vector(&[entry])), ..Default::default() }
                },
                &[],
            ),
            "program",
            missing("a data key"),
        ),
        (
            "an operator's name",
            plan(|b| {
                let operator = pt::OperatorArgs::default().write(b);
                pt::ExecutionPlanArgs { operators: Some(b.create_vector(&[operator])), ..Default::default() }
            }),
            METHOD,
            missing("an operator's name"),
        ),
        (
            "a delegate's place",
            plan(|b| {
                let delegate = pt::BackendDelegateArgs::default().write(b);
                pt::ExecutionPlanArgs { delegates: Some(b.create_vector(&[delegate])), ..Default::default() }
            }),
            METHOD,
            missing("the place of a delegate's data"),
        ),
    ];
    for (rule, file, place, problem) in rules {
        assert_refused(&file, &fault(place, problem), rule);
    }
}

#[test]
fn segments_are_aligned() {
    let file = |offset, size| {
        program(
            |b| {
                let segment = pt::DataSegmentArgs { offset, size, ..Default::default() }.write(b);
                pt::ProgramArgs { segments: Some(b.create_vector(&[segment])), ..Default::default() }
            },
            &[0; 64],
        )
    };
    let place = "program, segment 0";
    let problem = Problem::Alignment { what: "the segment", offset: 8, alignment: 16 };
    assert_refused(&file(8, 16), &fault(place, problem), "the alignment");
    let problem = Problem::Range { what: "the segment", start: 16, end: 65, limit: 64 };
    assert_refused(&file(16, 49), &fault(place, problem), "the end");
    let problem = Problem::Range { what: "the segment", start: 16, end: u64::MAX, limit: 64 };
    assert_refused(&file(16, u64::MAX), &fault(place, problem), "an end that cannot be counted");
    assert!(Pte::read(file(u64::MAX, 0)).is_ok(), "an empty segment is nowhere");
}

#[test]
fn strings_are_utf8_and_end_in_a_zero() {
    let file = plan(|_| pt::ExecutionPlanArgs::default());
    let at = file.windows(2).rposition(|pair| pair == *b"m\0").unwrap();
    for (byte, value, reason) in [
        (at, 0xff, "the flatbuffer is damaged: a string is not valid UTF-8 (in field `name`)"),
        (at + 1, 1, "the flatbuffer is damaged: a string does not end in a zero byte (in field `name`)"),
    ] {
        let mut file = file.clone();
        file[byte] = value;
        let error = Pte::read(file.as_slice()).unwrap_err();
        assert_eq!(error.to_string(), format!("program, byte {at}: {reason}"));
    }
}

/// The exporter's writer aligns numbers, not the length before them: an empty list lies where it falls.
#[test]
fn empty_lists_lie_anywhere() {
    let mut b = Builder::new();
    let items = Some(b.create_vector::<i64>(&[1]));
    let list = vk::IntListArgs { items, ..Default::default() }.write(&mut b).as_union_value();
    let value = vk::VkValueArgs { value: Some((vk::IntList::TAG, list)), ..Default::default() }.write(&mut b);
    let values = Some(b.create_vector(&[value]));
    let root = vk::VkGraphArgs { values, ..Default::default() }.write(&mut b);
    b.finish(root, Some("VK00"));
    let mut tables = b.finished_data().to_vec();
    // The length, then the only number. With both gone, the list may begin four bytes later.
    let list = tables.windows(12).position(|bytes| *bytes == *b"\x01\0\0\0\x01\0\0\0\0\0\0\0").unwrap();
    let offset = (0..list).step_by(4).find(|&at| points(&tables, at, list)).unwrap();
    tables[list..list + 12].fill(0);
    tables[offset] += 4;
    let blob = read_blob(&fuzzing::blob_file(&tables, &[]).unwrap()).unwrap();
    assert_eq!(blob.graph.values, [Value::IntList(Vec::new())]);

    // A list that is not empty must be aligned.
    tables[list + 4] = 1;
    let error = read_blob(&fuzzing::blob_file(&tables, &[]).unwrap()).unwrap_err();
    assert!(error.to_string().ends_with("a number is not aligned (in field `items`)"), "{error}");
}

/// Whether the word at `at` is an offset to `target`.
fn points(tables: &[u8], at: usize, target: usize) -> bool {
    let offset = u32::from_le_bytes(tables[at..at + 4].try_into().unwrap());
    at + offset as usize == target
}

#[test]
fn graphs_name_unknown_and_negative_numbers() {
    let tensor = |args: vk::VkTensorArgs<'static>| {
        let mut b = Builder::new();
        let content = args.write(&mut b).as_union_value();
        let value = vk::VkValueArgs { value: Some((vk::VkTensor::TAG, content)), ..Default::default() }.write(&mut b);
        let values = Some(b.create_vector(&[value]));
        let root = vk::VkGraphArgs { values, ..Default::default() }.write(&mut b);
        b.finish(root, Some("VK00"));
        fuzzing::blob_file(b.finished_data(), &[]).unwrap()
    };
    let unset = vk::VkTensorArgs { constant_id: -1, mem_obj_id: -1, ..Default::default() };
    assert!(read_blob(&tensor(unset)).is_ok());
    let unknown = |what, value| Problem::Unknown { what, value };
    let negative = |what| Problem::Negative { what, value: -2 };
    for (args, problem) in [
        (vk::VkTensorArgs { datatype: 8, ..unset }, unknown("a tensor's element type", 8)),
        (vk::VkTensorArgs { staging_datatype: -1, ..unset }, unknown("a tensor's element type", -1)),
        (vk::VkTensorArgs { storage_type: 3, ..unset }, unknown("a tensor's storage type", 3)),
        (vk::VkTensorArgs { memory_layout: 7, ..unset }, unknown("a tensor's memory layout", 7)),
        (vk::VkTensorArgs { constant_id: -2, ..unset }, negative("its constant's id")),
        (vk::VkTensorArgs { mem_obj_id: -2, ..unset }, negative("its memory object's id")),
    ] {
        let error = read_blob(&tensor(args)).unwrap_err();
        assert_fault(&error, &fault("graph, value 0", problem), "a tensor");
    }
}
