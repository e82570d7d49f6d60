//! Rules about a delegate's graph.

use pteron_format::vulkan::{ConstantId, ConstantSource, DataType, Graph, Tensor, Value, ValueId, read_blob, write_blob};
use pteron_format::{Problem, fuzzing, write};

use crate::common::{check, sample};
use crate::{Fault, assert_fault, assert_refused, fault};

type Rule = (&'static str, fn(&mut Graph), Fault);

/// A graph is rejected when it is read alone, when it is written, and inside a program, where the location names the delegate.
fn check_rules(rules: &[Rule]) {
    for (rule, change, expected) in rules {
        let mut graph = sample::graph();
        change(&mut graph);
        let blob = fuzzing::write_blob(&graph, &sample::STORED).unwrap();
        let (read, _) = check::reading(blob.len(), || read_blob(&blob));
        assert!(read.is_none(), "{rule}: accepted");
        assert_fault(&read_blob(&blob).unwrap_err(), expected, rule);
        assert_fault(&write_blob(&graph, &sample::STORED).unwrap_err(), expected, rule);

        let mut program = sample::program();
        program.segments[1] = blob;
        let file = write(&program).unwrap();
        let error = pteron_format::Pte::read(file.as_slice()).unwrap_err();
        let place = error.location.to_string();
        let inside = place.strip_prefix(r#"method "forward", graph of delegate 0"#);
        assert_eq!((inside, &error.problem), (expected.place.strip_prefix("graph"), &expected.problem), "{rule}");
    }
}

fn tensor(graph: &mut Graph, id: usize) -> &mut Tensor {
    match &mut graph.values[id] {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no tensor"),
    }
}

/// Fourteen values, and an index one past them.
fn past_values(what: &'static str) -> Problem {
    Problem::Index { what, index: 14, len: 14 }
}

#[test]
fn ids_are_those_of_values() {
    check_rules(&[
        (
            "an argument",
            |g| g.chain[0].args[1] = ValueId(14),
            fault("graph, call 0 (aten.add.Tensor)", past_values("an argument")),
        ),
        ("an input", |g| g.inputs[0] = ValueId(14), fault("graph", past_values("an input"))),
        ("an output", |g| g.outputs[0] = ValueId(14), fault("graph", past_values("an output"))),
        (
            "an input that no list can have",
            |g| g.inputs[0] = ValueId(u32::MAX),
            fault("graph", Problem::Index { what: "an input", index: u32::MAX.into(), len: 14 }),
        ),
        (
            "an item of a list",
            |g| g.values[4] = Value::ValueList(vec![ValueId(0), ValueId(14)]),
            fault("graph, value 4", past_values("an item of the list")),
        ),
    ]);
}

#[test]
fn lists_of_values_do_not_nest() {
    let found = "a list of values";
    let nested = Problem::Kind { what: "an item of the list", found, expected: "anything but a list of values" };
    check_rules(&[
        (
            "a list that holds itself",
            |g| g.values[4] = Value::ValueList(vec![ValueId(4)]),
            fault("graph, value 4", nested.clone()),
        ),
        (
            "a chain of a thousand lists",
            |g| {
                // Value 14 holds 13, which is no list; 15 holds 14 and so on.
                g.values.extend((13..1013).map(|id| Value::ValueList(vec![ValueId(id)])));
            },
            fault("graph, value 15", nested),
        ),
    ]);
}

#[test]
fn tensors_can_be_counted() {
    check_rules(&[
        (
            "the rank",
            |g| tensor(g, 0).dims = vec![1; 17],
            fault("graph, value 0", Problem::TooMany { what: "the tensor's rank", found: 17, limit: 16 }),
        ),
        (
            "the product of the dimensions",
            |g| tensor(g, 0).dims = vec![u32::MAX; 3],
            fault("graph, value 0", Problem::Overflow { what: "the tensor's size" }),
        ),
        (
            "the product with the size of an element",
            |g| tensor(g, 0).dims = vec![u32::MAX, u32::MAX],
            fault("graph, value 0", Problem::Overflow { what: "the tensor's size" }),
        ),
    ]);
}

#[test]
fn constants_are_as_long_as_their_type_and_dims_say() {
    let size = |found, expected| Problem::Size { what: "its constant's length in bytes", found, expected };
    check_rules(&[
        (
            "the constant's id",
            |g| tensor(g, 1).constant = Some(ConstantId(2)),
            fault("graph, value 1", Problem::Index { what: "its constant's id", index: 2, len: 2 }),
        ),
        ("another dimension", |g| tensor(g, 1).dims = vec![2, 4], fault("graph, value 1", size(24, 32))),
        ("another type", |g| tensor(g, 5).dtype = DataType::Bool, fault("graph, value 5", size(8, 2))),
        ("another length", |g| g.constants[0].len = u64::MAX, fault("graph, value 1", size(u64::MAX, 24))),
        (
            "past the stored bytes",
            |g| g.constants[1].source = ConstantSource::Stored(1),
            fault("graph, constant 1", Problem::Range { what: "its data", start: 1, end: 9, limit: 8 }),
        ),
        (
            "an end that cannot be counted",
            |g| g.constants[1].source = ConstantSource::Stored(u64::MAX - 1),
            fault("graph, constant 1", Problem::Range { what: "its data", start: u64::MAX - 1, end: u64::MAX, limit: 8 }),
        ),
        (
            "a shader past the stored bytes",
            |g| g.shaders = vec![pteron_format::vulkan::Constant { len: 9, source: ConstantSource::Stored(0) }],
            fault("graph, shader 0", Problem::Range { what: "its data", start: 0, end: 9, limit: 8 }),
        ),
    ]);
}

/// The reader, which has no constant to name yet, and the writer both reject an empty key.
#[test]
fn a_constant_has_a_key_or_an_offset() {
    let mut graph = sample::graph();
    graph.constants[0].source = ConstantSource::Named(String::new());
    let blob = fuzzing::write_blob(&graph, &sample::STORED).unwrap();
    let missing = Problem::Missing { what: "the key of a constant without an offset" };
    assert_fault(&read_blob(&blob).unwrap_err(), &fault("graph", missing), "read");
    let missing = Problem::Missing { what: "its key" };
    let error = write_blob(&graph, &sample::STORED).unwrap_err();
    assert_fault(&error, &fault("graph, constant 0", missing), "written");
}

#[test]
fn ids_that_the_file_stores_signed_are_bounded() {
    let mut graph = sample::graph();
    tensor(&mut graph, 0).memory_object = Some(1 << 31);
    let problem = Problem::TooMany { what: "an id", found: 1 << 31, limit: i32::MAX.unsigned_abs().into() };
    let error = write_blob(&graph, &sample::STORED).unwrap_err();
    assert_fault(&error, &fault("graph, value 0", problem), "a memory object");
}

#[test]
fn the_blobs_header_is_checked() {
    let blob = write_blob(&sample::graph(), &sample::STORED).unwrap();
    let u32_at = |at: usize| u64::from(u32::from_le_bytes(blob[at..at + 4].try_into().unwrap()));
    let (tables, tables_len, stored) = (u32_at(10), u32_at(14), u32_at(18));
    let len = blob.len() as u64;
    let truncated = |what, need| Problem::Truncated { what, need, have: len };
    let magic = |what, expected| Problem::Magic { what, found: "????".to_owned(), expected };
    let order = |what, start, previous_end| Problem::Order { what, start, previous_end };
    let rules: [(usize, &[u8], &'static str, Problem); 8] = [
        (4, b"????", "graph, byte 4", magic("the delegate header's magic", "VH00")),
        (8, &[31, 0], "graph, byte 8", Problem::Size { what: "the delegate header's length", found: 31, expected: 30 }),
        (10, &[29, 0, 0, 0], "graph, byte 10", order("the graph's flatbuffer", 29, 30)),
        (18, &[33, 0, 0, 0], "graph, byte 18", order("the constants' bytes", 33, tables + tables_len)),
        (14, &[0xff; 4], "graph, byte 18", order("the constants' bytes", stored, tables + u64::from(u32::MAX))),
        (22, &[0xff; 8], "graph, byte STORED", truncated("the constants' bytes", u64::MAX)),
        (36, b"????", "graph, byte 4", magic("the graph's identifier", "VK00")),
        (18, &[0xff; 4], "graph, byte 4294967295", truncated("the constants' bytes", u64::from(u32::MAX) + 8)),
    ];
    for (at, bytes, place, problem) in rules {
        let mut blob = blob.clone();
        blob[at..at + bytes.len()].copy_from_slice(bytes);
        let error = read_blob(&blob).unwrap_err();
        let place = place.replace("STORED", &stored.to_string());
        check::error_text(&error);
        assert_eq!((error.location.to_string(), error.problem), (place, problem), "bytes at {at}");
    }
}

#[test]
fn a_delegate_that_is_no_graph_is_refused_with_its_place() {
    let mut program = sample::program();
    program.segments[1] = b"short".to_vec();
    let problem = Problem::Truncated { what: "the delegate's header", need: 30, have: 5 };
    let expected = fault(r#"method "forward", graph of delegate 0, byte 0"#, problem);
    assert_refused(&write(&program).unwrap(), &expected, "no header");
}
