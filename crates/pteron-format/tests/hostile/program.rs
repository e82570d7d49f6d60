//! Rules about a program's lists, plans and instructions.

use pteron_format::program::{DataRef, ExecutionPlan, Instruction, SegmentId, Value, ValueId};
use pteron_format::{Problem, Program, Pte, Section, fuzzing, write};

use crate::common::{check, sample};
use crate::{Fault, assert_fault, assert_refused, fault};

type Sample = Program<Vec<u8>>;
type Rule = (&'static str, fn(&mut Sample), Fault);

/// Reading and writing reject a program that breaks a rule with the same error.
pub(crate) fn check_rules(rules: &[Rule]) {
    for (rule, change, expected) in rules {
        let mut program = sample::program();
        change(&mut program);
        let file = fuzzing::write_program(&program).unwrap();
        assert_refused(&file, expected, rule);
        assert_fault(&write(&program).unwrap_err(), expected, rule);
    }
}

fn forward(program: &mut Sample) -> &mut ExecutionPlan {
    &mut program.plans[0]
}

fn instruction(program: &mut Sample, index: usize) -> &mut Instruction {
    &mut program.plans[0].chains[0].instructions[index]
}

fn args(program: &mut Sample, index: usize) -> &mut Vec<ValueId> {
    match instruction(program, index) {
        Instruction::KernelCall { args, .. } | Instruction::DelegateCall { args, .. } => args,
        other => panic!("{other:?} has no arguments"),
    }
}

/// Sixteen values, and an index one past them.
fn past_values(what: &'static str) -> Problem {
    Problem::Index { what, index: 16, len: 16 }
}

#[test]
fn ids_are_those_of_values() {
    check_rules(&[
        ("an input", |p| forward(p).inputs[0] = ValueId(16), fault(r#"method "forward""#, past_values("an input"))),
        ("an output", |p| forward(p).outputs[0] = ValueId(16), fault(r#"method "forward""#, past_values("an output"))),
        (
            "a chain's input",
            |p| forward(p).chains[0].inputs[0] = ValueId(16),
            fault(r#"method "forward", chain 0"#, past_values("an input")),
        ),
        (
            "a chain's output",
            |p| forward(p).chains[0].outputs[0] = ValueId(16),
            fault(r#"method "forward", chain 0"#, past_values("an output")),
        ),
        (
            "a delegate's argument",
            |p| args(p, 0)[1] = ValueId(16),
            fault(r#"method "forward", chain 0, instruction 0"#, past_values("an argument")),
        ),
        (
            "a kernel's argument",
            |p| args(p, 1)[3] = ValueId(16),
            fault(r#"method "forward", chain 0, instruction 1"#, past_values("an argument")),
        ),
        (
            "a move's source",
            |p| *instruction(p, 2) = Instruction::Move { from: ValueId(16), to: ValueId(0) },
            fault(r#"method "forward", chain 0, instruction 2"#, past_values("an argument")),
        ),
        (
            "a move's target",
            |p| *instruction(p, 2) = Instruction::Move { from: ValueId(0), to: ValueId(16) },
            fault(r#"method "forward", chain 0, instruction 2"#, past_values("an argument")),
        ),
        (
            "a condition",
            |p| *instruction(p, 3) = Instruction::JumpFalse { condition: ValueId(16), target: 0 },
            fault(r#"method "forward", chain 0, instruction 3"#, past_values("the condition")),
        ),
        (
            "a value that ends",
            |p| *instruction(p, 4) = Instruction::Free(ValueId(16)),
            fault(r#"method "forward", chain 0, instruction 4"#, past_values("an argument")),
        ),
        (
            "an item of a list",
            |p| forward(p).values[7] = Value::IntList(vec![ValueId(16)]),
            fault(r#"method "forward", value 7"#, past_values("an item of the list")),
        ),
        (
            "an item of an optional list",
            |p| forward(p).values[9] = Value::OptionalTensorList(vec![None, Some(ValueId(16))]),
            fault(r#"method "forward", value 9"#, past_values("an item of the list")),
        ),
    ]);
}

#[test]
fn instructions_with_unknown_indices_are_rejected() {
    check_rules(&[
        (
            "an operator",
            |p| *instruction(p, 1) = Instruction::KernelCall { operator: 1, args: Vec::new() },
            fault(
                r#"method "forward", chain 0, instruction 1"#,
                Problem::Index { what: "the operator's index", index: 1, len: 1 },
            ),
        ),
        (
            "a delegate",
            |p| *instruction(p, 0) = Instruction::DelegateCall { delegate: 1, args: Vec::new() },
            fault(
                r#"method "forward", chain 0, instruction 0"#,
                Problem::Index { what: "the delegate's index", index: 1, len: 1 },
            ),
        ),
        (
            "a jump's target; five would be the end of the chain",
            |p| *instruction(p, 3) = Instruction::JumpFalse { condition: ValueId(10), target: 6 },
            fault(
                r#"method "forward", chain 0, instruction 3"#,
                Problem::Index { what: "the jump's target", index: 6, len: 6 },
            ),
        ),
        (
            "a stack trace for every instruction",
            |p| forward(p).chains[0].stacktrace.as_mut().unwrap().truncate(2),
            fault(
                r#"method "forward", chain 0"#,
                Problem::Size { what: "the number of stack traces", found: 2, expected: 5 },
            ),
        ),
        (
            "a planned buffer's device",
            |p| forward(p).buffer_devices.as_mut().unwrap()[0].buffer = 2,
            fault(r#"method "forward""#, Problem::Index { what: "a device's planned buffer", index: 2, len: 2 }),
        ),
    ]);
}

#[test]
fn lists_hold_one_kind_and_no_lists() {
    let kind = |found, expected| Problem::Kind { what: "an item of the list", found, expected };
    check_rules(&[
        (
            "integers",
            |p| forward(p).values[7] = Value::IntList(vec![ValueId(11)]),
            fault(r#"method "forward", value 7"#, kind("a float", "an integer")),
        ),
        (
            "tensors",
            |p| forward(p).values[8] = Value::TensorList(vec![ValueId(15)]),
            fault(r#"method "forward", value 8"#, kind("None", "a tensor")),
        ),
        (
            "tensors or none",
            |p| forward(p).values[9] = Value::OptionalTensorList(vec![Some(ValueId(5))]),
            fault(r#"method "forward", value 9"#, kind("an integer", "a tensor or None")),
        ),
        (
            "a list that holds itself",
            |p| forward(p).values[8] = Value::TensorList(vec![ValueId(8)]),
            fault(r#"method "forward", value 8"#, kind("a list of tensors", "a tensor")),
        ),
    ]);
}

#[test]
fn data_is_where_it_is_said_to_be() {
    let segment = |index| Problem::Index { what: "its segment", index, len: 4 };
    let list = "program, the list of tensors in segment 0";
    check_rules(&[
        (
            "the constants' segment",
            |p| p.constants.as_mut().unwrap().segment = SegmentId(9),
            fault("program, the list of tensors in segment 9", segment(9)),
        ),
        (
            "the initial values' segment",
            |p| p.mutable_data.as_mut().unwrap()[0].segment = SegmentId(4),
            fault("program, the list of tensors in segment 4", segment(4)),
        ),
        (
            "a name's segment",
            |p| p.named_data.as_mut().unwrap()[0].segment = SegmentId(u32::MAX),
            fault("program, named data 0", segment(u32::MAX.into())),
        ),
        (
            "a delegate's segment",
            |p| forward(p).delegates[0].data = DataRef::Segment(SegmentId(4)),
            fault(r#"method "forward", delegate 0"#, segment(4)),
        ),
        (
            "a delegate's data inside the tables",
            |p| forward(p).delegates[0].data = DataRef::Inline(0),
            fault(r#"method "forward", delegate 0"#, Problem::Index { what: "its data", index: 0, len: 0 }),
        ),
        (
            "offsets ascend",
            |p| p.constants.as_mut().unwrap().offsets = vec![0, 32, 16],
            fault(list, Problem::Order { what: "a tensor's data", start: 16, previous_end: 32 }),
        ),
        (
            "offsets lie in the segment",
            |p| p.constants.as_mut().unwrap().offsets[2] = 65,
            fault(list, Problem::Range { what: "a tensor's data", start: 65, end: 65, limit: 64 }),
        ),
    ]);
}

#[test]
fn names_stand_for_one_thing() {
    let duplicate = |what, name: &str| Problem::Duplicate { what, name: name.to_owned() };
    check_rules(&[
        ("methods", |p| p.plans[1].name = "forward".to_owned(), fault("program", duplicate("the method name", "forward"))),
        (
            "data",
            |p| {
                let names = p.named_data.as_mut().unwrap();
                names.push(names[0].clone());
            },
            fault("program", duplicate("the data key", "weight")),
        ),
    ]);
}

#[test]
fn only_the_known_version_is_read() {
    let problem = Problem::Version { what: "the program's version", found: 1, supported: "version 0" };
    check_rules(&[("the version", |p| p.version = 1, fault("program", problem))]);
}

/// The writer does not look into delegates; the reader does.
#[test]
fn delegate_arguments_must_match_the_graph() {
    for args in [vec![0], vec![0, 1, 2]] {
        let mut program = sample::program();
        let found = args.len() as u64;
        let args = args.into_iter().map(ValueId).collect();
        *instruction(&mut program, 0) = Instruction::DelegateCall { delegate: 0, args };
        let problem = Problem::Size { what: "the number of the delegate's arguments", found, expected: 2 };
        let expected = fault(r#"method "forward", chain 0, instruction 0"#, problem);
        assert_refused(&write(&program).unwrap(), &expected, "the number of arguments");
    }
    let mut program = sample::program();
    program.segments[2].pop();
    let problem = Problem::Size { what: "the length of its named data", found: 23, expected: 24 };
    let expected = fault(r#"method "forward", graph of delegate 0, constant 0"#, problem);
    assert_refused(&write(&program).unwrap(), &expected, "the length of a named constant");
}

#[test]
fn a_delegate_of_another_backend_is_not_looked_into() {
    let mut program = sample::program();
    forward(&mut program).delegates[0].id = "Other".to_owned();
    program.segments[1] = b"anything".to_vec();
    let file = write(&program).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.graphs().count(), 0);
    check::program_again(&pte);
}

#[test]
fn names_in_errors_are_short_and_printable() {
    for name in ["\u{1b}[2J\n".repeat(1000), "\u{10ffff}".repeat(1000), "\"\\".repeat(1000)] {
        let mut program = sample::program();
        program.plans[0].name = name;
        program.plans[0].inputs[0] = ValueId(16);
        let error = write(&program).unwrap_err();
        assert!(matches!(error.location.section, Section::Method(_)));
        check::error_text(&error);
    }
}
