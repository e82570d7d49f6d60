//! Rules about values, constants and scales.

use pteron_format::Problem;
use pteron_format::xnnpack::{ConstantId, ConstantSource, DataType, External, Quantization, Scales};

use super::{check_rules, output};
use crate::common::xnnpack::{per_channel, per_tensor};
use crate::fault;

/// The first input, the 4-bit weights by group, the bias after them, the 4-bit weights by channel.
const INPUT: &str = "graph, value 0";
const BY_GROUP: &str = "graph, value 3";
const BIAS: &str = "graph, value 4";
const BY_CHANNEL: &str = "graph, value 8";

fn kind(what: &'static str, found: &'static str, expected: &'static str) -> Problem {
    Problem::Kind { what, found, expected }
}

fn number(what: &'static str, found: &str, expected: &'static str) -> Problem {
    Problem::Number { what, found: found.into(), expected }
}

fn by_channel(axis: u32, scales: &[f32]) -> Option<Quantization> {
    Some(Quantization::PerChannel { axis, scales: Scales::Inline(scales.to_vec()) })
}

fn by_group(axis: u32, group_size: u32, id: u32, count: u32) -> Option<Quantization> {
    let scales = Scales::Constant { id: ConstantId(id), count };
    Some(Quantization::PerGroup { axis, group_size, scales })
}

#[test]
fn tensors_can_be_counted() {
    let rank = Problem::TooMany { what: "the tensor's rank", found: 7, limit: 6 };
    let overflow = || Problem::Overflow { what: "the tensor's size" };
    check_rules(&[
        ("the rank", |g| g.values[0].dims = vec![1; 7], fault(INPUT, rank)),
        ("the product of the dims", |g| g.values[0].dims = vec![u32::MAX; 3], fault(INPUT, overflow())),
        ("the product with the element's size", |g| g.values[0].dims = vec![u32::MAX; 2], fault(INPUT, overflow())),
        (
            "half a byte",
            |g| g.values[8].dims = Vec::new(),
            fault(BY_CHANNEL, Problem::Missing { what: "a dim of 4-bit elements" }),
        ),
    ]);
}

#[test]
fn constants_are_as_long_as_their_type_and_dims_say() {
    let size = |found, expected| Problem::Size { what: "its constant's length in bytes", found, expected };
    let range = |start, end| Problem::Range { what: "its data", start, end, limit: 1024 };
    check_rules(&[
        (
            "the constant's id",
            |g| g.values[3].constant = Some(ConstantId(200)),
            fault(BY_GROUP, Problem::Index { what: "its constant's id", index: 201, len: 15 }),
        ),
        ("4-bit rows are padded", |g| g.constants[3].len = 18, fault(BY_CHANNEL, size(18, 20))),
        ("a float less", |g| g.constants[2].len = 28, fault(BIAS, size(28, 32))),
        ("no end", |g| g.constants[2].len = u64::MAX, fault("graph, constant 3", range(256, u64::MAX))),
        (
            "past the stored bytes",
            |g| g.constants[2].source = ConstantSource::Stored(1 << 20),
            fault("graph, constant 3", range(1 << 20, (1 << 20) + 32)),
        ),
    ]);
}

#[test]
fn scales_are_as_many_as_channels_and_finite() {
    let count = |found, expected| Problem::Size { what: "the number of its scales", found, expected };
    let scale = |found| number("its scale", found, "a finite number above 0");
    let length = Problem::Size { what: "the length of its scales in bytes", found: 64, expected: 32 };
    let index = |what, index, len| Problem::Index { what, index, len };
    check_rules(&[
        ("too few", |g| g.values[8].quantization = by_channel(0, &[1.0; 4]), fault(BY_CHANNEL, count(4, 5))),
        ("none", |g| g.values[8].quantization = by_channel(0, &[]), fault(BY_CHANNEL, count(0, 5))),
        ("NaN", |g| g.values[8].quantization = by_channel(0, &[f32::NAN; 5]), fault(BY_CHANNEL, scale("NaN"))),
        ("infinite", |g| g.values[8].quantization = by_channel(0, &[f32::INFINITY; 5]), fault(BY_CHANNEL, scale("inf"))),
        ("zero", |g| g.values[8].quantization = by_channel(0, &[0.0; 5]), fault(BY_CHANNEL, scale("0"))),
        ("negative", |g| output(g, "Convert").quantization = per_tensor(-1.0, 0), {
            fault("graph, value 2", kind("its quantisation", "per tensor", "per token"))
        }),
        ("too many in a constant", |g| g.values[3].quantization = by_group(0, 32, 0, 17), fault(BY_GROUP, count(17, 16))),
        ("a constant of another length", |g| g.constants[0].len = 64, fault(BY_GROUP, length)),
        (
            "a constant that is not there",
            |g| g.values[3].quantization = by_group(0, 32, 99, 16),
            fault(BY_GROUP, index("the id of its scales", 100, 15)),
        ),
        (
            "the dim of channels",
            |g| g.values[8].quantization = by_channel(2, &[1.0; 5]),
            fault(BY_CHANNEL, index("the dim of channels", 2, 2)),
        ),
    ]);
}

