//! Rules about the blob: its header, identifiers, and what only tables can say.

use pteron_format::xnnpack::{read_blob, write_blob};
use pteron_format::{Problem, fuzzing};
use pteron_schema::xnnpack as fb;
use pteron_schema::{Builder, UnionWIPOffset, WIPOffset};

use super::assert_blob_refused;
use crate::common::xnnpack::{Build, sample};
use crate::fault;

#[test]
fn the_header_is_checked() {
    let Build { graph, stored } = sample();
    let blob = write_blob(&graph, &stored).unwrap();
    let u32_at = |at: usize| u64::from(u32::from_le_bytes(blob[at..at + 4].try_into().unwrap()));
    let (tables_len, start) = (u32_at(14), u32_at(18));
    let have = blob.len() as u64;
    let order = |what, start, previous_end| Problem::Order { what, start, previous_end };
    let alignment = |what, offset| Problem::Alignment { what, offset, alignment: 16 };
    let truncated = |need| Problem::Truncated { what: "the constants' bytes", need, have };
    let (tables, constants) = ("the graph's flatbuffer", "the constants' bytes");
    let magic = |found: &str| Problem::Magic { what: "the graph's identifier", found: found.to_owned(), expected: "XN01" };
    let moved = u32::try_from(start + 8).unwrap().to_le_bytes();
    let rules: [(usize, &[u8], &str, Problem); 10] = [
        // Without its magic the blob is taken for a flatbuffer.
        (4, b"????", "graph, byte 4", magic("????")),
        (8, &[29, 0], "graph, byte 8", Problem::Size { what: "the delegate header's length", found: 29, expected: 30 }),
        (10, &[29, 0, 0, 0], "graph, byte 10", order(tables, 29, 30)),
        (10, &[40, 0, 0, 0], "graph, byte 10", alignment(tables, 40)),
        (18, &[48, 0, 0, 0], "graph, byte 18", order(constants, 48, 32 + tables_len)),
        (18, &moved, "graph, byte 18", alignment(constants, start + 8)),
        (14, &[0xff; 4], "graph, byte 18", order(constants, start, 32 + u64::from(u32::MAX))),
        (22, &[0xff; 8], "graph, byte START", truncated(u64::MAX)),
        (36, b"VK00", "graph, byte 4", magic("VK00")),
        (14, &[4, 0, 0, 0], "graph, byte 4", Problem::Truncated { what: "the graph's identifier", need: 8, have: 4 }),
    ];
    for (at, bytes, place, problem) in rules {
        let mut blob = blob.clone();
        blob[at..at + bytes.len()].copy_from_slice(bytes);
        let error = read_blob(&blob).unwrap_err();
        let place = place.replace("START", &start.to_string());
        assert_eq!((error.location.to_string(), error.problem), (place, problem), "bytes at {at}");
    }
}

#[test]
fn a_blob_of_a_few_bytes_is_refused() {
    let problem = Problem::Truncated { what: "the delegate's identifier", need: 8, have: 7 };
    assert_blob_refused(b"\0\0\0\0XH0", &fault("graph, byte 4", problem), "too short");
    let problem = Problem::Truncated { what: "the delegate's header", need: 30, have: 8 };
    assert_blob_refused(b"\0\0\0\0XH00", &fault("graph, byte 0", problem), "no header");
}

type Union = (u8, WIPOffset<UnionWIPOffset>);

