//! Rules about a program's tensors.

use pteron_format::program::{AllocationDetails, DeviceType, ExtraTensorInfo, Tensor, TensorDataLocation, Value};
use pteron_format::{Problem, Program, ScalarType};

use crate::common::sample;
use crate::fault;
use crate::program::check_rules;

fn tensor(program: &mut Program<Vec<u8>>, id: usize) -> &mut Tensor {
    match &mut program.plans[0].values[id] {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no tensor"),
    }
}

const VALUE_0: &str = r#"method "forward", value 0"#;
const VALUE_2: &str = r#"method "forward", value 2"#;
const VALUE_3: &str = r#"method "forward", value 3"#;
const VALUE_4: &str = r#"method "forward", value 4"#;

#[test]
fn sizes_can_be_counted() {
    check_rules(&[
        (
            "the rank",
            |p| *tensor(p, 2) = Tensor { buffer: 0, ..sample::tensor(&[1; 17]) },
            fault(VALUE_2, Problem::TooMany { what: "the tensor's rank", found: 17, limit: 16 }),
        ),
        (
            "the order of dimensions: a number twice",
            |p| tensor(p, 2).dim_order = vec![0, 0],
            fault(VALUE_2, Problem::Permutation { what: "the order of dimensions", found: vec![0, 0], rank: 2 }),
        ),
        (
            "the order of dimensions: a number too large",
            |p| tensor(p, 2).dim_order = vec![0, 255],
            fault(VALUE_2, Problem::Permutation { what: "the order of dimensions", found: vec![0, 255], rank: 2 }),
        ),
        (
            "the order of dimensions: too few",
            |p| tensor(p, 2).dim_order = vec![0],
            fault(VALUE_2, Problem::Permutation { what: "the order of dimensions", found: vec![0], rank: 2 }),
        ),
        (
            "the product of the dimensions",
            |p| *tensor(p, 2) = sample::tensor(&[i32::MAX.unsigned_abs(); 3]),
            fault(VALUE_2, Problem::Overflow { what: "the tensor's size" }),
        ),
        (
            "the product with the size of an element",
            |p| {
                *tensor(p, 2) = sample::tensor(&[1 << 30, 1 << 30, 1 << 1]);
                tensor(p, 2).scalar_type = ScalarType::Double;
            },
            fault(VALUE_2, Problem::Overflow { what: "the tensor's size" }),
        ),
    ]);
}

#[test]
fn constants_are_as_long_as_their_type_and_dims_say() {
    check_rules(&[
        (
            "past the next constant",
            |p| tensor(p, 2).sizes = vec![3, 3],
            fault(VALUE_2, Problem::Range { what: "the tensor's data", start: 0, end: 36, limit: 32 }),
        ),
        (
            "past the end of the segment",
            |p| {
                tensor(p, 2).sizes = vec![3, 3];
                tensor(p, 2).buffer = 2;
            },
            fault(VALUE_2, Problem::Range { what: "the tensor's data", start: 32, end: 68, limit: 64 }),
        ),
        (
            "a wider type",
            |p| tensor(p, 2).scalar_type = ScalarType::Long,
            fault(VALUE_2, Problem::Range { what: "the tensor's data", start: 0, end: 48, limit: 32 }),
        ),
        (
            "elements before the first",
            |p| tensor(p, 2).storage_offset = 3,
            fault(VALUE_2, Problem::Range { what: "the tensor's data", start: 0, end: 36, limit: 32 }),
        ),
        (
            "the constant's index",
            |p| tensor(p, 2).buffer = 3,
            fault(VALUE_2, Problem::Index { what: "the constant's index", index: 3, len: 3 }),
        ),
        (
            "the index of a constant inside the tables",
            |p| p.constants = None,
            fault(VALUE_2, Problem::Index { what: "the constant's index", index: 1, len: 0 }),
        ),
        (
            "the length of a constant inside the tables",
            |p| {
                p.constants = None;
                p.inline_constants = vec![Vec::new(), vec![0; 23]];
            },
            fault(VALUE_2, Problem::Size { what: "the constant's length in bytes", found: 23, expected: 24 }),
        ),
    ]);
}

#[test]
fn planned_memory_lies_in_its_buffer() {
    check_rules(&[
        (
            "the buffer",
            |p| tensor(p, 0).allocation = Some(AllocationDetails { memory: 2, offset: 0 }),
            fault(VALUE_0, Problem::Index { what: "the planned buffer", index: 2, len: 2 }),
        ),
        (
            "the end",
            |p| tensor(p, 0).allocation = Some(AllocationDetails { memory: 1, offset: 105 }),
            fault(VALUE_0, Problem::Range { what: "the tensor's planned memory", start: 105, end: 129, limit: 128 }),
        ),
        (
            "an end that cannot be counted",
            |p| tensor(p, 0).allocation = Some(AllocationDetails { memory: 1, offset: u64::MAX }),
            fault(
                VALUE_0,
                Problem::Range { what: "the tensor's planned memory", start: u64::MAX, end: u64::MAX, limit: 128 },
            ),
        ),
        (
            "a smaller buffer",
            |p| p.plans[0].buffer_sizes[1] = 79,
            fault(VALUE_3, Problem::Range { what: "the tensor's planned memory", start: 64, end: 80, limit: 79 }),
        ),
    ]);
}

#[test]
fn initial_values_are_there() {
    check_rules(&[
        (
            "the list",
            |p| p.mutable_data = None,
            fault(VALUE_3, Problem::Index { what: "the list of initial values", index: 0, len: 0 }),
        ),
        (
            "a list by number",
            |p| {
                tensor(p, 3).extra = Some(ExtraTensorInfo {
                    mutable_segment: u64::MAX,
                    name: None,
                    location: TensorDataLocation::Segment,
                    device: DeviceType::Cpu,
                    device_index: 0,
                });
            },
            fault(VALUE_3, Problem::Index { what: "the list of initial values", index: i64::MAX, len: 1 }),
        ),
        (
            "the value",
            |p| tensor(p, 3).buffer = 2,
            fault(VALUE_3, Problem::Index { what: "the constant's index", index: 2, len: 2 }),
        ),
        (
            "its length",
            |p| p.segments[3].truncate(15),
            fault(VALUE_3, Problem::Range { what: "the tensor's data", start: 0, end: 16, limit: 15 }),
        ),
    ]);
}

#[test]
fn an_external_tensor_has_a_name() {
    check_rules(&[(
        "the name",
        |p| tensor(p, 4).extra.as_mut().unwrap().name = None,
        fault(VALUE_4, Problem::Missing { what: "the name of an external tensor" }),
    )]);
}

/// Numbers that a builder accepts and a file cannot store are rejected by the writer.
#[test]
fn numbers_that_the_file_stores_signed_are_bounded() {
    let too_many = |what| Problem::TooMany { what, found: 1 << 31, limit: i32::MAX.unsigned_abs().into() };
    let mut program = sample::program();
    tensor(&mut program, 0).sizes = vec![1 << 31, 0];
    let error = pteron_format::write(&program).unwrap_err();
    crate::assert_fault(&error, &fault(VALUE_0, too_many("a dimension or storage offset")), "a dimension");
    let mut program = sample::program();
    program.plans[0].buffer_sizes[0] = u64::MAX;
    let error = pteron_format::write(&program).unwrap_err();
    let limit = i64::MAX.unsigned_abs();
    let problem = Problem::TooMany { what: "a planned buffer's size", found: u64::MAX, limit };
    crate::assert_fault(&error, &fault(r#"method "forward""#, problem), "a planned buffer");
}