#[test]
fn groups_divide_rows() {
    let group = |found| number("the size of a group", found, "a multiple of 32 that divides the width");
    let axis = Problem::Size { what: "the dim of channels", found: 1, expected: 0 };
    check_rules(&[
        ("none", |g| g.values[3].quantization = by_group(0, 0, 0, 16), fault(BY_GROUP, group("0"))),
        ("no multiple of 32", |g| g.values[3].quantization = by_group(0, 16, 0, 32), fault(BY_GROUP, group("16"))),
        ("more than the row", |g| g.values[3].quantization = by_group(0, 128, 0, 8), fault(BY_GROUP, group("128"))),
        ("along the other dim", |g| g.values[3].quantization = by_group(1, 32, 0, 16), fault(BY_GROUP, axis)),
    ]);
}

#[test]
fn the_quantisation_fits_the_type() {
    let zero_point = |found, expected| number("its zero point", found, expected);
    let quantisation = |found, expected| kind("its quantisation", found, expected);
    let rows = Problem::TooMany { what: "the number of dims in a row", found: 3, limit: 2 };
    check_rules(&[
        ("none", |g| g.values[8].quantization = None, fault(BY_CHANNEL, Problem::Missing { what: "its quantisation" })),
        ("of a float", |g| g.values[4].quantization = per_tensor(1.0, 0), {
            fault(BIAS, quantisation("per tensor", "none for its element type"))
        }),
        ("of another kind", |g| g.values[3].quantization = per_channel(0, 8), {
            fault(BY_GROUP, quantisation("per channel", "per group"))
        }),
        ("rows of nothing", |g| g.values[2].quantization = Some(Quantization::PerToken { row_dims: 0 }), {
            fault("graph, value 2", Problem::Missing { what: "the dims of a row" })
        }),
        ("rows of more dims", |g| g.values[2].quantization = Some(Quantization::PerToken { row_dims: 3 }), {
            fault("graph, value 2", rows)
        }),
        ("a zero point that is no int8", |g| g.values[10].quantization = per_tensor(1.0, 128), {
            fault("graph, value 10", zero_point("128", "-128 to 127"))
        }),
        ("a scale of zero", |g| g.values[10].quantization = per_tensor(0.0, 0), {
            fault("graph, value 10", number("its scale", "0", "a finite number above 0"))
        }),
    ]);
}

#[test]
fn a_value_is_a_constant_or_an_argument_as_its_type_allows() {
    let value = |found, expected| kind("the value", found, expected);
    let weights = "a constant, as its element type is one of weights and biases";
    let dynamic = "written by a node, as its element type is qdint8";
    check_rules(&[
        ("both", |g| g.values[4].external = Some(External { index: 1, output: false }), {
            fault(BIAS, value("a constant and external", "one of the two"))
        }),
        ("weights from a node", |g| g.values[8].constant = None, {
            fault(BY_CHANNEL, value("neither a constant nor external", weights))
        }),
        (
            "weights as an argument",
            |g| {
                g.values[8].constant = None;
                g.values[8].external = Some(External { index: 1, output: false });
            },
            fault(BY_CHANNEL, value("external", weights)),
        ),
        ("rows as an argument", |g| g.values[2].external = Some(External { index: 1, output: true }), {
            fault("graph, value 2", value("external", dynamic))
        }),
    ]);
}

#[test]
fn arguments_are_counted_and_distinct() {
    let index = |index, len| Problem::Index { what: "its external index", index, len };
    check_rules(&[
        ("too many", |g| g.external_count = 4097, {
            fault("graph", Problem::TooMany { what: "the number of externals", found: 4097, limit: 4096 })
        }),
        ("an index past them", |g| g.values[0].external = Some(External { index: 7, output: false }), {
            fault(INPUT, index(7, 7))
        }),
        ("fewer than there are", |g| g.external_count = 2, fault("graph, value 1", index(2, 2))),
        ("twice", |g| g.values[1].external = Some(External { index: 0, output: false }), {
            fault("graph, value 1", Problem::Duplicate { what: "the external index", name: "0".to_owned() })
        }),
        (
            "never written",
            |g| {
                g.nodes.pop();
            },
            fault("graph, value 69", Problem::Missing { what: "the node that writes this output" }),
        ),
    ]);
}

#[test]
fn element_types_are_those_that_files_have() {
    assert_eq!(DataType::from_wire(0), None);
    assert_eq!(DataType::from_wire(11), None, "packed by XNNPACK itself");
    assert_eq!(DataType::from_wire(13), None);
    for &dtype in DataType::ALL {
        assert_eq!(DataType::from_wire(dtype.to_wire()), Some(dtype));
    }
}