/// A blob of two values and perhaps a node.
fn blob_of(
    value: impl Fn(&mut Builder<'static>, u32) -> Union,
    node: impl Fn(&mut Builder<'static>) -> Option<Union>,
) -> Vec<u8> {
    let mut b = Builder::new();
    let values = [0, 1].map(|index| {
        let xvalue_union = Some(value(&mut b, index)).filter(|value| value.0 != 0);
        fb::XValueArgs { xvalue_union, ..Default::default() }.write(&mut b)
    });
    let xvalues = Some(b.create_vector(&values));
    let xnode_union = node(&mut b);
    let node = fb::XNodeArgs { xnode_union, ..Default::default() }.write(&mut b);
    let xnodes = Some(b.create_vector(&[node]));
    let root = fb::XnnGraphArgs { xvalues, xnodes, num_externs: 2, ..Default::default() }.write(&mut b);
    b.finish(root, Some("XN01"));
    fuzzing::xnnpack_blob_file(b.finished_data(), &[]).unwrap()
}

/// A float that is argument `index`: the first one in, the second one out.
fn tensor(index: u32) -> fb::XnnTensorValueArgs<'static> {
    let (datatype, num_dims) = (1, 1);
    fb::XnnTensorValueArgs { datatype, num_dims, external_id: index, flags: index + 1, id_out: index, ..Default::default() }
}

fn value_with(change: fn(&mut fb::XnnTensorValueArgs<'static>)) -> impl Fn(&mut Builder<'static>, u32) -> Union {
    move |b, index| {
        let mut args = tensor(index);
        args.dims = Some(b.create_vector(&[4u32]));
        change(&mut args);
        (fb::XnnTensorValue::TAG, args.write(b).as_union_value())
    }
}

fn unary_of(tag: u8, flags: u32) -> impl Fn(&mut Builder<'static>) -> Option<Union> {
    move |b| Some((tag, fb::UnaryArgs { input_id: 0, output_id: 1, flags, ..Default::default() }.write(b).as_union_value()))
}

#[test]
fn values_that_only_tables_can_hold_are_refused() {
    type Change = fn(&mut fb::XnnTensorValueArgs<'static>);

    let unknown = |what, value| Problem::Unknown { what, value };
    let expected = "external with an index, or internal without one";
    let external = |found| Problem::Kind { what: "the value", found, expected };
    let rules: [(&str, Change, Problem); 8] = [
        ("a type of XNNPACK's own", |t| t.datatype = 11, unknown("a tensor's element type", 11)),
        ("no type", |t| t.datatype = 0, unknown("a tensor's element type", 0)),
        ("flags", |t| t.flags = 3, unknown("the value's flags", 3)),
        ("unknown flags", |t| t.flags = 4, unknown("the value's flags", 4)),
        ("internal with an index", |t| t.flags = 0, external("internal with an external index")),
        ("external without", |t| t.external_id = u32::MAX, external("external without an index")),
        ("the number of dims", |t| t.num_dims = 2, Problem::Size { what: "the number of its dims", found: 2, expected: 1 }),
        ("a constant", |t| t.constant_buffer_idx = 1, Problem::Index { what: "its constant's id", index: 1, len: 1 }),
    ];
    for (rule, change, problem) in rules {
        assert_blob_refused(&blob_of(value_with(change), unary_of(4, 0)), &fault("graph, value 0", problem), rule);
    }
    let twice = Problem::Duplicate { what: "the value id", name: "7".to_owned() };
    let blob = blob_of(value_with(|t| t.id_out = 7), unary_of(4, 0));
    assert_blob_refused(&blob, &fault("graph, value 1", twice), "an id twice");
}

#[test]
fn values_and_quantisations_of_unknown_kinds_are_refused() {
    let nothing = |b: &mut Builder<'static>| fb::PerTensorQuantArgs::default().write(b).as_union_value();
    let blob = blob_of(|b, _| (0, nothing(b)), unary_of(4, 0));
    assert_blob_refused(&blob, &fault("graph, value 0", Problem::Missing { what: "its content" }), "absent");
    let blob = blob_of(|b, _| (3, nothing(b)), unary_of(4, 0));
    let problem = Problem::Unknown { what: "the kind of value", value: 3 };
    assert_blob_refused(&blob, &fault("graph, value 0", problem), "unknown");
    let quantised = |tag: Option<u8>| {
        blob_of(
            move |b, index| {
                let dims = Some(b.create_vector(&[4u32]));
                let tensor_value = Some(fb::XnnTensorValueArgs { dims, ..tensor(index) }.write(b));
                let quant_params = tag.map(|tag| (tag, nothing(b)));
                let args = fb::XnnQuantizedTensorValueArgs { tensor_value, quant_params, ..Default::default() };
                (fb::XnnQuantizedTensorValue::TAG, args.write(b).as_union_value())
            },
            unary_of(4, 0),
        )
    };
    let missing = Problem::Missing { what: "its quantisation" };
    assert_blob_refused(&quantised(None), &fault("graph, value 0", missing), "no quantisation");
    let unknown = Problem::Unknown { what: "the kind of quantisation", value: 5 };
    assert_blob_refused(&quantised(Some(5)), &fault("graph, value 0", unknown), "unknown quantisation");
}

#[test]
fn nodes_of_unknown_kinds_are_refused_by_name() {
    let valid = || value_with(|_| {});
    let read = |node: fn(&mut Builder<'static>) -> Option<Union>| blob_of(valid(), node);
    assert!(read_blob(&blob_of(valid(), unary_of(4, 0))).is_ok(), "the others differ in one thing from what is valid");
    let attention = Problem::Unsupported { what: "the node kind", name: "ScaledDotProductAttention" };
    assert_blob_refused(&blob_of(valid(), unary_of(36, 0)), &fault("graph, node 0", attention), "attention");
    for tag in [48, 255] {
        let problem = Problem::Unknown { what: "the node's kind", value: tag.into() };
        assert_blob_refused(&blob_of(valid(), unary_of(tag, 0)), &fault("graph, node 0", problem), "unknown");
    }
    let missing = Problem::Missing { what: "its content" };
    assert_blob_refused(&read(|_| None), &fault("graph, node 0", missing), "absent");
    let flags = Problem::Unknown { what: "the node's flags", value: 1 };
    assert_blob_refused(&blob_of(valid(), unary_of(4, 1)), &fault("graph, node 0 (Sigmoid)", flags), "flags");
    let transpose = |b: &mut Builder<'static>| {
        let perm = Some(b.create_vector(&[0u32]));
        let args = fb::StaticTransposeArgs { num_dims: 2, perm, input_id: 0, output_id: 1, ..Default::default() };
        Some((5, args.write(b).as_union_value()))
    };
    let count = Problem::Size { what: "the number of its dims", found: 2, expected: 1 };
    assert_blob_refused(&read(transpose), &fault("graph, node 0 (StaticTranspose)", count), "its dims");
}
